"""Combine kernels that differ in one rounding, for upstream_test.py: a fused multiply-add a slot, or a product that is rounded.
Started with a number they say that a run takes so many seconds, as a card's kernel would."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness/adapters"))
from moeproof_executor import Call, Refused, bf16_to_f32, f32_to_bf16, kernel, serve  # noqa: E402


def combine(gemm2, topk_weights, fused):
    """The products have 32 significant bits: a long double holds them, and their sums, before the one rounding."""
    tokens, top_k = topk_weights.shape
    rows = bf16_to_f32(gemm2).reshape(tokens, top_k, -1)
    acc = np.zeros((tokens, rows.shape[2]), np.float32)
    for slot in range(top_k):
        weight = topk_weights[:, slot, None]
        if fused:
            acc = (weight.astype(np.longdouble) * rows[:, slot] + acc).astype(np.float32)
        else:
            acc = acc + weight * rows[:, slot]
    return f32_to_bf16(acc)


@kernel(op="combine", semantics="moeproof")
def fused(gemm2, topk_weights):
    return combine(gemm2, topk_weights, True)


@kernel(op="combine")
def fused_undeclared(gemm2, topk_weights):
    return combine(gemm2, topk_weights, True)


@kernel(op="combine", semantics={"preset": "moeproof", "combine_fma": False})
def rounded(gemm2, topk_weights):
    return combine(gemm2, topk_weights, False)


@kernel(op="combine")
def first_slot_lost(gemm2, topk_weights):
    return combine(gemm2, np.where(np.arange(topk_weights.shape[1]) == 0, np.float32(0), topk_weights), True)


@kernel(op="combine")
def dies(gemm2):
    raise ValueError("no such tile")


@kernel(op="combine")
def refuses(gemm2):
    raise Refused("needs more tokens")


def bound_to(layout, tokens, gemm2, topk_weights, problem):
    if problem["layout"] != layout or problem["block_m"] != tokens:
        raise Refused(f"this form is {layout} with {tokens} tokens a tile")
    return combine(gemm2, topk_weights, layout == "swap_ab")


@kernel(op="combine", semantics={"preset": "moeproof", "combine_fma": False})
def normal_form(gemm2, topk_weights, problem):
    return bound_to("normal_mma", 16, gemm2, topk_weights, problem)


@kernel(op="combine", semantics="moeproof")
def swapped_form(gemm2, topk_weights, problem):
    return bound_to("swap_ab", 32, gemm2, topk_weights, problem)


def claimed_time(call, plan):
    seconds = [float(sys.argv[1]) * (1 + 0.001 * sample) for sample in range(plan["samples"])]
    return {"seconds": seconds, "cold": plan["cold"], "graph": False, "device": "a clock", "driver": "none"}


if __name__ == "__main__":
    if len(sys.argv) == 2:
        Call.time = claimed_time
    serve()
