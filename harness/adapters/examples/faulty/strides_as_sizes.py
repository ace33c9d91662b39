"""A grouped GEMM with the faults of a well-meant sketch: strides stand where sizes belong, in the masks and in the grid, and the
first block of K is all of it. Contract: grouped_gemm `masked`, block128. moeproof must not pass it; kill_table.py says so.

    moeproof check --executor "process:python3 harness/adapters/examples/faulty/strides_as_sizes.py" --op grouped_gemm \\
        --contract masked --quant block128 --trials 20
"""
import pathlib
import sys

import torch
import triton
import triton.language as tl

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import kernel, serve  # noqa: E402
import triton_interpreter  # noqa: E402

ON = "cuda" if torch.cuda.is_available() else "torch"


@triton.jit
def sketch_kernel(a_ptr, w_ptr, c_ptr, a_scale_ptr, w_scale_ptr, a_expert, a_row, w_expert, w_row, c_expert, c_row,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    expert, m = tl.program_id(0), tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n, k = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    a = tl.load(a_ptr + expert * a_expert + m[:, None] * a_row + k[None, :], mask=(m < a_row)[:, None], other=0.0)
    w = tl.load(w_ptr + expert * w_expert + n[None, :] * w_row + k[:, None], mask=(n < w_row)[None, :], other=0.0)
    acc = tl.dot(a, w) * tl.load(a_scale_ptr) * tl.load(w_scale_ptr)
    tl.store(c_ptr + expert * c_expert + m[:, None] * c_row + n[None, :], acc.to(tl.bfloat16),
             mask=(m < a_row)[:, None] & (n < c_row)[None, :])


@kernel(op="grouped_gemm", contract="masked", quant="block128", on=ON)
def sketch(a, a_scale, w, w_scale, c, problem):
    experts = a.shape[0]
    grid = (experts, triton.cdiv(a.stride(1), 16), triton.cdiv(w.stride(1), 128))
    sketch_kernel[grid](a, w, c, a_scale, w_scale, a.stride(0), a.stride(1), w.stride(0), w.stride(1), c.stride(0), c.stride(1),
                        BLOCK_M=16, BLOCK_N=128, BLOCK_K=128)


if __name__ == "__main__":
    serve(refusal=triton_interpreter.obstacle())
