#include "harness/tuned/rank.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/parallel.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

constexpr std::array<std::int64_t, 18> kBatches{1,  2,   4,   8,   16,   24,   32,   48,   64,
                                                96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096};

using Key = std::tuple<int, int, int, int, int, int>;

Key key_of(const TileConfig& t) { return {t.block_m, t.block_n, t.block_k, t.stages, t.warps, t.group_m}; }

}  // namespace

std::vector<TileConfig> vllm_space() {
  std::vector<TileConfig> space;
  for (const int block_k : {128, 64, 256})  // what equals another tile in the end stands behind it
    for (const int block_m : {16, 32, 64, 128, 256})
      for (const int block_n : {32, 64, 128, 256})
        for (const int warps : {4, 8})
          for (const int group_m : {1, 16, 32, 64})
            for (const int stages : {2, 3, 4, 5}) {
              TileConfig t;
              t.block_m = block_m, t.block_n = block_n, t.block_k = block_k;
              t.warps = warps, t.group_m = group_m, t.stages = stages;
              space.push_back(t);
            }
  return space;
}

std::span<const std::int64_t> usual_batches() { return kBatches; }

Problem BatchLoads::problem(std::int64_t tokens) const {
  Problem p = layer_;
  p.shape.tokens = tokens;
  return p;
}

void BatchLoads::draw(std::span<const std::int64_t> batches) {
  std::vector<std::int64_t> missing;
  for (const std::int64_t tokens : batches)
    if (loads_.try_emplace(tokens).second) missing.push_back(tokens);
  std::sort(missing.rbegin(), missing.rend());  // the longest first
  parallel(std::int64_t(missing.size()), 0, [&](std::int64_t i) {
    const Problem p = problem(missing[std::size_t(i)]);
    loads_.at(p.shape.tokens) = sim::local_load(p, routing_of(p));
  });
}

double layer_seconds(const Problem& layer, const ExpertLoad& load, const TileConfig& tile,
                     const Hardware& hardware) {
  Choice choice;
  choice.kernel = sim::kTritonKernel;
  choice.tile = tile;
  choice.layout = layout_of_tile(tile, true);
  return sim::predict(layer, choice, hardware, load).seconds;
}

std::vector<Ranked> rank_tiles(const Problem& layer, const ExpertLoad& load,
                               std::span<const TileConfig> space, const Hardware& hardware) {
  const TunedName name = table_name(layer, "");
  std::map<Key, double> known;  // written tiles that run as the same one
  std::vector<Ranked> ranked;
  for (const TileConfig& written : space) {
    if (name.block() && written.block_k % name.block_k != 0) continue;  // nor does vLLM's tuner try them
    const TileConfig tile = effective_tile(written, name);
    const auto [at, fresh] = known.try_emplace(key_of(tile), -1);
    if (fresh) {
      try {
        at->second = layer_seconds(layer, load, tile, hardware);
      } catch (const BadInput&) {  // the compiler does not take it
      }
    }
    if (at->second >= 0) ranked.push_back({written, at->second});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Ranked& a, const Ranked& b) { return a.seconds < b.seconds; });
  return ranked;
}

TunedName table_name(const Problem& layer, const std::string& device) {
  TunedName name;
  name.experts = layer.shape.local_experts();
  name.n = layer.shape.local_intermediate();
  name.device = device;
  name.dtype = "fp8_w8a8";
  if (layer.quant.block()) name.block_n = name.block_k = kScaleBlock;
  return name;
}

std::string device_name(const Hardware& hardware) {
  std::string name = hardware.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace moe::harness
