"""A fused MoE layer in Triton, in both operand orders: normal (tokens are the rows of tl.dot) and Swap-AB (weights are).

Contract: grouped_gemm `routed` as vLLM has it (sorted_token_ids, expert_ids, num_tokens_post_padded, groups padded to block_m), and
the whole moe_layer behind the router, which aligns, quantises, multiplies twice and combines with small kernels of its own.
Scales: one a block of 128 x 128, one a tensor, or one a token and channel. The case's layout and tile choose the form.
triton_moe and triton_gemm declare no Semantics; triton_moe_swap_ab etc. declare theirs and are judged to the bit: on a card only,
since the interpreter sums in numpy's order. With neither a card nor TRITON_INTERPRET=1 every case is skipped.

On a card, or with TRITON_INTERPRET=1 on a CPU (small cases: the interpreter is slow):
    moeproof check --executor "process:python3 harness/adapters/examples/triton_fused_moe.py" --model deepseek-v3 --tp 8 \\
        --tokens 1,16 --layout both --tile 16x128x128
"""
import functools
import pathlib
import sys

import torch
import triton
import triton.language as tl

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import Refused, kernel, serve  # noqa: E402
import triton_interpreter  # noqa: E402

ON = "cuda" if torch.cuda.is_available() else "torch"


@triton.jit
def routed_gemm_kernel(a_ptr, w_ptr, c_ptr, a_scale_ptr, w_scale_ptr, bias_ptr, sorted_ids_ptr, expert_ids_ptr, num_padded_ptr,
                       N, K, num_pairs, top_k, a_row, w_expert, w_row, c_row, a_scale_row, a_scale_k, w_scale_expert, w_scale_n,
                       QUANT: tl.constexpr, BIAS: tl.constexpr, SWAP_AB: tl.constexpr,
                       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c[pair] = a[pair // top_k] w[expert of the block]^T. a, w: e4m3, K contiguous; c: bf16. `x_row` etc. are strides."""
    n_blocks = tl.cdiv(N, BLOCK_N)
    block, n_block = tl.program_id(0) // n_blocks, tl.program_id(0) % n_blocks
    if block * BLOCK_M >= tl.load(num_padded_ptr):
        return
    pair = tl.load(sorted_ids_ptr + block * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    real = pair < num_pairs  # padding is not
    n = n_block * BLOCK_N + tl.arange(0, BLOCK_N)
    c = c_ptr + pair[:, None] * c_row + n[None, :]
    inside = real[:, None] & (n < N)[None, :]
    expert = tl.load(expert_ids_ptr + block).to(tl.int64)
    if expert == -1:  # another rank's: its rows are zero here
        tl.store(c, tl.zeros((BLOCK_M, BLOCK_N), tl.bfloat16), mask=inside)
        return

    k = tl.arange(0, BLOCK_K)
    n = n % N  # columns behind the last are computed from the first ones and not stored
    row = pair // top_k
    a = a_ptr + row * a_row
    w = w_ptr + expert * w_expert + n.to(tl.int64) * w_row
    a_scale = a_scale_ptr + row * a_scale_row
    w_scale = w_scale_ptr + expert * w_scale_expert + n // 128 * w_scale_n
    if SWAP_AB:
        acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    else:
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        k_left = K - step * BLOCK_K
        if SWAP_AB:
            left = tl.load(w[:, None] + k[None, :], mask=(k < k_left)[None, :], other=0.0)
            right = tl.load(a[None, :] + k[:, None], mask=(k < k_left)[:, None] & real[None, :], other=0.0)
        else:
            left = tl.load(a[:, None] + k[None, :], mask=(k < k_left)[None, :] & real[:, None], other=0.0)
            right = tl.load(w[None, :] + k[:, None], mask=(k < k_left)[:, None], other=0.0)
        if QUANT == "block128":  # one chain a k-block, scaled in fp32
            a_s = tl.load(a_scale + step * a_scale_k, mask=real, other=0.0)
            w_s = tl.load(w_scale + step)
            if SWAP_AB:
                acc += tl.dot(left, right) * w_s[:, None] * a_s[None, :]
            else:
                acc += tl.dot(left, right) * a_s[:, None] * w_s[None, :]
        else:  # one chain over all of K
            acc = tl.dot(left, right, acc)
        a += BLOCK_K
        w += BLOCK_K

    if SWAP_AB:
        acc = tl.trans(acc)
    if QUANT == "token_channel":
        acc = acc * tl.load(a_scale_ptr + row, mask=real, other=0.0)[:, None]
        acc = acc * tl.load(w_scale_ptr + expert * N + n)[None, :]
    elif QUANT != "block128":
        acc = acc * tl.load(a_scale_ptr) * tl.load(w_scale_ptr + expert)
    if BIAS:
        acc += tl.load(bias_ptr + expert * N + n)[None, :]
    tl.store(c, acc.to(tl.bfloat16), mask=inside)


def routed_gemm(a, a_scale, w, w_scale, bias, c, sorted_ids, expert_ids, num_padded, top_k, problem):
    """a_scale: [rows, K/128], [rows] or [1]."""
    (_, n, k), (pairs, _) = w.shape, c.shape
    block_m, block_n, block_k = (problem[key] for key in ("block_m", "block_n", "block_k"))
    block = problem["quant"] == "block128"
    if block and block_k != 128:
        raise Refused("scales of 128 x 128 blocks need block_k = 128")
    grid = (expert_ids.numel() * triton.cdiv(n, block_n),)
    routed_gemm_kernel[grid](
        a, w, c, a_scale, w_scale, bias, sorted_ids, expert_ids, num_padded, n, k, pairs, top_k, a.stride(0), w.stride(0),
        w.stride(1), c.stride(0), a_scale.stride(0) if block else 0, a_scale.stride(1) if block else 0, w_scale.stride(0),
        w_scale.stride(1) if block else 0, QUANT=problem["quant"], BIAS=bias is not None,
        SWAP_AB=problem["layout"] == "swap_ab", BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        num_warps=8 if block_m == 128 else 4, num_stages=3)


# ---- the rest of the layer ---------------------------------------------------------------------------------------------------


@triton.jit
def count_kernel(ids_ptr, counts_ptr, num_pairs, CHUNK: tl.constexpr):
    """Program e: how many pairs chose expert e?"""
    count = 0
    for begin in range(0, num_pairs, CHUNK):
        pair = begin + tl.arange(0, CHUNK)
        count += tl.sum((tl.load(ids_ptr + pair, mask=pair < num_pairs, other=-1) == tl.program_id(0)).to(tl.int32))
    tl.store(counts_ptr + tl.program_id(0), count)


@triton.jit
def place_kernel(ids_ptr, counts_ptr, sorted_ids_ptr, expert_ids_ptr, num_padded_ptr, num_pairs, experts, first_local, locals_,
                 EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr, CHUNK: tl.constexpr):
    """Program e: the pairs of expert e in ascending order, padded to whole blocks, behind those of the experts before it."""
    me = tl.program_id(0)
    e = tl.arange(0, EXPERTS)
    blocks = tl.cdiv(tl.load(counts_ptr + e, mask=e < experts, other=0), BLOCK_M)
    first = tl.sum(tl.where(e < me, blocks, 0))
    mine = tl.sum(tl.where(e == me, blocks, 0))
    if me == 0:
        tl.store(num_padded_ptr, tl.sum(blocks) * BLOCK_M)
    local = me - first_local
    local = tl.where((local >= 0) & (local < locals_), local, -1)
    for b in range(0, mine):
        tl.store(expert_ids_ptr + first + b, local)
    at = first * BLOCK_M
    for begin in range(0, num_pairs, CHUNK):
        pair = begin + tl.arange(0, CHUNK)
        chosen = (tl.load(ids_ptr + pair, mask=pair < num_pairs, other=-1) == me).to(tl.int32)
        tl.store(sorted_ids_ptr + at + tl.cumsum(chosen) - 1, pair, mask=chosen != 0)
        at += tl.sum(chosen)
    padding = at + tl.arange(0, BLOCK_M)
    tl.store(sorted_ids_ptr + padding, num_pairs + tl.zeros((BLOCK_M,), tl.int32), mask=padding < (first + mine) * BLOCK_M)


def align(ids, problem):
    """topk_ids -> sorted_token_ids, expert_ids, num_tokens_post_padded; without the host knowing any count."""
    pairs, experts, block_m = ids.numel(), problem["experts"], problem["block_m"]
    blocks = min(pairs, experts + pairs // block_m)  # no routing needs more
    new = lambda count: torch.empty(count, dtype=torch.int32, device=ids.device)  # noqa: E731
    counts, sorted_ids, expert_ids, num_padded = new(experts), new(blocks * block_m), new(blocks), new(1)
    chunk = min(1024, triton.next_power_of_2(pairs))
    count_kernel[(experts,)](ids, counts, pairs, CHUNK=chunk)
    place_kernel[(experts,)](ids, counts, sorted_ids, expert_ids, num_padded, pairs, experts, problem["first_expert"],
                             problem["local_experts"], EXPERTS=triton.next_power_of_2(experts), BLOCK_M=block_m, CHUNK=chunk)
    return sorted_ids, expert_ids, num_padded


@triton.jit
def quantize_kernel(x_ptr, codes_ptr, scale_ptr, K, GROUP: tl.constexpr, LANES: tl.constexpr, GIVEN: tl.constexpr,
                    UE8M0: tl.constexpr):
    """Program (row, group): GROUP values of a row and their scale. GIVEN: one scale for all, which is read, not written."""
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane = tl.arange(0, LANES)
    k = group * GROUP + lane
    inside = (lane < GROUP) & (k < K)
    x = tl.load(x_ptr + row * K + k, mask=inside, other=0.0).to(tl.float32)
    if GIVEN:
        scale = tl.load(scale_ptr)
    else:
        scale = tl.div_rn(tl.maximum(tl.max(tl.abs(x)), 1e-10), 448.0)
        if UE8M0:  # up to the next power of two
            scale = ((scale.to(tl.int32, bitcast=True) + 0x7FFFFF) & 0x7F800000).to(tl.float32, bitcast=True)
        tl.store(scale_ptr + row * tl.num_programs(1) + group, scale)
    codes = tl.minimum(tl.maximum(x * tl.div_rn(1.0, scale), -448.0), 448.0)
    tl.store(codes_ptr + row * K + k, codes.to(tl.float8e4nv), mask=inside)


def quantize(x, codes, scale, given, problem):
    rows, k = x.shape
    per_tensor = problem["quant"].startswith("tensor")
    if problem["quant"] == "tensor_static":
        scale.copy_(given)
    elif per_tensor:
        scale.copy_(x.abs().amax().float().clamp(min=1e-10) / 448.0)
    group = 128 if problem["quant"] == "block128" else 1024 if per_tensor else k
    quantize_kernel[(rows, triton.cdiv(k, group))](x, codes, scale, k, GROUP=group, LANES=triton.next_power_of_2(group),
                                                   GIVEN=per_tensor, UE8M0=problem["scale_format"] == "ue8m0",
                                                   num_warps=1 if group == 128 else 4)


@triton.jit
def activate_kernel(h_ptr, ids_ptr, y_ptr, I, limit, alpha, beta, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    """Program (pair, block of columns): y = act(gate) * up, each rounded to bf16 as vLLM does, or relu(h)^2."""
    pair, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = (i < I) & (tl.load(ids_ptr + pair) >= 0)  # a pair without an expert has no row
    if ACTIVATION == "relu2":
        y = tl.maximum(tl.load(h_ptr + pair * I + i, mask=there, other=0.0).to(tl.float32), 0.0)
        y = y * y
    else:
        gate = tl.load(h_ptr + pair * 2 * I + i, mask=there, other=0.0).to(tl.float32)
        up = tl.load(h_ptr + pair * 2 * I + I + i, mask=there, other=0.0).to(tl.float32)
        slope = gate
        if ACTIVATION == "silu_mul_clamped":
            gate = tl.minimum(gate, limit)
            up = tl.minimum(tl.maximum(up, -limit), limit) + beta
            slope = alpha * gate
        if ACTIVATION == "gelu_tanh_mul":  # 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u))
            slope = 2.0 * 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
        y = (gate / (1.0 + tl.exp(-slope))).to(tl.bfloat16).to(tl.float32) * up
    tl.store(y_ptr + pair * I + i, y.to(tl.bfloat16), mask=i < I)


@triton.jit
def combine_kernel(rows_ptr, ids_ptr, weights_ptr, out_ptr, H, top_k, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    """Program (token, block of columns): out = sum over slots of weight * row, in fp32, in slot order; of rows that bear their
    weight already without it."""
    token, h = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for slot in range(0, top_k):
        pair = token * top_k + slot
        there = (h < H) & (tl.load(ids_ptr + pair) >= 0)
        row = tl.load(rows_ptr + pair * H + h, mask=there, other=0.0).to(tl.float32)
        if WEIGHTED:
            acc += tl.load(weights_ptr + pair) * row
        else:
            acc += row
    tl.store(out_ptr + token * H + h, acc.to(tl.bfloat16), mask=h < H)


def layer(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale, x_codes, x_scale, gemm1, act_codes, act_scale, gemm2, out,
          problem, a1_scale=None, a2_scale=None, w13_bias=None, w2_bias=None):
    tokens, top_k = topk_ids.shape
    if tokens == 0:
        return
    on_input = problem["weight_on_input"]
    if on_input:  # top-1 only
        hidden = (hidden.float() * topk_weights).bfloat16()
    blocks = align(topk_ids, problem)
    quantize(hidden, x_codes, x_scale, a1_scale, problem)
    routed_gemm(x_codes, x_scale, w13, w13_scale, w13_bias, gemm1, *blocks, top_k, problem)
    act = torch.empty(act_codes.shape, dtype=torch.bfloat16, device=out.device)
    width, height = act.shape[1], out.shape[1]
    activate_kernel[(tokens * top_k, triton.cdiv(width, 1024))](
        gemm1, topk_ids, act, width, problem.get("limit", 0.0), problem.get("alpha", 1.0), problem.get("beta", 0.0),
        ACTIVATION=problem["activation"], BLOCK=1024)
    quantize(act, act_codes, act_scale, a2_scale, problem)
    routed_gemm(act_codes, act_scale, w2, w2_scale, w2_bias, gemm2, *blocks, 1, problem)
    combine_kernel[(tokens, triton.cdiv(height, 1024))](gemm2, topk_ids, topk_weights, out, height, top_k, WEIGHTED=not on_input,
                                                           BLOCK=1024)


# ---- what moeproof sees ------------------------------------------------------------------------------------------------------

STAGES = ("x_codes", "x_scale", "gemm1", "act_codes", "act_scale", "gemm2", "out")
MODEL = dict(family="triton_fused_moe", stages=3)  # what moeproof predicts it as
LAYER = dict(op="moe_layer", outputs=STAGES, ep=True, ue8m0=True, weight_on_input=True, on=ON, **MODEL)
GEMM = dict(op="grouped_gemm", contract="routed", ue8m0=True, on=ON, **MODEL)
OWN = {"amax_floor": 1e-10, "scale_formula": "divide", "quant_formula": "multiply_inverse", "weight_place": "combine",
       "combine_fma": True}  # where the layer is not vLLM's
FORMS = {"normal_mma": {"preset": "vllm-triton", **OWN}, "normal_wgmma": {"preset": "vllm-triton", "accumulator": "wgmma", **OWN},
         "swap_ab": {"preset": "vllm-triton-swap", **OWN}}


def gemm(a, a_scale, w, w_scale, c, sorted_token_ids, expert_ids, num_tokens_post_padded, problem, w_bias=None):
    top_k = problem["top_k"] if problem["gemm"] == 1 else 1
    if problem["tokens"] > 0:
        routed_gemm(a, a_scale, w, w_scale, w_bias, c, sorted_token_ids, expert_ids, num_tokens_post_padded, top_k, problem)


def only(layout, function):
    """The same kernel for one layout, whose Semantics it declares."""
    @functools.wraps(function)
    def checked(problem, **tensors):
        if problem["layout"] != layout:
            raise Refused(f"this form is {layout}")
        if ON == "torch":
            raise Refused("Triton's interpreter sums in another order than this form declares: it needs a CUDA device")
        if layout == "swap_ab" and problem["block_m"] < 16:
            raise Refused("Triton makes mma.sync of a dot with 8 columns (seen in 3.7.1), and other sums than this form declares")
        function(problem=problem, **tensors)
    return checked


kernel(name="triton_moe", activations=("silu_mul", "silu_mul_clamped", "gelu_tanh_mul", "relu2"), **LAYER)(layer)
kernel(name="triton_gemm", **GEMM)(gemm)
for form, semantics in FORMS.items():
    kernel(name=f"triton_moe_{form}", activations=("silu_mul", "relu2"), semantics=semantics, **LAYER)(only(form, layer))
    kernel(name=f"triton_gemm_{form}", semantics=semantics, **GEMM)(only(form, gemm))

if __name__ == "__main__":
    serve(refusal=triton_interpreter.obstacle())
