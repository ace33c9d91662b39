"""The fused MoE layer of an installed vLLM, in Triton: vllm.model_executor.layers.fused_moe.fused_experts.

Contract: op moe_layer behind the router; shows `out` only: real data can fail it, exact data pass it. vLLM picks tile
and operand order itself (its tuned files; newer releases swap for FP8 tiles of fewer than 64 tokens), so the case's are not used.
Without torch or a card every case is skipped, without vLLM refused, with the reason. The calls fit the releases in signatures.json
(tests/adapters/examples.py).

    moeproof check --executor "process:python3 harness/adapters/examples/vllm_fused_experts.py" --model deepseek-v3 --tp 8
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import Refused, kernel, serve  # noqa: E402


def local_of_global(problem, device):
    """expert_map: this rank's number of every expert, -1 for those of other ranks."""
    import torch
    numbers = torch.full((problem["experts"],), -1, dtype=torch.int32, device=device)
    first, count = problem["first_expert"], problem["local_experts"]
    numbers[first:first + count] = torch.arange(count, dtype=torch.int32, device=device)
    return numbers


@kernel(op="moe_layer", ep=True, on="cuda")
def vllm_moe(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale, problem, a1_scale=None, a2_scale=None):
    try:
        from vllm.model_executor.layers.fused_moe.config import fp8_w8a8_moe_quant_config
        from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts
    except ImportError as missing:
        raise Refused(f"no vLLM to call here: {missing}")
    channel, block = problem["quant"] == "token_channel", problem["quant"] == "block128"
    if channel:  # [experts, N, 1], as vLLM's loader makes them
        w13_scale, w2_scale = w13_scale.unsqueeze(-1), w2_scale.unsqueeze(-1)
    quant_config = fp8_w8a8_moe_quant_config(
        w1_scale=w13_scale, w2_scale=w2_scale, a1_scale=a1_scale, a2_scale=a2_scale, per_act_token_quant=channel,
        per_out_ch_quant=channel, block_shape=[128, 128] if block else None)
    return fused_experts(
        hidden_states=hidden, w1=w13, w2=w2, topk_weights=topk_weights, topk_ids=topk_ids, global_num_experts=problem["experts"],
        expert_map=local_of_global(problem, hidden.device) if problem["ep"] > 1 else None, quant_config=quant_config)


if __name__ == "__main__":
    serve()
