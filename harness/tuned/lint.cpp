#include "harness/tuned/lint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "fixtures/files/csv.hpp"
#include "fixtures/files/gzip.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"
#include "sim/triton_tile.hpp"

namespace moe::harness {
namespace {

/// A table whose greatest batch is below this runs prefill by a tile that was tuned for decode.
constexpr std::int64_t kLeastLast = 512;
constexpr std::size_t kMostListed = 6;

std::string list_text(const std::vector<std::int64_t>& batches) {
  std::string text;
  for (std::size_t i = 0; i < std::min(batches.size(), kMostListed); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", batches[i]);
  return batches.size() > kMostListed ? text + fmt::format(" and {} more", batches.size() - kMostListed)
                                      : text;
}

class TableLint {
 public:
  explicit TableLint(const TunedTable& table) : table_(table) {}

  std::vector<Finding> all() {
    for (const TunedEntry& entry : table_.entries) look_at(entry);
    batches();
    swaps();
    redundant();
    return std::move(findings_);
  }

 private:
  void add(Severity severity, const char* rule, std::int64_t batch, std::string what) {
    findings_.push_back({table_.where, severity, rule, batch, std::move(what)});
  }

  sim::GemmShape gemm_of(const TileConfig& tile) const {
    sim::GemmShape gemm;
    gemm.n = 2 * table_.name.n;
    gemm.k = table_.name.n;  // no rule here depends on it
    gemm.tile = tile;
    gemm.layout = layout_of_tile(tile, true);
    gemm.block_scales = table_.name.block();
    return gemm;
  }

  void look_at(const TunedEntry& entry) {
    const TileConfig tile = effective_tile(entry.tile, table_.name);
    if (tile.block_k != entry.tile.block_k)
      add(Severity::warning, "dead_value", entry.tokens,
          fmt::format("BLOCK_SIZE_K {} runs as {}: a block has one scale", entry.tile.block_k, tile.block_k));
    for (const std::string& key : entry.unknown)
      add(Severity::warning, "dead_key", entry.tokens, fmt::format("no kernel reads '{}'", key));
    try {
      const sim::TritonTile t = sim::triton_tile(gemm_of(tile));
      if (t.spilled > 0)
        add(Severity::warning, "spills", entry.tokens,
            fmt::format("tile {}: about {} registers a thread beyond 255 go through memory each k-block",
                        to_string(tile), t.spilled));
    } catch (const BadInput& e) {
      const bool memory = std::string_view(e.what()).find("shared memory") != std::string_view::npos;
      add(Severity::error, memory ? "shared_memory" : "tile", entry.tokens, e.what());
    }
  }

  void batches() {
    std::set<std::int64_t> there;
    for (const TunedEntry& entry : table_.entries) there.insert(entry.tokens);
    if (*there.rbegin() < kLeastLast)
      add(Severity::warning, "short", *there.rbegin(),
          "ends there: larger batches run a tile of a small one");
    std::vector<std::int64_t> missing;
    for (const std::int64_t batch : usual_batches())
      if (batch <= *there.rbegin() && !there.contains(batch)) missing.push_back(batch);
    if (!missing.empty())
      add(Severity::warning, "missing_batch", 0,
          fmt::format("batches of the usual list are missing: {}", list_text(missing)));
  }

  void swaps() {
    const bool any = std::any_of(table_.entries.begin(), table_.entries.end(), [&](const TunedEntry& e) {
      return layout_of_tile(effective_tile(e.tile, table_.name), true) == Layout::swap_ab;
    });
    if (!any && table_.name.dtype == "fp8_w8a8")
      add(Severity::warning, "never_swaps", 0,
          "no batch reaches Swap-AB (fewer than 64 tokens and at least 64 columns a tile): tuned without it");
  }

  /// Batches whose neighbours in order have the same tile: with or without them every batch size runs the
  /// same.
  void redundant() {
    std::vector<const TunedEntry*> order;
    for (const TunedEntry& e : table_.entries) order.push_back(&e);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->tokens < b->tokens; });
    std::vector<std::int64_t> same;
    for (std::size_t i = 1; i + 1 < order.size(); ++i)
      if (order[i]->tile == order[i - 1]->tile && order[i]->tile == order[i + 1]->tile)
        same.push_back(order[i]->tokens);
    if (!same.empty())
      add(Severity::note, "redundant", 0,
          fmt::format("batches with the tile of both neighbours: {}", list_text(same)));
  }

  const TunedTable& table_;
  std::vector<Finding> findings_;
};

void add_all(std::vector<Finding>& to, std::vector<Finding> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void lint_one(LintResult& result, PredictedLint& predicted, const TunedTable& table) {
  ++result.tables;
  add_all(result.findings, lint_table(table));
  add_all(result.findings, predicted.lint(table));
}

void lint_file(LintResult& result, PredictedLint& predicted, const std::string& file, bool named) {
  const std::string base = std::filesystem::path(file).filename().string();
  if (!named && !base.starts_with("E=")) return;  // a folder holds other files too
  const std::string text = read_file(file);
  TunedName name;
  try {
    name = parse_tuned_name(base);
  } catch (const BadInput& e) {
    result.findings.push_back({file, Severity::error, "name", 0, e.what()});
    return;
  }
  try {
    lint_one(result, predicted, parse_tuned_table(text, name, file));
  } catch (const BadInput& e) {
    ++result.tables;
    result.findings.push_back({file, Severity::error, "unreadable", 0, e.what()});
  }
}

}  // namespace

std::string_view name(Severity severity) {
  constexpr std::string_view names[] = {"error", "warning", "note"};
  return names[int(severity)];
}

int LintResult::count(Severity severity) const {
  return int(std::count_if(findings.begin(), findings.end(),
                           [&](const Finding& f) { return f.severity == severity; }));
}

std::vector<Finding> lint_table(const TunedTable& table) { return TableLint(table).all(); }

LintResult lint_path(const std::string& path) {
  LintResult result;
  PredictedLint predicted;
  if (path.ends_with(".csv") || path.ends_with(".csv.gz")) {
    for (const TunedTable& table : parse_tuned_csv(read_plain_or_gzip(path), path))
      lint_one(result, predicted, table);
  } else {
    for (const std::string& file : tuned_files(path)) lint_file(result, predicted, file, file == path);
  }
  if (result.tables == 0 && result.findings.empty())
    throw BadInput(fmt::format("{}: no tuned table (E=..,N=..,device_name=...json) in it", path));
  return result;
}

}  // namespace moe::harness
