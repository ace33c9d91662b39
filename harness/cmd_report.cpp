#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/journal.hpp"
#include "harness/reporters.hpp"
#include "harness/suite.hpp"

namespace moe::harness {

int cmd_report(const Options& o, const Streams& s) {
  if (o.words.empty())
    throw BadInput("report needs a journal: moeproof report FILE, which check --resume FILE wrote");
  const Report report = report_of(read_journal(o.words[0]));
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << table_report(report, s.out_is_terminal);
  write_reports(report, o.output, s.out);
  std::vector<Correctness> words;
  for (const CaseRecord& r : report.cases) words.push_back(r.verdict->correctness);
  return hits_fail_on(report, o.run.fail_on) ? int(ExitCode::failed)
                                             : int(exit_code(words, false, false, false));
}

}  // namespace moe::harness
