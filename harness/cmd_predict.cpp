#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/cli.hpp"
#include "harness/expand.hpp"
#include "harness/predict_table.hpp"
#include "harness/reporters.hpp"
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

}  // namespace

int cmd_predict(const Options& o, const Streams& s) {
  require_writable(o.output);
  const Hardware hardware = load_hardware(o.hardware);
  const auto works = expand(o.problem, o.run.shard);
  Report report;
  report.command = o.command;
  report.hardware = hardware_text(hardware);
  report.hardware_measured = hardware.source == "measured";
  std::string tables;
  for (const Work& work : works) {
    auto records = predict_work(work, hardware);
    if (works.size() <= kExplained && records.size() <= 3) tables += predict_table(records, report.hardware);
    for (CaseRecord& r : records) report.cases.push_back(std::move(r));
  }
  if (!o.output.quiet && !reports_to_stdout(o.output))
    s.out << (tables.empty() ? table_report(report, false) : tables);
  write_reports(report, o.output, s.out);
  return 0;
}

}  // namespace moe::harness
