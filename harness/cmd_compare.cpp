#include <fmt/format.h>

#include <map>
#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/compare_speed.hpp"
#include "harness/exit_code.hpp"
#include "harness/json_codec.hpp"
#include "harness/reporters.hpp"
#include "harness/suite.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

bool timed(const CaseRecord& r) { return r.measurement && !r.measurement->seconds.empty(); }

/// Speedups of each problem's layouts, problems being neighbours in the file.
void fill_all_speedups(std::vector<CaseRecord>& cases) {
  for (std::size_t first = 0; first < cases.size();) {
    std::size_t end = first + 1;
    while (end < cases.size() && cases[end].trial.problem == cases[first].trial.problem) ++end;
    std::vector<CaseRecord> group(cases.begin() + std::ptrdiff_t(first), cases.begin() + std::ptrdiff_t(end));
    fill_speedups(group);
    std::move(group.begin(), group.end(), cases.begin() + std::ptrdiff_t(first));
    first = end;
  }
}

void judge_model(CaseRecord& r, const Hardware& hardware) {
  if (!timed(r)) return;
  if (!r.verdict) r.verdict = Verdict{};
  r.prediction = sim::predict(r.trial.problem, r.trial.choice, hardware);
  r.verdict->model = compare_model(*r.prediction, *r.measurement);
}

/// Cases of `old` by their line.
std::map<std::string, const CaseRecord*> by_line(const Report& old) {
  std::map<std::string, const CaseRecord*> lines;
  for (const CaseRecord& r : old.cases) lines[to_line(r.trial)] = &r;
  return lines;
}

int judge_speed(Report& report, const Report& old) {
  const auto lines = by_line(old);
  int matched = 0;
  for (CaseRecord& r : report.cases) {
    const auto match = lines.find(to_line(r.trial));
    if (match == lines.end() || !timed(r) || !timed(*match->second)) continue;
    if (!r.verdict) r.verdict = Verdict{};
    r.verdict->speed = compare_speed(*r.measurement, *match->second->measurement);
    ++matched;
  }
  return matched;
}

Report read_report(const std::string& path) { return report_from_json(read_file(path), path); }

}  // namespace

int cmd_compare(const Options& o, const Streams& s) {
  if (!o.against.empty()) return cmd_against(o, s);
  if (!o.ncu.empty()) return cmd_ncu(o, s);
  if (o.problem.replay) throw BadInput("--case says what --ncu FILE has counted; give that too");
  if (!o.tuned.empty()) throw BadInput("--tuned names the tables for --against FILE; give that too");
  if (o.words.empty()) throw BadInput("compare needs a bench report: moeproof compare BENCH.json [OLD.json]");
  Report report = read_report(o.words[0]);
  report.command = o.command;
  const Hardware hardware = load_hardware(o.hardware);
  describe_hardware(report, hardware);
  int measured = 0;
  for (CaseRecord& r : report.cases) judge_model(r, hardware), measured += timed(r);
  if (measured == 0)
    throw BadInput(
        fmt::format("'{}' holds no measured case; write it with moeproof bench --json", o.words[0]));
  if (o.words.size() == 2 && judge_speed(report, read_report(o.words[1])) == 0)
    throw BadInput(fmt::format("'{}' and '{}' have no measured case in common", o.words[0], o.words[1]));
  fill_all_speedups(report.cases);
  report.errors = summarise_errors(report.cases);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << table_report(report, s.out_is_terminal);
  write_reports(report, o.output, s.out);
  return hits_fail_on(report, o.run.fail_on) ? int(ExitCode::failed) : 0;
}

}  // namespace moe::harness
