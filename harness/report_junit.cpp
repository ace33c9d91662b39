#include <fmt/format.h>

#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

const char* element_of(Correctness c) {
  switch (c) {
    case Correctness::passed:
      return nullptr;
    case Correctness::failed:
    case Correctness::mistrusted:
      return "failure";
    case Correctness::refused:
    case Correctness::skipped:
      return "skipped";
    case Correctness::crashed:
    case Correctness::timed_out:
      return "error";
  }
  return nullptr;
}

std::string case_xml(const Report& report, const CaseRecord& r) {
  std::string out = fmt::format("  <testcase classname=\"moeproof.{}\" name=\"{}\" time=\"{:.3f}\"",
                                report.command, escape_markup(to_line(r.trial)), r.elapsed_s);
  const char* element = r.verdict ? element_of(r.verdict->correctness) : nullptr;
  if (element == nullptr) return out + "/>\n";
  const Verdict& v = *r.verdict;
  return out + fmt::format(">\n    <{0} message=\"{1}\">{2}</{0}>\n  </testcase>\n", element,
                           escape_markup(verdict_text(v)), escape_markup(v.replay));
}

}  // namespace

std::string junit_report(const Report& report) {
  const int failures = count_of(report, Correctness::failed) + count_of(report, Correctness::mistrusted);
  const int errors = count_of(report, Correctness::crashed) + count_of(report, Correctness::timed_out);
  const int skipped = count_of(report, Correctness::refused) + count_of(report, Correctness::skipped);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"moeproof.{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      report.command, report.cases.size(), failures, errors, skipped);
  for (const CaseRecord& r : report.cases) out += case_xml(report, r);
  return out + "</testsuite>\n";
}

}  // namespace moe::harness
