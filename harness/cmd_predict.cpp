#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/cli.hpp"
#include "harness/expand.hpp"
#include "harness/predict_table.hpp"
#include "harness/reporters.hpp"
#include "harness/waterfall.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

/// Up to so many problems are explained in full; more become one line a case.
constexpr std::size_t kExplained = 4;

std::vector<CaseRecord> predict_work(const Work& work, const Hardware& hardware) {
  const Routing routing = routing_of(work.problem);
  std::vector<CaseRecord> records;
  for (const Choice& choice : work.choices) {
    CaseRecord record;
    record.trial = {work.problem, choice};
    record.prediction = sim::predict(work.problem, choice, hardware, routing);
    records.push_back(record);
  }
  fill_speedups(records);
  return records;
}

/// Puts the other operand order, in its automatic tile, in front of the one that was asked for: swap_ab's
/// true baseline, or swap_ab.
void add_other_order(std::vector<Work>& works, const Options& o) {
  const LayoutRequest asked = o.problem.layout;
  if (o.problem.replay || asked == LayoutRequest::both || asked == LayoutRequest::all) return;
  ProblemOptions other = o.problem;
  other.layout = asked == LayoutRequest::swap_ab ? LayoutRequest::both : LayoutRequest::swap_ab;
  other.choice.tile = other.choice.tile_down = {};
  const auto others = expand(other, o.run.shard);
  for (std::size_t i = 0; i < works.size(); ++i)
    if (others[i].choices.front() != works[i].choices.front())
      works[i].choices.insert(works[i].choices.begin(), others[i].choices.front());
}

}  // namespace

int cmd_predict(const Options& o, const Streams& s) {
  require_writable(o.output);
  const Hardware hardware = load_hardware(o.hardware);
  auto works = expand(o.problem, o.run.shard);
  if (o.why) add_other_order(works, o);
  Report report;
  report.command = o.command;
  describe_hardware(report, hardware);
  std::string tables, whys;
  for (const Work& work : works) {
    auto records = predict_work(work, hardware);
    if (works.size() <= kExplained && records.size() <= 3) tables += predict_table(records, report.hardware);
    if (o.why) whys += why_text(records);
    for (CaseRecord& r : records) report.cases.push_back(std::move(r));
  }
  if (!o.output.quiet && !reports_to_stdout(o.output))
    s.out << (tables.empty() ? table_report(report, false) : tables) << whys;
  write_reports(report, o.output, s.out);
  return 0;
}

}  // namespace moe::harness
