#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/tuned/lint.hpp"
#include "harness/units.hpp"
#include "sim/uncertainty.hpp"

namespace moe::harness {
namespace {

struct Card {
  const char *device, *file;
};
/// Device names of tables and the cards that this program knows.
constexpr Card kCards[] = {
    {"NVIDIA_H200", "h200"}, {"NVIDIA_H100_80GB_HBM3", "h100_sxm"}, {"NVIDIA_H20", "h20"}};

/// The public model that has such a layer on some number of ranks: hidden size and top-k are not in a table's
/// name.
std::optional<Problem> layer_of(const TunedName& name) {
  for (const ModelPreset& model : model_presets())
    for (const int tp : {1, 2, 4, 8, 16}) {
      const MoeShape& s = model.shape;
      if (s.experts != name.experts || s.intermediate % tp != 0 || s.intermediate / tp != name.n) continue;
      Problem p;
      p.model = model.name;
      p.shape = s;
      p.shape.tp = tp;
      p.routing.router = model.router;
      p.quant = model.quant;
      if (name.block() != p.quant.block())
        p.quant.kind = name.block() ? QuantKind::block128 : QuantKind::tensor_static;
      return p;
    }
  return std::nullopt;
}

Finding note(const TunedTable& table, std::string what) {
  return {table.where, Severity::note, "unpredicted", 0, std::move(what)};
}

}  // namespace

BatchLoads& PredictedLint::loads_of(const Problem& layer, const std::string& key) {
  auto& loads = loads_[key];
  if (!loads) loads = std::make_unique<BatchLoads>(layer);
  return *loads;
}

std::vector<Finding> PredictedLint::lint(const TunedTable& table) {
  const Card* card = std::find_if(std::begin(kCards), std::end(kCards),
                                  [&](const Card& c) { return table.name.device == c.device; });
  if (card == std::end(kCards)) return {note(table, "no card of this name is known: nothing predicted")};
  if (table.name.dtype != "fp8_w8a8") return {note(table, "not an FP8 table: nothing predicted")};
  const auto layer = layer_of(table.name);
  if (!layer)
    return {note(table, fmt::format("no model of the list has {} experts of {}: nothing predicted",
                                    table.name.experts, table.name.n))};
  const Hardware hardware = load_hardware(card->file);
  BatchLoads& loads = loads_of(*layer, fmt::format("{} {}", layer->model, table.name.n));
  std::vector<std::int64_t> batches;
  for (const TunedEntry& e : table.entries) batches.push_back(e.tokens);
  loads.draw(batches);
  std::vector<Finding> findings;
  for (const TunedEntry& e : table.entries) {
    const Problem p = loads.problem(e.tokens);
    const TileConfig standard = vllm_default_tile(e.tokens, table.name.experts, table.name.block(), true);
    try {
      const double own = layer_seconds(p, loads.at(e.tokens), effective_tile(e.tile, table.name), hardware);
      const double other =
          layer_seconds(p, loads.at(e.tokens), effective_tile(standard, table.name), hardware);
      if (own <= other * (1 + sim::kGainWidth)) continue;
      findings.push_back(
          {table.where, Severity::warning, "slower", e.tokens,
           fmt::format("{} {} by prediction, the default {} {} ({}, tp {})", to_string(e.tile),
                       seconds_text(own), to_string(standard), seconds_text(other), p.model, p.shape.tp)});
    } catch (const BadInput&) {  // lint_table has said so
    }
  }
  return findings;
}

}  // namespace moe::harness
