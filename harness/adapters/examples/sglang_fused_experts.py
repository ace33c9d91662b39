"""The fused MoE layer of an installed SGLang, in Triton: fused_experts of its Triton runner.

Contract: op moe_layer behind the router; shows `out` only: real data can fail it, exact data pass it. SGLang picks
tile and operand order itself (Swap-AB for FP8 tiles of fewer than 64 tokens on sm_90 from 0.5.9 on), so the case's are not used.
Without torch or a card every case is skipped, without SGLang refused, with the reason. The calls fit the releases in signatures.json
(tests/adapters/examples.py).

    moeproof check --executor "process:python3 harness/adapters/examples/sglang_fused_experts.py" --model deepseek-v3 --tp 8
"""
import functools
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from moeproof_executor import Refused, kernel, serve  # noqa: E402


@functools.lru_cache(None)
def sglang():
    """fused_experts and the types of its arguments. Its tile look-up asks for a server's settings, so there must be some."""
    try:
        from sglang.srt.layers.moe.moe_runner.base import MoeRunnerConfig
        from sglang.srt.layers.moe.topk import StandardTopKOutput
        from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
        try:
            from sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe import fused_experts
        except ImportError:  # up to 0.5.9
            from sglang.srt.layers.moe.fused_moe_triton.fused_moe import fused_experts
    except ImportError as missing:
        raise Refused(f"no SGLang to call here: {missing}")
    set_global_server_args_for_scheduler(ServerArgs(model_path="none"))
    return fused_experts, MoeRunnerConfig, StandardTopKOutput


@kernel(op="moe_layer", on="cuda")
def sglang_moe(hidden, topk_ids, topk_weights, w13, w13_scale, w2, w2_scale, problem, a1_scale=None, a2_scale=None):
    fused_experts, MoeRunnerConfig, StandardTopKOutput = sglang()
    channel = problem["quant"] == "token_channel"
    config = MoeRunnerConfig(num_experts=problem["experts"], num_local_experts=problem["local_experts"], activation="silu",
                             is_gated=True, inplace=False)
    topk_output = StandardTopKOutput(topk_weights=topk_weights, topk_ids=topk_ids, router_logits=None)
    return fused_experts(
        hidden_states=hidden, w1=w13, w2=w2, topk_output=topk_output, moe_runner_config=config, use_fp8_w8a8=True,
        per_channel_quant=channel, w1_scale=w13_scale.unsqueeze(-1) if channel else w13_scale,
        w2_scale=w2_scale.unsqueeze(-1) if channel else w2_scale, a1_scale=a1_scale, a2_scale=a2_scale,
        block_shape=[128, 128] if problem["quant"] == "block128" else None)


if __name__ == "__main__":
    serve()
