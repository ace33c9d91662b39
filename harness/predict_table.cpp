#include "harness/predict_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr std::size_t kLabel = 22, kCell = 18;

std::string line(const std::string& label, const std::vector<std::string>& cells) {
  std::string text = fmt::format("  {:<{}}", label, kLabel);
  for (const std::string& cell : cells) text += fmt::format("{:>{}}", cell, kCell);
  return text + "\n";
}

template <class Read>
std::string row(const char* label, const std::vector<CaseRecord>& records, Read read) {
  std::vector<std::string> cells;
  for (const CaseRecord& r : records) cells.push_back(read(*r.prediction));
  return line(label, cells);
}

/// Seconds of each named part; a part that a choice does not have is a dash.
std::string part_rows(const std::vector<CaseRecord>& records) {
  std::vector<std::string> names;
  for (const CaseRecord& r : records)
    for (const Part& part : r.prediction->parts)
      if (std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
  std::string out;
  for (const std::string& wanted : names)
    out += row(("  " + wanted).c_str(), records, [&](const Prediction& p) {
      for (const Part& part : p.parts)
        if (part.name == wanted) return seconds_text(part.seconds);
      return std::string("-");
    });
  return out;
}

std::string instructions(const Counts& counts) {
  std::string text;
  for (const auto& [n, count] : counts.wgmma)
    text += fmt::format("{}{} x n{}", text.empty() ? "" : ", ", count, n);
  if (counts.mma > 0) text = fmt::format("{} mma", counts.mma);
  return text.empty() ? "-" : text;
}

/// Of all passes of shared memory; a kernel whose accesses the model does not know has none to show.
std::string conflicts_text(const Prediction& p) {
  if (p.counts.shared_wavefronts == 0) return "-";
  return fmt::format("{} ({})", p.bank_conflicts,
                     percent_text(double(p.bank_conflicts) / double(p.counts.shared_wavefronts)));
}

std::string speedup_row(const std::vector<CaseRecord>& records) {
  std::vector<std::string> cells;
  std::string baseline;
  for (const CaseRecord& r : records) {
    const bool known = r.speedup && r.speedup->predicted;
    if (known) baseline = r.speedup->baseline;
    cells.push_back(known ? ratio_text(*r.speedup->predicted) : "");
  }
  return baseline.empty() ? "" : line("against " + baseline, cells);
}

}  // namespace

std::string predict_table(const std::vector<CaseRecord>& records, const std::string& hardware) {
  const Problem& p = records.front().trial.problem;
  std::string out = fmt::format("{}  tokens {}  load {}  {}  on {}\n", shape_text(p), p.shape.tokens,
                                to_string(p.routing.load), name(p.quant.kind), hardware);
  std::vector<std::string> layouts, tiles;
  for (const CaseRecord& r : records) {
    layouts.push_back(std::string(name(r.trial.choice.layout)));
    tiles.push_back(to_string(r.trial.choice.tile));
  }
  out += line("", layouts) + line("tile", tiles);
  out += row("time", records, [](const Prediction& q) { return seconds_text(q.seconds); });
  out += row("  give or take", records, [](const Prediction& q) { return percent_text(q.uncertainty); });
  out += speedup_row(records);
  out += part_rows(records);
  out += row("limited by", records, [](const Prediction& q) { return std::string(name(q.limit)); });
  out +=
      row("tensor pipe active", records, [](const Prediction& q) { return percent_text(q.tensor_active); });
  out += row("useful FLOP", records, [](const Prediction& q) { return percent_text(q.useful_flop); });
  out += row("padding", records, [](const Prediction& q) { return percent_text(q.padding); });
  out +=
      row("issue efficiency", records, [](const Prediction& q) { return percent_text(q.issue_efficiency); });
  out += row("waves", records, [](const Prediction& q) { return fmt::format("{:.2f}", q.waves); });
  out += row("tail", records, [](const Prediction& q) { return percent_text(q.tail); });
  out += row("bytes from HBM", records, [](const Prediction& q) { return bytes_text(q.hbm_bytes); });
  out += row("bytes from L2", records, [](const Prediction& q) { return bytes_text(q.l2_bytes); });
  out += row("bytes from shared", records, [](const Prediction& q) { return bytes_text(q.shared_bytes); });
  out += row("bank conflicts", records, [](const Prediction& q) { return conflicts_text(q); });
  out += row("tiles", records, [](const Prediction& q) { return std::to_string(q.counts.tiles); });
  out += row("instructions", records, [](const Prediction& q) { return instructions(q.counts); });
  for (const CaseRecord& r : records)
    out += fmt::format("  {}: {}\n", name(r.trial.choice.layout), r.prediction->reason);
  return out;
}

}  // namespace moe::harness
