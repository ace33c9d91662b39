#include "harness/service/claims.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fixtures/files/models.hpp"
#include "fixtures/files/tuned_table.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/units.hpp"
#include "sim/layer.hpp"
#include "sim/predict.hpp"
#include "sim/uncertainty.hpp"

namespace moe::harness {
namespace {

Problem layer_of(const std::string& model, int tp, std::int64_t tokens) {
  const ModelPreset preset = find_model(model);
  Problem p;
  p.model = preset.name;
  p.shape = preset.shape;
  p.shape.tp = tp;
  p.shape.tokens = tokens;
  p.routing.router = preset.router;
  p.quant = preset.quant;
  return p;
}

/// Triton's kernel in the framework's default tile of that batch.
Choice triton(const Problem& p, bool swap) {
  Choice choice;
  choice.kernel = sim::kTritonKernel;
  choice.tile = vllm_default_tile(p.shape.tokens, p.shape.local_experts(), p.quant.block(), true);
  choice.layout = swap ? Layout::swap_ab : layout_of_tile(choice.tile, false);
  return choice;
}

std::string percent(double x) { return fmt::format("{:+.1f} %", 100 * x); }

Claim judged(Claim claim) {
  claim.verdict = verdict_on(claim.predicted, claim.claimed_least, claim.claimed_most);
  return claim;
}

/// Batches between which the claim's unnamed load is taken to lie.
Claim swap_ab_throughput(const Hardware& hardware) {
  Claim claim{"Swap-AB: 2 to 4 % more output tokens a second on H200 (vLLM pull request 36559)",
              0.02,
              0.04,
              {},
              "",
              {}};
  sim::Range all{1e9, 0, -1e9}, shares{1, 0, 0};
  double middle = 0;
  const std::vector<std::int64_t> batches = {8, 16, 32};
  for (const std::int64_t batch : batches) {
    const Problem layer = layer_of("deepseek-v3", 8, batch);
    ServiceOptions service;
    service.concurrency = int(batch);
    service.context = 2048;
    service.prompt = 1024;
    const Serving normal = serve("deepseek-v3", layer, triton(layer, false), service, hardware, {});
    const Routing routing = routing_of(layer);
    const double gain = sim::predict(layer, triton(layer, false), hardware, routing).seconds /
                            sim::predict(layer, triton(layer, true), hardware, routing).seconds -
                        1;
    const sim::Range step =
        step_gain(normal.decode.share, {gain - sim::kGainWidth, gain, gain + sim::kGainWidth});
    all.least = std::min(all.least, step.least);
    all.most = std::max(all.most, step.most);
    middle += step.middle / double(batches.size());
    shares = {std::min(shares.least, normal.decode.share.least),
              shares.middle + normal.decode.share.middle / double(batches.size()),
              std::max(shares.most, normal.decode.share.most)};
    claim.assumptions.push_back(
        fmt::format("{} sequences: the layer gains {} (predicted, known to {:.0f} points), the step {}",
                    batch, percent(gain), 100 * sim::kGainWidth, percent(step.middle)));
    if (batch == batches.back())
      claim.assumptions.insert(claim.assumptions.end(), normal.assumptions.begin(), normal.assumptions.end());
  }
  all.middle = middle;
  claim.predicted = all;
  claim.assumptions.insert(
      claim.assumptions.begin(),
      fmt::format("DeepSeek-R1 on 8 ranks, 8 to 32 sequences of 2,048 tokens (the source names no load); "
                  "default tiles; the MoE is {:.0f} to {:.0f} % of a step",
                  100 * shares.least, 100 * shares.most));
  return judged(claim);
}

/// The unfused back end as passes and launches that the fused one does not have: rows copied into expert
/// order, their scales made apart, results summed apart.
Claim fused_backend_throughput(const Hardware& hardware) {
  Claim claim{
      "Triton's fused back end instead of FlashInfer-CUTLASS, FP8 with tensor scales: 10 % more throughput "
      "on H200 "
      "(vLLM pull request 50040: Nemotron-3-Nano, one rank, one sequence)",
      0.10,
      0.10,
      {},
      "",
      {}};
  const Problem layer = layer_of("nemotron-3-nano", 1, 1);
  ServiceOptions service;
  service.concurrency = 1;
  service.context = 2048;
  service.prompt = 1024;
  sim::ServiceAssumptions assumptions;
  assumptions.weight_bytes = {1, 1.5, 2};
  const Serving fused = serve("nemotron-3-nano", layer, triton(layer, true), service, hardware, assumptions);
  const double rows = double(layer.shape.pairs()), hidden = double(layer.shape.hidden);
  const double pass =
      hardware.graph_node_s + sim::elementwise_seconds(hardware, {"copy", rows * hidden, rows * hidden});
  const sim::Range passes{2, 4, 6};
  const auto gain = [&](double count, double step) { return count * pass * 23 / step; };
  claim.predicted = {gain(passes.least, fused.decode.total.most),
                     gain(passes.middle, fused.decode.total.middle),
                     gain(passes.most, fused.decode.total.least)};
  claim.assumptions = {
      fmt::format(
          "the unfused back end makes {:.0f} to {:.0f} passes a layer more, {} each (copy into expert "
          "order, scale, sum and what lies between); its GEMMs are as fast",
          passes.least, passes.most, seconds_text(pass)),
      fmt::format(
          "a fused step takes {} to {} ({:.0f} tokens a second in the middle; the source measured 351 "
          "before the change)",
          seconds_text(fused.decode.total.least), seconds_text(fused.decode.total.most),
          fused.tokens_per_s.middle)};
  claim.assumptions.insert(claim.assumptions.end(), fused.assumptions.begin(), fused.assumptions.end());
  return judged(claim);
}

/// Compilations stop every sequence that waits for its first token; the mean over all requests shares their
/// time out.
Claim first_token_without_recompilation(const Hardware& hardware) {
  Claim claim{
      "an end to recompilation of inv_rope_quant: first token 9 % earlier on H200 (vLLM pull request 42849: "
      "DeepSeek-V4-Flash, 8 ranks, 480 requests, 8 at a time)",
      0.09,
      0.09,
      {},
      "",
      {}};
  Problem layer = layer_of("deepseek-v4-flash", 8, 8);
  ServiceOptions service;
  service.concurrency = 8;
  service.context = 512;
  service.prompt = 256;
  sim::ServiceAssumptions assumptions;
  assumptions.kernels = {15, 25, 40};
  assumptions.eager = {3e-6, 5e-6, 9e-6};
  const Serving after = serve("deepseek-v4-flash", layer, Choice{}, service, hardware, assumptions);
  const sim::Range compiles{1, 2, 2}, each{0.1, 0.3, 1.0}, waiting{1, 4, 8};
  const auto stall = [&](double count, double seconds, double requests) {
    return count * seconds * requests / 480;
  };
  const auto earlier = [](double stalled, double base) { return stalled / (base + stalled); };
  claim.predicted = {earlier(stall(compiles.least, each.least, waiting.least), after.first_token.most),
                     earlier(stall(compiles.middle, each.middle, waiting.middle), after.first_token.middle),
                     earlier(stall(compiles.most, each.most, waiting.most), after.first_token.least)};
  claim.assumptions = {
      fmt::format("4 variants become 2 (audit-jit); {:.0f} to {:.0f} of the two are met while serving, {} to "
                  "{} each, with {:.0f} to "
                  "{:.0f} of the 480 requests waiting",
                  compiles.least, compiles.most, seconds_text(each.least), seconds_text(each.most),
                  waiting.least, waiting.most),
      fmt::format("prompts of {} tokens; a first token takes {} to {} without a compilation", service.prompt,
                  seconds_text(after.first_token.least), seconds_text(after.first_token.most))};
  claim.assumptions.insert(claim.assumptions.end(), after.assumptions.begin(), after.assumptions.end());
  return judged(claim);
}

}  // namespace

std::string verdict_on(const sim::Range& predicted, double least, double most) {
  if (most < predicted.least)
    return fmt::format("outside: the model says at least {}", percent(predicted.least));
  if (least > predicted.most)
    return fmt::format("outside: the model says at most {}", percent(predicted.most));
  const std::string word = predicted.holds(least) && predicted.holds(most) ? "inside" : "partly inside";
  if (predicted.least <= 0) return word + ", but the interval also holds no gain at all: measure it";
  if (predicted.most > 4 * std::max(most, predicted.least))
    return word + ", but the interval is too wide to say much";
  return word;
}

std::vector<Claim> public_claims(const Hardware& hardware) {
  return {swap_ab_throughput(hardware), fused_backend_throughput(hardware),
          first_token_without_recompilation(hardware)};
}

std::string claims_text(const std::vector<Claim>& claims) {
  std::string text;
  for (const Claim& c : claims) {
    text += fmt::format("{}{}\n  model: {} ({} to {}): {}\n  assumed:\n", text.empty() ? "" : "\n", c.text,
                        percent(c.predicted.middle), percent(c.predicted.least), percent(c.predicted.most),
                        c.verdict);
    for (const std::string& word : c.assumptions) text += "    " + word + "\n";
  }
  return text;
}

}  // namespace moe::harness
