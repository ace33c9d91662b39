#include <ostream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/against/score.hpp"
#include "harness/cli.hpp"
#include "harness/reporters.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

void check(const Options& o) {
  if (!o.words.empty())
    throw BadInput("--against scores a file of measured times by itself; leave the bench report away");
  for (const std::string* path : {&o.output.junit, &o.output.markdown, &o.output.html})
    if (!path->empty()) throw BadInput("--against writes --json and --csv; the other reports hold cases");
  if (!o.run.fail_on.empty()) throw BadInput("--fail-on belongs to a bench report, not to --against");
}

}  // namespace

int cmd_against(const Options& o, const Streams& s) {
  check(o);
  require_writable(o.output);
  const Hardware hardware = load_hardware(o.hardware);
  const std::vector<TunedTable> tuned =
      o.tuned.empty() ? std::vector<TunedTable>{} : read_tuned_tables(o.tuned);
  const MeasuredFile file = read_measured(o.against, tuned);
  const Score scored = score(file, hardware, 0);
  if (!o.output.quiet && !reports_to_stdout(o.output))
    s.out << score_table(scored, o.against, hardware_text(hardware));
  if (!o.output.json.empty()) write_whole(o.output.json, score_json(scored, o.against, hardware.name), s.out);
  if (!o.output.csv.empty()) write_whole(o.output.csv, score_csv(scored), s.out);
  return 0;
}

}  // namespace moe::harness
