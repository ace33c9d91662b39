"""A whole MoE layer in plain torch: dequantise, multiply in fp32, one stage after the other. The adapter to read first.

Contract: op moe_layer behind the router (topk_ids, topk_weights are given); every quantisation scheme, activation and bias, and a
rank of an expert-parallel layer. Shows all stages, declares no Semantics. Runs on the CPU and on a card.

    moeproof check --executor "process:python3 harness/adapters/examples/torch_moe.py" --model qwen3-30b --tokens 5
"""
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import kernel, serve  # noqa: E402

E4M3_MAX = 448.0
ACTIVATIONS = ("silu_mul", "silu_mul_clamped", "gelu_tanh_mul", "relu2")
STAGES = ("x_codes", "x_scale", "gemm1", "act_codes", "act_scale", "gemm2", "out")


def quantize(x, problem, given):
    """x [rows, K] -> codes [rows, K] and scales: [rows, K/128], [rows] or [1]. `given` is the scale of tensor_static."""
    groups = x.float().reshape(x.shape[0], -1, 128) if problem["quant"] == "block128" else x.float()
    if problem["quant"] == "tensor_static":
        scale = given
    else:
        largest = groups.abs().amax() if problem["quant"] == "tensor_dynamic" else groups.abs().amax(-1, keepdim=True)
        scale = largest.clamp(min=1e-10) / E4M3_MAX
        if problem["scale_format"] == "ue8m0":  # up to the next power of two
            mantissa, exponent = torch.frexp(scale)
            scale = torch.ldexp(torch.ones_like(scale), exponent - (mantissa == 0.5).int())
    codes = (groups * (1 / scale)).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    shape = {"block128": (x.shape[0], -1), "token_channel": (-1,)}.get(problem["quant"], (1,))
    return codes.reshape(x.shape), scale.reshape(shape)


def dequantize_rows(codes, scale, problem):
    if problem["quant"] == "block128":
        return codes.float() * scale.repeat_interleave(128, 1)
    return codes.float() * (scale[:, None] if problem["quant"] == "token_channel" else scale)


def dequantize_weight(w, scale, problem):
    """One expert: w [N, K], scale [N/128, K/128], [N] or one number."""
    if problem["quant"] == "block128":
        return w.float() * scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return w.float() * (scale[:, None] if problem["quant"] == "token_channel" else scale)


def expert_gemm(x, experts, w, w_scale, bias, problem):
    """y[p] = x[p] w[experts[p]]^T in fp32; pairs of no local expert give zeros."""
    y = torch.zeros(x.shape[0], w.shape[1], device=x.device)
    for e in experts.unique().tolist():
        if 0 <= e < w.shape[0]:
            rows = experts == e
            y[rows] = x[rows] @ dequantize_weight(w[e], w_scale[e], problem).T + (0 if bias is None else bias[e])
    return y.bfloat16()


def activate(h, problem):
    """gemm1 [P, U] -> [P, I] in fp32; the first half is the gate."""
    h = h.float()
    if problem["activation"] == "relu2":
        return h.relu() ** 2
    gate, up = h.chunk(2, 1)
    if problem["activation"] == "gelu_tanh_mul":
        return torch.nn.functional.gelu(gate, approximate="tanh") * up
    if problem["activation"] == "silu_mul":
        return torch.nn.functional.silu(gate) * up
    gate, up = gate.clamp(max=problem["limit"]), up.clamp(-problem["limit"], problem["limit"])
    return gate * torch.sigmoid(problem["alpha"] * gate) * (up + problem["beta"])


@kernel(op="moe_layer", outputs=STAGES, activations=ACTIVATIONS, ep=True, ue8m0=True, weight_on_input=True, graph=False,
        on="cuda" if torch.cuda.is_available() else "torch")
def torch_moe(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale, problem, a1_scale=None, a2_scale=None, w13_bias=None,
              w2_bias=None):
    if problem["tokens"] == 0:
        return {}
    if problem["weight_on_input"]:
        hidden = (hidden.float() * topk_weights).bfloat16()
    experts = topk_ids.flatten() - problem["first_expert"]
    local = ((experts >= 0) & (experts < problem["local_experts"]) & (topk_ids.flatten() >= 0))[:, None]
    experts = torch.where(local[:, 0], experts, -1)

    x_codes, x_scale = quantize(hidden, problem, a1_scale)
    x = dequantize_rows(x_codes, x_scale, problem).repeat_interleave(problem["top_k"], 0)
    gemm1 = expert_gemm(x, experts, w13, w13_scale, w13_bias, problem)
    act_codes, act_scale = quantize(torch.where(local, activate(gemm1, problem), 0), problem, a2_scale)
    gemm2 = expert_gemm(dequantize_rows(act_codes, act_scale, problem), experts, w2, w2_scale, w2_bias, problem)
    weights = torch.where(local, 1.0 if problem["weight_on_input"] else topk_weights.reshape(-1, 1), 0)
    out = (gemm2.float() * weights).reshape(*topk_ids.shape, -1).sum(1).bfloat16()
    return x_codes, x_scale, gemm1, act_codes, act_scale, gemm2, out


if __name__ == "__main__":
    serve()
