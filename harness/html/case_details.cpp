#include <fmt/format.h>

#include <algorithm>

#include "harness/html/page.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr std::size_t kMostDetails = 200;

std::string fact(const char* name, const std::string& value) {
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, escape_markup(value));
}

std::string prediction_facts(const Prediction& p) {
  std::string parts;
  for (const Part& part : p.parts)
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", part.name, seconds_text(part.seconds));
  return fact("why", p.reason) + fact("predicted", parts) +
         fact("bytes", fmt::format("{} from HBM, {} from L2, {} from shared memory", bytes_text(p.hbm_bytes),
                                   bytes_text(p.l2_bytes), bytes_text(p.shared_bytes))) +
         fact("tiles", fmt::format("{} in {:.2f} waves, padding {}, tail {}", count_text(p.counts.tiles),
                                   p.waves, percent_text(p.padding), percent_text(p.tail)));
}

std::string measured_facts(const Measurement& m) {
  std::string stages;
  for (const StageTime& s : m.stages)
    stages += fmt::format("; {} {}", s.stage,
                          s.seconds.empty() ? "-" : seconds_text(s.seconds[s.seconds.size() / 2]));
  return fact("measured",
              fmt::format("{} (spread {:.1f} %){}", seconds_text(m.median()), 100 * m.spread(), stages));
}

std::string judged_facts(const CaseRecord& r) {
  const Verdict& v = *r.verdict;
  std::string text;
  for (const StageSum& s : sums_of(r).stages)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", s.stage, count_text(s.checked));
  return fact("judged",
              fmt::format("{} elements ({}), by {}, coverage {:.1f} %, {} wrong", count_text(v.checked), text,
                          v.judged_by, 100 * v.coverage, count_text(v.wrong)));
}

std::string details(const CaseRecord& r) {
  std::string out = fmt::format("<details><summary>{}, {} tokens, {}</summary><table class=\"facts\">\n",
                                escape_markup(shape_text(r.trial.problem)), r.trial.problem.shape.tokens,
                                escape_markup(choice_text(r.trial.choice)));
  if (r.prediction && r.prediction->seconds > 0) out += prediction_facts(*r.prediction);
  if (r.measurement && !r.measurement->seconds.empty()) out += measured_facts(*r.measurement);
  if (r.verdict && !r.verdict->judged_by.empty()) out += judged_facts(r);
  if (r.verdict && !r.verdict->reason.empty()) out += fact("because", r.verdict->reason);
  if (r.verdict && !r.verdict->replay.empty()) out += fact("replay", r.verdict->replay);
  return out + "</table></details>\n";
}

}  // namespace

std::string detail_section(const Report& report) {
  std::vector<const CaseRecord*> cases;
  for (const CaseRecord& r : report.cases) cases.push_back(&r);
  std::stable_partition(cases.begin(), cases.end(), [](const CaseRecord* r) {
    return r->verdict && r->verdict->correctness != Correctness::passed;
  });
  if (cases.empty()) return {};
  std::string out = "<section id=\"details\"><h2>Details</h2>\n";
  if (cases.size() > kMostDetails) {
    out += fmt::format("<p>Of {} of {} cases; the JSON report has all.</p>\n", kMostDetails, cases.size());
    cases.resize(kMostDetails);
  }
  for (const CaseRecord* r : cases) out += details(*r);
  return out + "</section>\n";
}

}  // namespace moe::harness
