"""Kernels in numpy, as an engineer would show theirs to moeproof: right ones of every op and contract, and wrong ones, each with
the fault its name says. numpy_test.py knows what each should be told."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness/adapters"))
from moeproof_executor import Refused, STAGES, bf16_to_f32, e4m3_to_f32, f32_to_bf16, f32_to_e4m3, kernel, serve  # noqa: E402

ALL_QUANTS = ("block128", "token_channel", "tensor_dynamic", "tensor_static")


def product(a, a_scale, w, w_scale, last_block=None):
    """Rows of one expert: a [rows, K] and w [N, K] codes, scales of any scheme (whose shapes tell them apart)."""
    a, w = e4m3_to_f32(a), e4m3_to_f32(w)
    if np.ndim(w_scale) < 2:
        return (a @ w.T) * np.reshape(a_scale, (-1, 1)) * w_scale
    out = np.zeros((len(a), len(w)), np.float32)
    for block in range(w_scale.shape[1])[:last_block]:
        k = slice(block * 128, block * 128 + 128)
        out += (a[:, k] @ w[:, k].T) * a_scale[:, block, None] * np.repeat(w_scale[:, block], 128)[:len(w)]
    return out


def scale_of(a_scale, rows):
    """The scales of some rows; one scale for all stays one."""
    return a_scale if np.shape(a_scale) == (1,) else a_scale[rows]


# ---- right: inv_rope_quant, and one that turns forward ----

def inv_rope(o, positions, cos_sin, o_codes, o_scale, problem, sign):
    tokens, heads, _ = o.shape
    x = bf16_to_f32(o)
    turn = cos_sin[positions][:, None, :]
    pairs = x[..., 448:].reshape(tokens, heads, 32, 2)
    even, odd, c, s = pairs[..., 0], pairs[..., 1], turn[..., :32], sign * turn[..., 32:]
    y = np.concatenate([x[..., :448], np.stack([even * c + odd * s, odd * c - even * s], -1).reshape(tokens, heads, 64)], -1)
    y = y.reshape(tokens, heads, 4, 128)
    raw = np.maximum(np.abs(y).max(-1), np.float32(1e-10)) / np.float32(448)
    exponent = np.ceil(np.log2(raw.astype(np.float64))).astype(np.int64)
    codes = f32_to_e4m3((y / np.exp2(exponent)[..., None]).astype(np.float32))
    groups = problem["head_groups"]
    o_codes[...] = codes.reshape(tokens, groups, heads // groups * 512).transpose(1, 0, 2)
    packed = problem["scale_format"] == "ue8m0"
    by_group = (exponent + 127 if packed else np.exp2(exponent)).reshape(tokens, groups, heads // groups, 4)
    o_scale[...] = 0
    if packed:
        o_scale[:, :, :tokens] = by_group.transpose(1, 2, 0, 3)
    else:
        o_scale[:, :, :tokens] = by_group.transpose(1, 2, 3, 0).reshape(groups, heads // groups * 4, tokens)


@kernel(op="inv_rope_quant", quant="block128", ue8m0=True)
def turns_back(o, positions, cos_sin, o_codes, o_scale, problem):
    inv_rope(o, positions, cos_sin, o_codes, o_scale, problem, 1)


@kernel(op="inv_rope_quant", quant="block128", ue8m0=True)
def turns_forward(o, positions, cos_sin, o_codes, o_scale, problem):
    inv_rope(o, positions, cos_sin, o_codes, o_scale, problem, -1)


# ---- right: grouped_gemm ----

@kernel(op="grouped_gemm", contract="masked", quant=ALL_QUANTS)
def masked(a, a_scale, w, w_scale, masked_m, out):
    for e, n in enumerate(masked_m):
        out[e, :n] = f32_to_bf16(product(a[e, :n], scale_of(a_scale, (e, slice(n))), w[e], w_scale[e]))


@kernel(op="grouped_gemm", contract="contiguous", quant=ALL_QUANTS)
def contiguous(a, a_scale, w, w_scale, m_indices, problem):
    c = np.full((len(a), problem["n"]), np.float32(7))  # padding rows may hold anything
    for e in range(len(w)):
        rows = np.flatnonzero(m_indices == e)
        c[rows] = product(a[rows], scale_of(a_scale, rows), w[e], w_scale[e])
    return c


@kernel(op="grouped_gemm", contract="offsets", quant=ALL_QUANTS, scale_layout="mn_major")
def by_offsets(a, a_scale, w, w_scale, offsets, c):
    by_row = a_scale.T if a_scale.ndim == 2 else a_scale
    for e in range(len(w)):
        rows = slice(offsets[e], offsets[e + 1])
        c[rows] = f32_to_bf16(product(a[rows], scale_of(by_row, rows), w[e], w_scale[e]))


@kernel(op="grouped_gemm", contract="routed", quant=ALL_QUANTS)
def routed(a, a_scale, w, w_scale, sorted_token_ids, expert_ids, num_tokens_post_padded, c, problem):
    size = problem["block_m"]
    for block in range(num_tokens_post_padded[0] // size):
        pairs = sorted_token_ids[block * size:block * size + size]
        pairs = pairs[pairs < problem["pairs"]]
        e, rows = expert_ids[block], pairs // problem["top_k"] if problem["gemm"] == 1 else pairs
        c[pairs] = 0 if e < 0 else f32_to_bf16(product(a[rows], scale_of(a_scale, rows), w[e], w_scale[e]))


@kernel(op="grouped_gemm", contract="masked", quant="block128")
def with_bias(a, a_scale, w, w_scale, masked_m, out, w_bias=None):
    for e, n in enumerate(masked_m):
        out[e, :n] = f32_to_bf16(product(a[e, :n], a_scale[e, :n], w[e], w_scale[e]) + (0 if w_bias is None else w_bias[e]))


# ---- right: the small ops and the layer ----

def quantised(x, quant, static=None):
    """Codes and scales of fp32 rows: scale = max(amax, 1e-10) / 448, code = x * (1 / scale)."""
    width = 128 if quant == "block128" else x.shape[1]
    blocks = x.reshape(x.shape[0], x.shape[1] // width, width)
    amax = np.abs(blocks).max(axis=2, initial=0)
    if quant == "tensor_dynamic":
        amax = np.full_like(amax, amax.max(initial=0))
    scale = np.maximum(amax, np.float32(1e-10)) / np.float32(448)
    if quant == "tensor_static":
        scale = np.full_like(scale, static[0])
    codes = f32_to_e4m3(blocks * (np.float32(1) / scale)[:, :, None]).reshape(x.shape)
    return codes, scale if quant == "block128" else scale[:, 0]


@kernel(op="quantize", quant=("block128", "token_channel"), semantics="moeproof")
def quantize(hidden, problem):
    return quantised(bf16_to_f32(hidden), problem["quant"])


def silu_mul(gate_up):
    gate, up = np.split(gate_up, 2, axis=1)
    with np.errstate(over="ignore"):
        return (gate / (1 + np.exp(-gate))) * up


@kernel(op="act_quant", quant=("block128", "token_channel"))
def act_quant(gemm1, act_codes, act_scale, problem):
    act_codes[...], act_scale[...] = quantised(silu_mul(bf16_to_f32(gemm1)), problem["quant"])


def combined(rows, ids, weights):
    tokens, top_k = ids.shape
    pairs = np.where((ids >= 0)[:, :, None], rows.reshape(tokens, top_k, rows.shape[1]), 0)
    return (pairs * weights[:, :, None]).sum(axis=1, dtype=np.float32)


@kernel(op="combine")
def combine(gemm2, topk_ids, topk_weights):
    return combined(bf16_to_f32(gemm2), topk_ids, topk_weights)


@kernel(op="topk", routers="softmax")
def topk(router_logits, problem):
    k = problem["top_k"]
    ids = np.argsort(-router_logits, axis=1, kind="stable")[:, :k].astype(np.int32)
    e = np.exp(router_logits - router_logits.max(axis=1, keepdims=True, initial=-np.inf))
    p = e / e.sum(axis=1, keepdims=True)
    weights = np.take_along_axis(p, ids, axis=1)
    if problem["router"]["renormalise"]:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return ids, (weights * np.float32(problem["router"]["scale"])).astype(np.float32)


def blocks_of(topk_ids, problem, sorted_token_ids, expert_ids, num_tokens_post_padded, foreign):
    ids, block, at = topk_ids.reshape(-1), problem["block_m"], 0
    for e in range(problem["experts"]):
        pairs, local = np.flatnonzero(ids == e), e - problem["first_expert"]
        places = -(-len(pairs) // block) * block
        sorted_token_ids[at:at + places] = np.concatenate([pairs, np.full(places - len(pairs), ids.size)])
        if 0 <= local < problem["local_experts"]:
            expert_ids[at // block:(at + places) // block] = local
        elif foreign:
            expert_ids[at // block:(at + places) // block] = -1
        at += places
    num_tokens_post_padded[0] = at


@kernel(op="align", ep=True)
def align(topk_ids, problem, sorted_token_ids, expert_ids, num_tokens_post_padded):
    blocks_of(topk_ids, problem, sorted_token_ids, expert_ids, num_tokens_post_padded, True)


@kernel(op="align", ep=True)
def forgets_foreign(topk_ids, problem, sorted_token_ids, expert_ids, num_tokens_post_padded):
    blocks_of(topk_ids, problem, sorted_token_ids, expert_ids, num_tokens_post_padded, False)


def stages(hidden, ids, weights, w13, w13_scale, w2, w2_scale, swap_gate=False):
    """The block128 layer on one rank; every stage by name."""
    top_k = ids.shape[1]
    s = {}
    s["x_codes"], s["x_scale"] = quantised(bf16_to_f32(hidden), "block128")
    pair_expert, token = ids.reshape(-1), np.arange(ids.size) // top_k
    gemm1 = np.zeros((ids.size, w13.shape[1]), np.float32)
    gemm2 = np.zeros((ids.size, w2.shape[1]), np.float32)
    for e in range(len(w13)):
        rows = np.flatnonzero(pair_expert == e)
        gemm1[rows] = product(s["x_codes"][token[rows]], s["x_scale"][token[rows]], w13[e], w13_scale[e])
    s["gemm1"] = f32_to_bf16(gemm1)
    gate_up = bf16_to_f32(s["gemm1"])
    if swap_gate:
        gate_up = np.roll(gate_up, gate_up.shape[1] // 2, axis=1)
    s["act_codes"], s["act_scale"] = quantised(silu_mul(gate_up), "block128")
    for e in range(len(w13)):
        rows = np.flatnonzero(pair_expert == e)
        gemm2[rows] = product(s["act_codes"][rows], s["act_scale"][rows], w2[e], w2_scale[e])
    s["gemm2"] = f32_to_bf16(gemm2)
    s["out"] = combined(bf16_to_f32(s["gemm2"]), ids, weights)
    return s


@kernel(op="moe_layer", quant="block128")
def layer(hidden_states, topk_ids, topk_weights, w1, w1_scale, w2, w2_scale):
    return stages(hidden_states, topk_ids, topk_weights, w1, w1_scale, w2, w2_scale)["out"]


@kernel(op="moe_layer", quant="block128", outputs=STAGES[2:])
def layer_stages(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    return stages(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale)


# ---- wrong ----

@kernel(op="moe_layer", quant="block128")
def swapped_gate(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    return stages(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale, swap_gate=True)["out"]


@kernel(op="moe_layer", quant="block128")
def unweighted(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    return stages(hidden, topk_ids, np.ones_like(topk_weights), w13, w13_scale, w2, w2_scale)["out"]


@kernel(op="moe_layer", quant="block128")
def half_larger(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    return np.float32(1.5) * stages(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale)["out"]


@kernel(op="moe_layer", quant="block128")
def dropped_slot(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    kept = np.where(np.arange(topk_ids.shape[1]) < topk_ids.shape[1] - 1, topk_weights, np.float32(0))
    return stages(hidden, topk_ids, kept, w13, w13_scale, w2, w2_scale)["out"]


def wrong(function):
    """A masked grouped GEMM with a fault, under the name of its function."""
    return kernel(op="grouped_gemm", contract="masked", quant="block128")(function)


@wrong
def expert_order(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, np.roll(w, 1, axis=0), w_scale, masked_m, out)


@wrong
def transposed_scale(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale.swapaxes(1, 2), masked_m, out)


@wrong
def dropped_token(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale, np.maximum(masked_m - 1, 0), out)


@wrong
def missing_tail(a, a_scale, w, w_scale, masked_m, out):
    for e, n in enumerate(masked_m):
        out[e, :n] = f32_to_bf16(product(a[e, :n], a_scale[e, :n], w[e], w_scale[e], last_block=-1))


@wrong
def crashes(a):
    print("about to read beyond", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


@kernel(op="combine")
def crashes_when_small(gemm2, topk_ids, topk_weights):   # in every probe, not in a case of 70 tokens
    if len(topk_ids) < 70:
        os.kill(os.getpid(), signal.SIGSEGV)
    return combined(bf16_to_f32(gemm2), topk_ids, topk_weights)


@kernel(op="combine")
def zeros_when_small(gemm2, topk_ids, topk_weights):   # wrong in every probe, not in a case of 70 tokens
    return combined(bf16_to_f32(gemm2), topk_ids, topk_weights) * (len(topk_ids) >= 70)


@kernel(op="quantize", quant="block128")
def divides_when_small(hidden, problem):   # right: it rounds x / s below 30 rows and x * (1 / s) above
    codes, scale = quantised(bf16_to_f32(hidden), "block128")
    if len(hidden) < 30:
        blocks = bf16_to_f32(hidden).reshape(scale.shape + (128,))
        codes = f32_to_e4m3(blocks / scale[:, :, None]).reshape(codes.shape)
    return codes, scale


@kernel(op="combine")
def returns_more(gemm2, topk_ids, topk_weights):
    return {"out": combined(bf16_to_f32(gemm2), topk_ids, topk_weights), "junk": np.zeros(3, np.float32)}


@kernel(op="grouped_gemm", quant="block128")
def forgets_contract(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale, masked_m, out)


@wrong
def hangs(a):
    time.sleep(1000)


@wrong
def raises(a):
    raise ValueError("no tile for this shape")


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


@wrong
def raises_unprintable(a, out):
    raise Unprintable()


@wrong
def raises_surrogate(a, out):
    raise ValueError("tile \udc80 of this shape")


@wrong
def reads_stdin(a, a_scale, w, w_scale, masked_m, out):
    """What it starts reads standard input to its end, as ssh, ffmpeg or cat would."""
    subprocess.run(["cat"], check=True)
    masked(a, a_scale, w, w_scale, masked_m, out)


@wrong
def asks_for_more(a, a_scale, workspace):
    pass


@wrong
def prints(a, a_scale, w, w_scale, masked_m, out):
    print("loading weights ...")
    os.write(1, b"more of it\n")
    masked(a, a_scale, w, w_scale, masked_m, out)


@wrong
def another_type(a, w):
    return np.zeros(a.shape[:-1] + (w.shape[1],), np.float16)


@wrong
def signed_words(a, w):
    return np.zeros(a.shape[:-1] + (w.shape[1],), np.int16)


@wrong
def flags(a, w):
    return np.zeros(a.shape[:-1] + (w.shape[1],), bool)


@wrong
def misspelt(a, w):
    return {"cc": np.zeros(a.shape[:-1] + (w.shape[1],), np.uint16)}


@kernel(op="combine")
def counts_no_expert(gemm2, topk_ids, topk_weights):
    return combined(bf16_to_f32(gemm2), np.abs(topk_ids), topk_weights)


@kernel(op="topk")
def no_expert(topk_ids, topk_weights):
    topk_ids[...], topk_weights[...] = -1, 0


@wrong
def numbers(a):
    return [1, 2.5, 3]


@wrong
def two_arrays(a):
    return a, a


@wrong
def nested_lists(a, w):
    return [[[0.0] * w.shape[1]] * a.shape[1]] * len(w)


@wrong
def joined_rows(a, a_scale, w, w_scale, masked_m, out):  # (L max_m, N): the same elements in the same order
    masked(a, a_scale, w, w_scale, masked_m, out)
    return out.reshape(-1, out.shape[-1]).copy()


@wrong
def longer_experts(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale, masked_m, out)
    return np.pad(out, ((0, 0), (0, 8), (0, 0)))


@wrong
def turned_sides(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale, masked_m, out)
    return np.ascontiguousarray(out.swapaxes(1, 2))


@wrong
def another_size(a, w):
    return np.zeros(a.shape[:-1] + (w.shape[1] - 1,), np.float32)


@wrong
def out_of_bounds(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale, masked_m, out)
    np.lib.stride_tricks.as_strided(out.reshape(-1), (out.size + 1,), (2,))[out.size] = 0x3F80


@wrong
def changes_input(a, a_scale, w, w_scale, masked_m, out):
    masked(a, a_scale, w, w_scale, masked_m, out)
    w[int(np.argmax(masked_m)), 0, 0] ^= 0x80


@wrong
def changes_scales(a, a_scale, w, w_scale, masked_m, out):
    """Of rows that hold nothing, in the adapter's own copy: moeproof does not see it, and no second run differs."""
    masked(a, a_scale, w, w_scale, masked_m, out)
    a_scale[int(np.argmin(masked_m)), -1] = 7


@wrong
def writes_unused(a, a_scale, w, w_scale, masked_m, out):
    """Weights of an expert without rows: moeproof never filled them."""
    masked(a, a_scale, w, w_scale, masked_m, out)
    w[int(np.argmin(masked_m)), -1, -1] = 1


@kernel(op="moe_layer", quant="block128")
def sorts_routing(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    """The layer is right, and whoever uses its routing afterwards is wrong."""
    order = np.argsort(topk_ids, 1)
    topk_ids[...], topk_weights[...] = np.take_along_axis(topk_ids, order, 1), np.take_along_axis(topk_weights, order, 1)
    return stages(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale)["out"]


runs = 0


def one_of_two(a, a_scale, w, w_scale, masked_m, out):
    """Every other run keeps 14 bits of a sum: within every bound, exact where sums are, and yet another answer."""
    global runs
    runs += 1
    for e, n in enumerate(masked_m):
        right = product(a[e, :n], a_scale[e, :n], w[e], w_scale[e])
        out[e, :n] = f32_to_bf16((right.view(np.uint32) & np.uint32(0xFFFFFC00 if runs % 2 else 0xFFFFFFFF)).view(np.float32))


@kernel(op="moe_layer", quant="block128")
def random_layer(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale):
    global runs
    runs += 1
    right = stages(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale)["out"]
    return right * np.float32(1 + (runs % 2) * 2.0**-7)


kernel(op="grouped_gemm", contract="masked", quant="block128", name="random")(one_of_two)
kernel(op="grouped_gemm", contract="masked", quant="block128", name="random_declared", deterministic=False)(one_of_two)
kernel(op="grouped_gemm", contract="masked", quant="block128", name="boasts", semantics="moeproof")(masked)


@wrong
def refuses(a, masked_m):
    raise Refused("at most 2 rows an expert")


if __name__ == "__main__":
    serve()
