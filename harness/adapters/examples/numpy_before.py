#!/usr/bin/env python3
"""A masked grouped GEMM in numpy, as it was before a change: K blocks from the first to the last. numpy_after.py is the change;
`moeproof upstream-check --before "process:python3 numpy_before.py" --after "process:python3 numpy_after.py"` reviews it. The
products of a block are summed in double, where they are exact: both files give the same bits on every machine."""
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import e4m3_to_f32, f32_to_bf16, kernel, serve  # noqa: E402


def blocks_of(k):
    return range(k // 128)


def one_block(a, a_scale, w, w_scale, block):
    k = slice(block * 128, block * 128 + 128)
    part = e4m3_to_f32(a[:, k]).astype(np.float64) @ e4m3_to_f32(w[:, k]).astype(np.float64).T
    return part.astype(np.float32) * a_scale[:, block, None] * w_scale[:, block].repeat(128)[:len(w)]


@kernel(op="grouped_gemm", contract="masked", quant="block128")
def masked_gemm(a, a_scale, w, w_scale, masked_m, out):
    for e, rows in enumerate(masked_m):
        acc = np.zeros((rows, w.shape[1]), np.float32)
        for block in blocks_of(a.shape[2]):
            acc += one_block(a[e, :rows], a_scale[e, :rows], w[e], w_scale[e], block)
        out[e, :rows] = f32_to_bf16(acc)


if __name__ == "__main__":
    serve()
