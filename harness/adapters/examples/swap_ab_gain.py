"""What does Swap-AB gain in triton_fused_moe.py, by number of tokens? Times whole layers behind the router, and their two GEMMs
alone, in both operand orders on the shapes of vLLM pull request 36559 and of DeepSeek-V3 on 8 ranks; writes CSV. Needs a card.

    python3 harness/adapters/examples/swap_ab_gain.py >h200_triton_swap_ab.csv

A sample is the mean over RUNS layers of one graph replay, between two events; each layer has a uniform routing of its own, so that
weights come from HBM as in decoding; medians of SAMPLES in microseconds. The tile is the pull request's: 16 x 128 x 128, 4 warps,
3 stages, in both orders.
"""
import statistics
import sys

import torch

from triton_fused_moe import align, layer, routed_gemm

RUNS, SAMPLES, WARM_UP = 16, 30, 5
# hidden, intermediate of a rank, experts, top_k; and the pull request's times before and after Swap-AB (H200, us)
SHAPES = {
    "deepseek-r1 tp 2": (7168, 1024, 256, 8, {1: (77.48, 73.48), 2: (112.15, 107.08), 4: (190.71, 183.13), 8: (350.35, 339.56),
                                              16: (569.30, 546.49), 24: (743.60, 715.77), 32: (877.37, 847.41)}),
    "qwen3-next tp 2": (2048, 256, 512, 10, {1: (29.97, 26.72), 2: (33.00, 30.78), 4: (46.43, 44.60), 8: (62.29, 59.86),
                                             16: (99.91, 93.03), 24: (118.64, 111.70), 32: (136.56, 130.30)}),
    "deepseek-v3 tp 8": (7168, 256, 256, 8, {}),
}
TOKENS = (1, 2, 4, 8, 16, 24, 32)


def random_codes(*shape):
    """E4M3 up to 28: neither NaN nor so large that sums overflow."""
    codes = torch.empty(shape, dtype=torch.uint8, device="cuda").random_(0, 0x60)
    return codes.view(torch.float8_e4m3fn)


def median_us(launch):
    for _ in range(2):
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    samples = []
    for sample in range(WARM_UP + SAMPLES):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1000 / RUNS)
    return statistics.median(samples[WARM_UP:])


class Layer:
    def __init__(self, hidden, intermediate, experts, top_k):
        scales = lambda n, k: torch.full((experts, n // 128, k // 128), 0.01, device="cuda")  # noqa: E731
        self.hidden, self.intermediate, self.experts, self.top_k = hidden, intermediate, experts, top_k
        self.w13, self.w2 = random_codes(experts, 2 * intermediate, hidden), random_codes(experts, hidden, intermediate)
        self.w13_scale, self.w2_scale = scales(2 * intermediate, hidden), scales(hidden, intermediate)

    def buffers(self, tokens):
        pairs, new = tokens * self.top_k, lambda dtype, *shape: torch.empty(shape, dtype=dtype, device="cuda")
        f8, f32, bf16 = torch.float8_e4m3fn, torch.float32, torch.bfloat16
        return (new(f8, tokens, self.hidden), new(f32, tokens, self.hidden // 128), new(bf16, pairs, 2 * self.intermediate),
                new(f8, pairs, self.intermediate), new(f32, pairs, self.intermediate // 128), new(bf16, pairs, self.hidden),
                new(bf16, tokens, self.hidden))

    def times(self, tokens, layout):
        """Microseconds of the layer, and of its GEMMs."""
        problem = dict(quant="block128", scale_format="f32", layout=layout, block_m=16, block_n=128, block_k=128, top_k=self.top_k,
                       experts=self.experts, local_experts=self.experts, first_expert=0, activation="silu_mul", weight_on_input=False, tokens=tokens)
        generator = torch.Generator("cuda").manual_seed(tokens)
        scores = torch.rand(RUNS, tokens, self.experts, device="cuda", generator=generator)
        ids = list(scores.topk(self.top_k).indices.int())
        weights = torch.full((tokens, self.top_k), 1 / self.top_k, device="cuda")
        x = torch.randn(tokens, self.hidden, device="cuda", generator=generator).bfloat16()
        outputs = self.buffers(tokens)
        x_codes, x_scale, gemm1, act_codes, act_scale, gemm2, _ = outputs

        def layers():
            for chosen in ids:
                layer(x, chosen, weights, self.w13, self.w13_scale, self.w2, self.w2_scale, *outputs, problem)

        def gemms():
            for blocks in aligned:
                routed_gemm(x_codes, x_scale, self.w13, self.w13_scale, None, gemm1, *blocks, self.top_k, problem)
                routed_gemm(act_codes, act_scale, self.w2, self.w2_scale, None, gemm2, *blocks, 1, problem)

        whole = median_us(layers)
        aligned = [align(chosen, problem) for chosen in ids]
        return whole, median_us(gemms)


def main():
    print("shape,tokens,layer_normal_us,layer_swap_us,layer_gain,gemms_normal_us,gemms_swap_us,gemms_gain,published_normal_us,"
          "published_swap_us,published_gain")
    for name, (hidden, intermediate, experts, top_k, published) in SHAPES.items():
        one = Layer(hidden, intermediate, experts, top_k)
        for tokens in TOKENS:
            normal, swap = (one.times(tokens, layout) for layout in ("normal_mma", "swap_ab"))
            both = [*zip(normal, swap)] + ([published[tokens]] if published else [])
            pairs = [f"{a:.2f},{b:.2f},{a / b:.3f}" for a, b in both]
            print(",".join([name, str(tokens), *pairs]) + ("" if published else ",,,"), flush=True)
        del one
        torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
