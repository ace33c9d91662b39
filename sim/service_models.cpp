#include "sim/service_models.hpp"

namespace moe::sim {
namespace {

constexpr std::string_view kConfig = "model config.json as published on Hugging Face";

/// Grouped-query attention: q and output of heads x 128, k and v of kv_heads x 128.
constexpr ServiceModel grouped(std::string_view name, int layers, double hidden, int heads, int kv_heads,
                               double vocabulary) {
  ServiceModel m;
  m.name = name;
  m.moe_layers = m.attention_layers = layers;
  m.attention_weights = hidden * 128 * (2.0 * heads + 2.0 * kv_heads);
  m.kv_bytes = 2.0 * kv_heads * 128 * 2;
  m.kv_heads = kv_heads;
  m.score_flop = 4.0 * heads * 128;
  m.vocabulary = vocabulary;
  m.hidden = hidden;
  m.source = kConfig;
  return m;
}

/// 61 layers, the first three dense; latent attention of 128 heads (128 + 64 wide, ranks 1536 and 512).
constexpr ServiceModel deepseek_v3() {
  ServiceModel m;
  m.name = "deepseek-v3";
  m.attention_layers = 61;
  m.moe_layers = 58;
  m.dense_layers = 3;
  m.attention_weights =
      7168.0 * 1536 + 1536.0 * 128 * 192 + 7168.0 * 576 + 512.0 * 128 * 256 + 128.0 * 128 * 7168;
  m.kv_bytes = 576 * 2;
  m.kv_on_every_rank = true;
  m.score_flop = 2.0 * 128 * (576 + 512);
  m.dense_weights = 3.0 * 7168 * 18432;
  m.shared_weights = 3.0 * 7168 * 2048;
  m.vocabulary = 129280;
  m.hidden = 7168;
  m.source = kConfig;
  return m;
}

/// 23 Mamba-2, 23 MoE and 6 attention layers; Mamba-2 of 64 heads x 64, 8 groups, state 128.
constexpr ServiceModel nemotron_3_nano() {
  ServiceModel m = grouped("nemotron-3-nano", 6, 2688, 32, 2, 131072);
  m.moe_layers = 23;
  m.other_layers = 23;
  m.shared_weights = 2.0 * 2688 * 3712;
  m.other_weights = 2688.0 * (2 * 4096 + 2 * 8 * 128 + 64) + 4096.0 * 2688;
  m.other_state_bytes = 2 * 64.0 * 64 * 128 * 4;
  return m;
}

/// 43 layers; 64 heads of 512 that share one cache. The ranks of its query and output projections (1024) are
/// assumed.
constexpr ServiceModel deepseek_v4_flash() {
  ServiceModel m;
  m.name = "deepseek-v4-flash";
  m.attention_layers = m.moe_layers = 43;
  m.attention_weights =
      4096.0 * 1024 + 1024.0 * 64 * 512 + 4096.0 * 512 + 64.0 * 512 * 1024 + 8.0 * 1024 * 4096;
  m.kv_bytes = 512 * 2;
  m.kv_on_every_rank = true;
  m.score_flop = 4.0 * 64 * 512;
  m.shared_weights = 3.0 * 4096 * 2048;
  m.vocabulary = 129280;
  m.hidden = 4096;
  m.source =
      "model config.json as published on Hugging Face; ranks of the query and output projections assumed";
  return m;
}

constexpr ServiceModel kModels[] = {
    deepseek_v3(),
    deepseek_v4_flash(),
    grouped("mixtral-8x7b", 32, 4096, 32, 8, 32000),
    nemotron_3_nano(),
    grouped("qwen3-235b", 94, 4096, 64, 4, 151936),
    grouped("qwen3-30b", 48, 2048, 32, 4, 151936),
};

}  // namespace

std::span<const ServiceModel> service_models() { return kModels; }

const ServiceModel* find_service_model(std::string_view name) {
  for (const ServiceModel& m : kModels)
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace moe::sim
