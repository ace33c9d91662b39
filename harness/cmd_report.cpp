#include <fmt/format.h>

#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/cli.hpp"
#include "harness/combine.hpp"
#include "harness/exit_code.hpp"
#include "harness/reporters.hpp"
#include "harness/suite.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

std::string census_text(const CompileCensus& census) {
  const char* line = census.stream ? "  {}: {} variants without annotations, {} as it stands, {} at best\n"
                                   : "  {}: {} compiled, {} told apart, annotations leave {}\n";
  std::string text = "audit-jit  " + one_line(census.source) + "\n";
  for (const CensusKernel& k : census.kernels)
    text += fmt::format(fmt::runtime(line), one_line(k.function), k.all, k.apart, k.left);
  return text;
}

std::string text_of(const PageContent& page, bool colours) {
  std::string text;
  const Report& report = page.report;
  if (!report.cases.empty() || report.unlisted.passed > 0) text += table_report(report, colours);
  text += self_test_text(report.self_test);
  for (const CompileCensus& census : page.censuses) text += census_text(census);
  return text;
}

int exit_status(const Report& report, const Options& o) {
  std::vector<Correctness> words{Correctness::passed};  // reading them is what was asked
  for (const CaseRecord& r : report.cases)
    if (r.verdict) words.push_back(r.verdict->correctness);
  if (hits_fail_on(report, o.run.fail_on)) return int(ExitCode::failed);
  return int(exit_code(words, o.run.allow_mistrusted, false, false));
}

}  // namespace

int cmd_report(const Options& o, const Streams& s) {
  if (o.words.empty())
    throw BadInput(
        "report needs files: journals (check --resume) or what --json wrote: moeproof report FILE...");
  require_writable(o.output);
  const PageContent page = read_results(o.words);
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << text_of(page, s.out_is_terminal);
  OutputOptions others = o.output;
  others.html.clear();
  write_reports(page.report, others, s.out);
  if (!o.output.html.empty()) write_whole(o.output.html, html_page(page), s.out);
  return exit_status(page.report, o);
}

int cmd_merge(const Options& o, const Streams& s) {
  if (o.words.size() < 2)
    throw BadInput("merge needs the reports of two shards or more: moeproof merge A.json B.json");
  require_writable(o.output);
  std::vector<NamedReport> shards = read_reports(o.words);
  require_shards(shards);
  const Report report = combine(std::move(shards));
  if (!o.output.quiet && !reports_to_stdout(o.output)) s.out << table_report(report, s.out_is_terminal);
  write_reports(report, o.output, s.out);
  return exit_status(report, o);
}

}  // namespace moe::harness
