#include <fmt/format.h>

#include <algorithm>

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
                                escape_markup(report.command), escape_markup(to_line(r.trial)), r.elapsed_s);
  const char* element = r.verdict ? element_of(r.verdict->correctness) : nullptr;
  if (element == nullptr) return out + "/>\n";
  const Verdict& v = *r.verdict;
  return out + fmt::format(">\n    <{0} message=\"{1}\">{2}</{0}>\n  </testcase>\n", element,
                           escape_markup(verdict_text(v)), escape_markup(v.replay));
}

/// A property over all cases, so that a server shows one that broke and one that never applied.
std::string property_xml(const Report& report, const PropertyCount& p) {
  const std::string out =
      fmt::format("  <testcase classname=\"moeproof.{}.properties\" name=\"{} {}\" time=\"0\"",
                  escape_markup(report.command), escape_markup(p.id), escape_markup(p.statement));
  if (p.failed == 0 && !p.never_applied()) return out + "/>\n";
  return out + fmt::format(">\n    <{0} message=\"{1}\"></{0}>\n  </testcase>\n",
                           p.failed > 0 ? "failure" : "skipped", escape_markup(property_line(p)));
}

}  // namespace

std::string junit_report(const Report& report) {
  const auto properties_that = [&](auto is) {
    return int(std::count_if(report.properties.begin(), report.properties.end(), is));
  };
  const int broken = properties_that([](const PropertyCount& p) { return p.failed > 0; });
  const int idle = properties_that([](const PropertyCount& p) { return p.never_applied(); });
  const int failures = count_of(report, Correctness::failed) + count_of(report, Correctness::mistrusted);
  const int errors = count_of(report, Correctness::crashed) + count_of(report, Correctness::timed_out);
  const int skipped = count_of(report, Correctness::refused) + count_of(report, Correctness::skipped);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"moeproof.{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
      escape_markup(report.command), report.cases.size() + report.properties.size(), failures + broken,
      errors, skipped + idle);
  for (const CaseRecord& r : report.cases) out += case_xml(report, r);
  for (const PropertyCount& p : report.properties) out += property_xml(report, p);
  return out + "</testsuite>\n";
}

}  // namespace moe::harness
