"""Makes TRITON_INTERPRET=1 round as a card does, so that a kernel without a card is judged for its own faults only.

Triton's interpreter (seen in 3.6 and 3.7, triton/runtime/interpreter.py, _convert_float) cuts f32 -> bf16 toward zero, and loses
the carry where a rounded e4m3 crosses a power of two: 127.6 becomes 64. Import this before the first launch.
On a card it changes nothing.
"""
import os

import numpy as np
import torch

TORCH = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2, "fp16": torch.float16, "bf16": torch.bfloat16,
         "fp32": torch.float32, "fp64": torch.float64}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def convert_float(values, given, wanted, rounding_mode):
    """numpy array of `given` -> its bits as `wanted`, nearest even."""
    bits = torch.frombuffer(bytearray(np.ascontiguousarray(values).tobytes() or bytes(8)), dtype=TORCH[given.name])
    converted = bits[:values.size].to(TORCH[wanted.name])
    unsigned = f"u{wanted.primitive_bitwidth // 8}"
    return converted.view(BITS[converted.element_size()]).numpy().view(unsigned).reshape(values.shape)


if not torch.cuda.is_available():
    from triton.runtime import interpreter
    interpreter._convert_float = convert_float


def obstacle():
    """Why a Triton kernel cannot run here; None where it can."""
    if torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return "torch sees no CUDA device here, and TRITON_INTERPRET=1 is not set: with it Triton's interpreter runs small cases on the CPU"
