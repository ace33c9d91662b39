"""`inv_rope_quant` in Triton: what vLLM launches between the attention and the output projection of DeepSeek-V4.

The inverse rotary embedding of the last 64 of a head's 512 values, four groups of 128 quantised to e4m3 with power-of-two scales
(fp32, or four UE8M0 bytes in a word), scales stored token-minor and padded to 16 bytes: the op's contract in fixtures/README.md,
the argument list of vLLM's kernel, so that Triton makes the same variants of it. The kernel needs triton alone, the adapter torch too.
fp32 scales only. It declares nothing and is judged by bounds: which power of two its log2 takes near one is its own.

On a card:
    moeproof check --executor "process:python3 harness/adapters/examples/triton_inv_rope.py" --op inv_rope_quant --tokens 1,13,1000
    moeproof bench with the same words times it

`inv_rope_kernel(fn)` gives it in the three forms whose compilations `moeproof audit-jit --kernel inv_rope_quant` counts:
inv_rope_kernel() as a plain jit, inv_rope_kernel(["num_tokens"]) as vLLM has it, and with scale_stride_k too.
"""
import triton
import triton.language as tl


def _inv_rope_quant(o_ptr, positions_ptr, cos_sin_ptr, fp8_ptr, scale_ptr, num_tokens, heads_per_group: tl.constexpr,
                    o_stride_token, o_stride_head, cos_sin_stride, fp8_stride_group, fp8_stride_token, scale_stride_group,
                    scale_stride_k, FP8_MAX: tl.constexpr, EPS: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr,
                    ROPE: tl.constexpr, PACKED: tl.constexpr):
    """Program (t, h): head h of token t. Rows t from num_tokens on are padding of the scales alone: zeros."""
    token = tl.program_id(0).to(tl.int64)  # strides times rows pass 2^31 in a large prefill
    head = tl.program_id(1).to(tl.int64)
    group, local = head // heads_per_group, head % heads_per_group
    quarter = tl.arange(0, GROUPS)
    if PACKED:
        scales = scale_ptr + group * scale_stride_group.to(tl.int64) + token + local * scale_stride_k.to(tl.int64)
    else:
        scales = (scale_ptr + group * scale_stride_group.to(tl.int64) + token
                  + (local * GROUPS + quarter) * scale_stride_k.to(tl.int64))
    if token >= num_tokens:
        if PACKED:
            tl.store(scales, tl.zeros((), tl.int32))
        else:
            tl.store(scales, tl.zeros((GROUPS,), tl.float32))
        return

    at = tl.arange(0, GROUP * GROUPS)
    row = o_ptr + token * o_stride_token.to(tl.int64) + head * o_stride_head.to(tl.int64)
    x = tl.load(row + at).to(tl.float32)
    turned = at >= GROUP * GROUPS - ROPE
    pair = tl.maximum(at - (GROUP * GROUPS - ROPE), 0) // 2
    angle = cos_sin_ptr + tl.load(positions_ptr + token) * cos_sin_stride.to(tl.int64) + pair
    cos = tl.load(angle, mask=turned, other=1.0)
    sin = tl.load(angle + ROPE // 2, mask=turned, other=0.0)
    other = tl.load(row + (at ^ 1), mask=turned, other=0.0).to(tl.float32)
    x = tl.where(turned, tl.where(at % 2 == 0, x * cos + other * sin, x * cos - other * sin), x)

    amax = tl.maximum(tl.max(tl.reshape(tl.abs(x), (GROUPS, GROUP)), axis=1), EPS)
    scale = tl.math.exp2(tl.ceil(tl.log2(amax * (1.0 / FP8_MAX))))
    wide = tl.reshape(tl.broadcast_to(tl.reshape(scale, (GROUPS, 1)), (GROUPS, GROUP)), (GROUP * GROUPS,))
    codes = tl.clamp(x / wide, -FP8_MAX, FP8_MAX).to(tl.float8e4nv)
    tl.store(fp8_ptr + group * fp8_stride_group.to(tl.int64) + token * fp8_stride_token.to(tl.int64)
             + local * (GROUP * GROUPS) + at, codes)
    if PACKED:
        exponents = (scale.to(tl.int32, bitcast=True) >> 23) & 0xFF
        tl.store(scales, tl.sum(exponents << (quarter * 8)))
    else:
        tl.store(scales, scale)


def inv_rope_kernel(do_not_specialize=(), do_not_specialize_on_alignment=()):
    return triton.jit(_inv_rope_quant, do_not_specialize=list(do_not_specialize),
                      do_not_specialize_on_alignment=list(do_not_specialize_on_alignment))


def arguments(tokens, tensors, groups=8, heads_per_group=8, packed=False):
    """What the host passes for `tokens`; `tensors` are o, positions, cos_sin, fp8, scale (contiguous)."""
    heads, dim = groups * heads_per_group, heads_per_group * 512
    padded = -(-tokens // 4) * 4  # TMA wants columns of 16 bytes
    inner = heads_per_group if packed else heads_per_group * 4
    return dict(zip(("o_ptr", "positions_ptr", "cos_sin_ptr", "fp8_ptr", "scale_ptr"), tensors), num_tokens=tokens,
                heads_per_group=heads_per_group, o_stride_token=heads * 512, o_stride_head=512, cos_sin_stride=64,
                fp8_stride_group=tokens * dim, fp8_stride_token=dim, scale_stride_group=inner * padded,
                scale_stride_k=padded, FP8_MAX=448.0, EPS=1e-10, GROUP=128, GROUPS=4, ROPE=64, PACKED=packed)


def main():
    import pathlib
    import sys

    import torch
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
    import triton_interpreter
    from moeproof_executor import kernel, serve

    compiled = inv_rope_kernel(["num_tokens"])

    @kernel(op="inv_rope_quant", quant="block128", on="cuda" if torch.cuda.is_available() else "torch")
    def triton_inv_rope(o, positions, cos_sin, o_codes, o_scale, problem):
        tokens, groups = problem["tokens"], problem["head_groups"]
        if tokens:
            compiled[(o_scale.shape[-1], problem["heads"])](
                num_warps=1, num_stages=1,
                **arguments(tokens, (o, positions, cos_sin, o_codes, o_scale), groups, problem["heads"] // groups))

    serve(refusal=triton_interpreter.obstacle())


if __name__ == "__main__":
    main()
