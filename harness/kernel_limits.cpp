#include "harness/kernel_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "fixtures/files/csv.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

using sim::LimitStage;

/// Seconds of each sample of a stage; a layer is the whole op.
const std::vector<double>* samples_of(const Measurement& m, LimitStage stage) {
  if (stage == LimitStage::layer) return &m.seconds;
  for (const StageTime& s : m.stages)
    if (s.stage == sim::name(stage)) return &s.seconds;
  return nullptr;
}

/// The load that the public figures are of: uniform; of an expert-parallel rank all rows of its tokens on its
/// own experts.
bool even(const Problem& p) {
  if (p.shape.ep == 1) return p.routing.load.kind == LoadKind::uniform;
  return p.routing.load.kind == LoadKind::only;
}

const PublicTime* best_public(const Problem& p, LimitStage stage, const std::vector<PublicTime>& known) {
  const PublicTime* best = nullptr;
  if (!even(p)) return nullptr;
  for (const PublicTime& t : known) {
    const bool same = t.model == p.model && t.stage == sim::name(stage) && t.tp == p.shape.tp &&
                      t.ep == p.shape.ep && t.tokens == p.shape.tokens;
    if (same && (best == nullptr || t.seconds < best->seconds)) best = &t;
  }
  return best;
}

LimitCell cell_of(const CaseRecord& r, const ExpertLoad& load, LimitStage stage,
                  const std::vector<double>& seconds, double stream) {
  const Problem& p = r.trial.problem;
  Measurement own;
  own.seconds = seconds;
  LimitCell cell;
  cell.trial = r.trial;
  cell.stage = sim::name(stage);
  cell.seconds = own.median();
  cell.spread = own.spread();
  cell.samples = int(seconds.size());
  cell.kernel_hash = r.measurement->kernel_hash;
  cell.fewest = sim::fewest_work(p, load, stage);
  sim::Ceilings ceilings = sim::h200_ceilings(p.quant);
  ceilings.bytes_per_s = std::max(ceilings.bytes_per_s, stream);
  cell.limit_s = sim::limit_seconds(cell.fewest.bytes, cell.fewest.flop, ceilings);
  cell.staged_limit_s = sim::limit_seconds(cell.fewest.staged_bytes, cell.fewest.flop, ceilings);
  return cell;
}

/// Marks the fastest layout of each problem and stage.
void mark_fastest(std::vector<LimitCell>& cells) {
  for (LimitCell& cell : cells)
    cell.fastest = std::none_of(cells.begin(), cells.end(), [&](const LimitCell& other) {
      return other.stage == cell.stage && other.trial.problem == cell.trial.problem &&
             other.seconds < cell.seconds;
    });
}

}  // namespace

std::vector<PublicTime> parse_public_times(std::string_view text, std::string_view where) {
  const Csv csv = parse_csv(text, where);
  std::vector<PublicTime> times;
  for (const Csv::Row& row : csv.rows) {
    PublicTime t{.model = csv.text(row, "model"),
                 .stage = csv.text(row, "stage"),
                 .name = csv.text(row, "name"),
                 .kind = csv.text(row, "kind")};
    t.tp = int(csv.integer(row, "tp", 1, 4096));
    t.ep = int(csv.integer(row, "ep", 1, 4096));
    t.tokens = csv.integer(row, "tokens", 1, std::int64_t(1) << 40);
    t.seconds = 1e-6 * csv.positive(row, "us");
    t.bytes_per_s = 1e12 * csv.positive(row, "read_tb_per_s");
    if (t.stage != "gemm1" && t.stage != "gemm2" && t.stage != "layer")
      throw BadInput(
          fmt::format("{} line {}: stage is '{}', not gemm1, gemm2 or layer", where, row.line, t.stage));
    times.push_back(std::move(t));
  }
  return times;
}

std::vector<LimitCell> limit_cells(const Report& report, double stream_bytes_per_s,
                                   const std::vector<PublicTime>& known) {
  std::vector<LimitCell> cells;
  for (const CaseRecord& r : report.cases) {
    const Problem& p = r.trial.problem;
    if (!r.measurement || r.measurement->seconds.empty() || p.op != Op::moe_layer) continue;
    const ExpertLoad load = sim::local_load(p, routing_of(p));
    if (load.total() == 0) continue;
    for (LimitStage stage : {LimitStage::gemm1, LimitStage::gemm2, LimitStage::layer}) {
      const std::vector<double>* seconds = samples_of(*r.measurement, stage);
      if (seconds == nullptr || seconds->empty()) continue;
      cells.push_back(cell_of(r, load, stage, *seconds, stream_bytes_per_s));
      if (const PublicTime* best = best_public(p, stage, known)) cells.back().best_public = *best;
    }
  }
  mark_fastest(cells);
  return cells;
}

double ratio_to_public(const LimitCell& cell, double stream_bytes_per_s) {
  if (!cell.best_public) return 0;
  const double own = stream_bytes_per_s > 0 ? stream_bytes_per_s : cell.best_public->bytes_per_s;
  return cell.seconds * own / (cell.best_public->seconds * cell.best_public->bytes_per_s);
}

}  // namespace moe::harness
