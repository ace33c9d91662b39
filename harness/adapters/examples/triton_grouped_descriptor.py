"""A grouped GEMM in Triton on tensor descriptors: both operands come by TMA, in boxes that a descriptor describes.

Contract: grouped_gemm `masked` ([experts, max_m, K] and a row count for each expert) and `contiguous` (groups begin at multiples
of 128 rows, group_of_row says whose a row is). Scales of 128 x 128 blocks, a tensor, or a token and channel. Declares no Semantics.
Rows that no group owns are never written: descriptors store whole boxes, so the store keeps to pointers with a mask.

On a card, or with TRITON_INTERPRET=1 on a CPU (with neither, every case is skipped):
    moeproof check --executor "process:python3 harness/adapters/examples/triton_grouped_descriptor.py" --op grouped_gemm \\
        --contract masked --model qwen3-30b --tokens 9
"""
import pathlib
import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import Refused, kernel, serve  # noqa: E402
import triton_interpreter  # noqa: E402

ON = "cuda" if torch.cuda.is_available() else "torch"


@triton.jit
def grouped_gemm_kernel(a_desc, w_desc, c_ptr, a_scale_ptr, w_scale_ptr, groups_ptr, rows, N, K, experts, MASKED: tl.constexpr,
                        QUANT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """c[row] = a[row] w[expert of the row]^T; a [rows, K], w [experts * N, K]. `groups`: counts[experts] where MASKED and each
    expert has rows / experts of them, else the expert of each row, -1 = nobody's."""
    n = tl.program_id(1) * BLOCK_N
    columns = n + tl.arange(0, BLOCK_N)
    if MASKED:
        per_expert = rows // experts
        blocks = tl.cdiv(per_expert, BLOCK_M)
        expert = tl.program_id(0) // blocks
        first = tl.program_id(0) % blocks * BLOCK_M
        count = tl.load(groups_ptr + expert)
        if first >= count:
            return
        mine = first + tl.arange(0, BLOCK_M) < count
        first += expert * per_expert
    else:
        first = tl.program_id(0) * BLOCK_M
        owner = tl.load(groups_ptr + first + tl.arange(0, BLOCK_M), mask=first + tl.arange(0, BLOCK_M) < rows, other=-1)
        expert = tl.max(owner)  # a block lies in one group: groups begin at multiples of 128
        if expert < 0:
            return
        mine = owner >= 0
    row = (first + tl.arange(0, BLOCK_M)).to(tl.int64)
    column = tl.where(columns < N, columns, 0)
    w_scale = w_scale_ptr + expert.to(tl.int64) * tl.cdiv(N, 128) * tl.cdiv(K, 128) + column // 128 * tl.cdiv(K, 128)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):  # columns behind K and rows behind the end arrive as zeros
        a = a_desc.load([first, k])
        w = w_desc.load([expert * N + n, k])
        if QUANT == "block128":
            a_s = tl.load(a_scale_ptr + row * tl.cdiv(K, 128) + k // 128, mask=mine, other=0.0)
            acc += tl.dot(a, w.T) * a_s[:, None] * tl.load(w_scale + k // 128)[None, :]
        else:
            acc = tl.dot(a, w.T, acc)
    if QUANT == "token_channel":
        acc *= tl.load(a_scale_ptr + row, mask=mine, other=0.0)[:, None]
        acc *= tl.load(w_scale_ptr + expert.to(tl.int64) * N + column)[None, :]
    elif QUANT != "block128":
        acc = acc * tl.load(a_scale_ptr) * tl.load(w_scale_ptr + expert)
    tl.store(c_ptr + row[:, None] * N + columns[None, :], acc.to(tl.bfloat16), mask=mine[:, None] & (columns < N)[None, :])


def grouped_gemm(a, a_scale, w, w_scale, c, groups, masked, problem):
    experts, n, k = w.shape
    if k % 16:
        raise Refused("a descriptor's rows begin at multiples of 16 bytes: K must be a multiple of 16")
    block_m, block_n, block_k = problem["block_m"], problem["block_n"], problem["block_k"]
    a, c = a.view(-1, k), c.view(-1, n)
    rows = a.shape[0]
    if rows == 0:
        return
    a_desc = TensorDescriptor.from_tensor(a, [block_m, block_k])
    w_desc = TensorDescriptor.from_tensor(w.view(-1, k), [block_n, block_k])
    blocks = experts * triton.cdiv(rows // experts, block_m) if masked else triton.cdiv(rows, block_m)
    grouped_gemm_kernel[(blocks, triton.cdiv(n, block_n))](
        a_desc, w_desc, c, a_scale, w_scale, groups, rows, n, k, experts, MASKED=masked, QUANT=problem["quant"], BLOCK_M=block_m,
        BLOCK_N=block_n, BLOCK_K=block_k, num_warps=8 if block_m == 128 else 4, num_stages=3)


@kernel(op="grouped_gemm", contract="masked", ue8m0=True, on=ON)
def triton_masked(a, a_scale, w, w_scale, counts, c, problem):
    grouped_gemm(a, a_scale, w, w_scale, c, counts, True, problem)


@kernel(op="grouped_gemm", contract="contiguous", ue8m0=True, on=ON)
def triton_contiguous(a, a_scale, w, w_scale, group_of_row, c, problem):
    grouped_gemm(a, a_scale, w, w_scale, c, group_of_row, False, problem)


if __name__ == "__main__":
    serve(refusal=triton_interpreter.obstacle())
