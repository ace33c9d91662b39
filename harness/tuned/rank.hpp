// Which tiles of Triton's fused-MoE kernel are fastest for a layer, by prediction? Seconds of the whole
// layer.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/files/tuned_table.hpp"
#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/problem.hpp"

namespace moe::harness {

/// The 1,920 tiles that vLLM's benchmark_moe.py tries on CUDA: BLOCK_SIZE_M 16 to 256, N 32 to 256, K 64 to
/// 256, 4 or 8 warps, groups of 1, 16, 32 or 64, 2 to 5 stages.
std::vector<TileConfig> vllm_space();
/// The batch sizes it tunes.
std::span<const std::int64_t> usual_batches();

struct Ranked {
  TileConfig tile;  // as it would be written
  double seconds = 0;
};

/// Rows of each local expert of `layer` at one batch size, drawn once for each size.
class BatchLoads {
 public:
  explicit BatchLoads(Problem layer) : layer_(std::move(layer)) {}
  /// Draws what is missing, on all threads.
  void draw(std::span<const std::int64_t> batches);
  const ExpertLoad& at(std::int64_t tokens) const { return loads_.at(tokens); }
  Problem problem(std::int64_t tokens) const;

 private:
  Problem layer_;
  std::map<std::int64_t, ExpertLoad> loads_;
};

/// Predicted time of the layer in one tile; throws BadInput for a tile that the compiler does not take.
double layer_seconds(const Problem& layer, const ExpertLoad& load, const TileConfig& tile,
                     const Hardware& hardware);

/// Fastest first, of equals the one that stands first in `space`; tiles that the compiler does not take are
/// left out.
std::vector<Ranked> rank_tiles(const Problem& layer, const ExpertLoad& load,
                               std::span<const TileConfig> space, const Hardware& hardware);

/// The key of the table that this layer looks for on a card.
TunedName table_name(const Problem& layer, const std::string& device);

/// "NVIDIA_H200" of "NVIDIA H200"; the presets' H100 and H20 as the driver names them.
std::string device_name(const Hardware& hardware);

}  // namespace moe::harness
