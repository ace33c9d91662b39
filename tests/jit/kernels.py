"""Kernels with one reason each to be compiled more than once; record_triton.py calls them. They need triton alone."""
import triton
import triton.language as tl


@triton.jit
def by_value(x_ptr, y_ptr, n):
    """n is 1, a multiple of 16, or neither."""
    at = tl.arange(0, 64)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def by_pointer(x_ptr, y_ptr):
    """x begins at a multiple of 16 bytes, or does not."""
    at = tl.arange(0, 64)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit(do_not_specialize=["stride"])
def by_width(x_ptr, y_ptr, stride):
    """stride is below 2^31, or not."""
    at = tl.arange(0, 64)
    tl.store(y_ptr + at, tl.load(x_ptr + at * stride))


@triton.jit
def by_option(x_ptr, y_ptr):
    """Launched with 4 warps, and with 8."""
    at = tl.arange(0, 64)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def by_constexpr(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """BLOCK is 64, and 128."""
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def once(x_ptr, y_ptr, n: tl.int64):
    at = tl.arange(0, 64)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
