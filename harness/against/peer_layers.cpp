#include "harness/against/peer_layers.hpp"

#include <fmt/format.h>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/values.hpp"
#include "sim/predict.hpp"

namespace moe::harness {

const PeerLayer* peer_layer(const std::string& name) {
  // DeepSeek-V3 on 8 ranks by columns; by experts (every token's eight rows on the 32 experts of one rank);
  // Mixtral-8x7B on one and two; Qwen3-235B on four.
  static const std::map<std::string, PeerLayer, std::less<>> table{
      {"dsv3_tp8", {7168, 256, 256, 8, QuantKind::block128}},
      {"dsv3_ep8", {7168, 2048, 32, 8, QuantKind::block128}},
      {"mixtral_tp1", {4096, 14336, 8, 2, QuantKind::tensor_static}},
      {"mixtral_tp2", {4096, 7168, 8, 2, QuantKind::tensor_static}},
      {"qwen3_tp4", {4096, 384, 128, 8, QuantKind::block128}}};
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

std::optional<TritonNote> parse_triton_note(const std::string& text, const std::string& where) {
  if (!text.starts_with("cfg=")) return std::nullopt;
  TritonNote note;
  for (const std::string& word : split(text, ' ')) {
    if (word.starts_with("cfg=")) {
      const auto sides = split(std::string_view(word).substr(4), '/');
      if (sides.size() != 6)
        throw BadInput(fmt::format("{}: note '{}' does not name six sides", where, one_line(word)));
      int TileConfig::*const fields[] = {&TileConfig::block_m, &TileConfig::block_n, &TileConfig::block_k,
                                         &TileConfig::group_m, &TileConfig::warps,   &TileConfig::stages};
      for (std::size_t i = 0; i < 6; ++i)
        note.tile.*fields[i] = int(parse_integer(where + ": note", sides[i], 1, 1 << 20));
    }
    note.swap |= word == "swap=1";
    note.naive |= word == "naive=1";
    note.tma |= word == "tmaB";
  }
  return note;
}

Problem peer_problem(const PeerLayer& layer, std::int64_t tokens, int gemm) {
  Problem p;
  p.op = Op::grouped_gemm;
  p.gemm = gemm;
  p.shape.tokens = tokens;
  p.shape.hidden = layer.hidden;
  p.shape.intermediate = layer.intermediate;
  p.shape.experts = layer.experts;
  p.shape.top_k = layer.top_k;
  p.quant.kind = layer.quant;
  return p;
}

const ExpertLoad& PeerLoads::of(const std::string& model, const Problem& p) {
  ExpertLoad& load = drawn_[{model, p.shape.tokens}];
  if (load.rows.empty()) load = sim::local_load(p, make_routing(p.routing, p.shape, p.seed));
  return load;
}

}  // namespace moe::harness
