// Routing traces (--load trace:FILE): ids that are accepted lie inside the layer.
#include <cmath>

#include "fixtures/files/trace.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const fuzz::MemoryFile file(bytes, size);
  LoadSpec load;
  load.kind = LoadKind::trace;
  load.path = file.path();
  MoeShape shape;
  shape.tokens = 3;
  shape.experts = 8;
  shape.top_k = 2;
  fuzz::accepted([&] {
    const Routing routing = read_trace(load, shape);
    fuzz::require(routing.ids.size() == 6 && routing.weights.size() == 6, "one id and weight a pair");
    for (const std::int32_t id : routing.ids) fuzz::require(id >= -1 && id < 8, "an id is an expert or -1");
    for (const float weight : routing.weights) fuzz::require(std::isfinite(weight), "weights are finite");
  });
  return 0;
}
