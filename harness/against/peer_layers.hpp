// Which layers does a file of peers' times name, and how does it write a Triton tile? Shared by what scores
// the model on such a file and by what routes on it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/routing.hpp"

namespace moe::harness {

/// Sizes of a rank and the experts a token can go to there.
struct PeerLayer {
  std::int64_t hidden, intermediate;
  int experts, top_k;
  QuantKind quant;
};
/// Null for a name that is not known.
const PeerLayer* peer_layer(const std::string& name);

struct TritonNote {
  TileConfig tile;
  bool swap = false, tma = false, naive = false;
};
/// "cfg=8/32/128/1/4/4 swap=0 naive=1" or "... tmaB"; nothing where no tile is named. Throws BadInput.
std::optional<TritonNote> parse_triton_note(const std::string& text, const std::string& where);

/// One grouped GEMM of the layer.
Problem peer_problem(const PeerLayer& layer, std::int64_t tokens, int gemm);

/// The file's routings are uniform and not in it; this draws one for each layer and token count.
class PeerLoads {
 public:
  const ExpertLoad& of(const std::string& model, const Problem& p);

 private:
  std::map<std::pair<std::string, std::int64_t>, ExpertLoad> drawn_;
};

}  // namespace moe::harness
