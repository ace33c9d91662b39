"""Builds nvcc_masked.cu with the nvcc on PATH and shows it to moeproof: a kernel in CUDA C++ behind ctypes.

Contract: grouped_gemm `masked`; scales of 128 x 128 blocks, a tensor, or a token and channel. Declares no Semantics. Needs a card,
torch (it holds the memory) and nvcc.

    moeproof check --executor "process:python3 harness/adapters/examples/nvcc_masked.py" --op grouped_gemm --contract masked \\
        --model qwen3-30b --tokens 9
"""
import ctypes
import functools
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import Refused, kernel, serve  # noqa: E402

QUANTS = {"block128": 0, "token_channel": 1, "tensor_static": 2, "tensor_dynamic": 2}


@functools.lru_cache(None)
def library():
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not nvcc:
        raise Refused("there is no nvcc on PATH to build nvcc_masked.cu with")
    built = pathlib.Path(tempfile.mkdtemp()) / "nvcc_masked.so"
    source = pathlib.Path(__file__).with_suffix(".cu")
    options = ["-O3", "-std=c++17", "-arch=sm_90", "-shared", "-Xcompiler", "-fPIC"]
    done = subprocess.run([nvcc, *options, "-o", str(built), str(source)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"nvcc: {done.stderr.strip()}")
    return ctypes.CDLL(str(built))


@kernel(op="grouped_gemm", contract="masked", quant=tuple(QUANTS), ue8m0=True, on="cuda")
def nvcc_masked(a, a_scale, w, w_scale, counts, c, problem):
    import torch
    experts, max_m, k = a.shape
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (a, a_scale, w, w_scale, counts, c)]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    error = library().masked_gemm(*pointers, experts, max_m, w.shape[1], k, QUANTS[problem["quant"]], stream)
    if error:
        raise RuntimeError(f"the launch failed: CUDA error {error}")


if __name__ == "__main__":
    serve()
