#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/kernel_limits.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

/// "deepseek-v3 tp 8".
std::string ranks_of(const Problem& p) {
  std::string text = p.model.empty() ? fmt::format("hidden {}", p.shape.hidden) : p.model;
  if (p.shape.tp > 1) text += fmt::format(" tp {}", p.shape.tp);
  if (p.shape.ep > 1) text += fmt::format(" ep {}", p.shape.ep);
  return text;
}

/// Times of the cell's layouts that are not the fastest.
Json other_layouts(const LimitCell& cell, const std::vector<LimitCell>& cells) {
  Json times = Json::object();
  for (const LimitCell& other : cells) {
    const bool same = other.stage == cell.stage && other.trial.problem == cell.trial.problem;
    if (same && !other.fastest) times[std::string(name(other.trial.choice.layout))] = 1e6 * other.seconds;
  }
  return times;
}

Json json_of(const LimitCell& cell, double stream) {
  const Problem& p = cell.trial.problem;
  Json row{{"model", p.model},
           {"tp", p.shape.tp},
           {"ep", p.shape.ep},
           {"tokens", p.shape.tokens},
           {"stage", cell.stage},
           {"routing", to_string(p.routing.load)},
           {"layout", name(cell.trial.choice.layout)},
           {"us", 1e6 * cell.seconds},
           {"spread", cell.spread},
           {"samples", cell.samples},
           {"kernel_hash", cell.kernel_hash},
           {"fewest_bytes", std::int64_t(cell.fewest.bytes)},
           {"limit_us", 1e6 * cell.limit_s},
           {"fraction", cell.fraction()}};
  if (cell.fewest.staged_bytes > cell.fewest.bytes) {
    row["staged_limit_us"] = 1e6 * cell.staged_limit_s;
    row["staged_fraction"] = cell.staged_fraction();
  }
  const bool known = cell.best_public.has_value();
  row["best_public_us"] = known ? Json(1e6 * cell.best_public->seconds) : Json();
  row["best_public_name"] = known ? Json(cell.best_public->name) : Json();
  row["best_public_kind"] = known ? Json(cell.best_public->kind) : Json();
  row["over_public"] = known ? Json(ratio_to_public(cell, stream)) : Json();
  row["case"] = to_line(cell.trial);
  return row;
}

}  // namespace

std::string limit_table(const std::vector<LimitCell>& cells, double stream_bytes_per_s) {
  std::string text = fmt::format("{:<22}{:>7} {:<6}{:<13}{:>10}{:>9}{:>6}{:>7}\n", "", "tokens", "", "layout",
                                 "time", "limit", "of it", "public");
  for (const LimitCell& cell : cells) {
    if (!cell.fastest) continue;
    const Problem& p = cell.trial.problem;
    text += fmt::format(
        "{:<22}{:>7} {:<6}{:<13}{:>10}{:>9}{:>6.2f}{:>7}\n", ranks_of(p).substr(0, 21), p.shape.tokens,
        cell.stage, name(cell.trial.choice.layout), seconds_text(cell.seconds), seconds_text(cell.limit_s),
        cell.fraction(),
        cell.best_public ? fmt::format("{:.2f}", ratio_to_public(cell, stream_bytes_per_s)) : "-");
  }
  return text + "public: time over that of the best public kernel, both scaled by their run's bandwidth\n";
}

std::string limit_json(const std::vector<LimitCell>& cells, double stream_bytes_per_s,
                       const std::string& commit) {
  std::string text = fmt::format("{{\"schema\": 1, \"commit\": {}, \"read_bytes_per_s\": {}, \"cells\": [",
                                 Json(commit).dump(), Json(stream_bytes_per_s).dump());
  const char* between = "\n";
  for (const LimitCell& cell : cells) {
    if (!cell.fastest) continue;
    Json row = json_of(cell, stream_bytes_per_s);
    row["other_layouts_us"] = other_layouts(cell, cells);
    text += between + row.dump();
    between = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace moe::harness
