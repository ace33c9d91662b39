#include "harness/record.hpp"

#include <algorithm>
#include <cmath>

#include "harness/layouts.hpp"

namespace moe::harness {
namespace {

/// Nearest-rank quantile of ascending values.
double quantile(const std::vector<double>& ascending, double q) {
  const auto rank = std::size_t(std::ceil(q * double(ascending.size())));
  return ascending[std::clamp<std::size_t>(rank, 1, ascending.size()) - 1];
}

const CaseRecord* baseline_of(const CaseRecord& record, const std::vector<CaseRecord>& records) {
  const Layout wanted = true_baseline(record.trial.choice);
  const auto matches = [&](const CaseRecord& r) {
    return r.trial.choice.layout == wanted && r.trial.problem == record.trial.problem;
  };
  const auto found = std::find_if(records.begin(), records.end(), matches);
  return found == records.end() ? nullptr : &*found;
}

std::optional<double> ratio(double baseline, double own) {
  if (!(baseline > 0) || !(own > 0)) return std::nullopt;
  return baseline / own;
}

}  // namespace

std::string_view name(PropertyState state) {
  switch (state) {
    case PropertyState::held:
      return "held";
    case PropertyState::failed:
      return "failed";
    case PropertyState::skipped:
      return "skipped";
  }
  return "?";
}

BlockSums sums_of(const CaseRecord& r) {
  if (!r.sums.stages.empty() || !r.verdict) return r.sums;
  return block_sums(r.verdict->blocks);
}

int count_of(const Report& report, Correctness which) {
  const auto listed = std::count_if(report.cases.begin(), report.cases.end(), [&](const CaseRecord& r) {
    return r.verdict && r.verdict->correctness == which;
  });
  return int(listed) + (which == Correctness::passed ? report.unlisted.passed : 0);
}

JudgedElements judged_elements(const Report& report) {
  JudgedElements sum = report.unlisted.judged;
  for (const CaseRecord& r : report.cases) {
    if (!r.verdict) continue;
    sum.checked += r.verdict->checked;
    if (r.verdict->judged_by.starts_with("bits"))
      sum.to_the_bit += r.verdict->checked - r.verdict->open - r.verdict->bounded;
    sum.wrong += r.verdict->wrong;
  }
  return sum;
}

void list_case(Report& report, CaseRecord record) {
  count_properties(report, record);
  report.cases.push_back(std::move(record));
}

void count_properties(Report& report, const CaseRecord& record) {
  for (PropertyCount& p : report.properties) {
    for (const PropertyOutcome& o : record.properties) {
      if (o.id != p.id) continue;
      p.held += o.state == PropertyState::held;
      if (o.state == PropertyState::skipped) ++p.skipped, ++p.skips[o.reason];
      if (o.state == PropertyState::failed && ++p.failed == 1) p.reason = o.reason;
    }
    const auto most = std::max_element(p.skips.begin(), p.skips.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (p.failed == 0 && most != p.skips.end()) p.reason = most->first;
  }
}

ErrorSummary summarise_errors(const std::vector<CaseRecord>& cases) {
  std::vector<double> errors;
  double sum = 0;
  for (const CaseRecord& r : cases) {
    if (!r.prediction || !r.measurement || r.measurement->seconds.empty()) continue;
    const double measured = r.measurement->median();
    errors.push_back(std::abs(r.prediction->seconds - measured) / measured);
    sum += errors.back();
  }
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  return {int(errors.size()), sum / double(errors.size()), quantile(errors, 0.5), quantile(errors, 0.9)};
}

void fill_speedups(std::vector<CaseRecord>& records) {
  for (CaseRecord& record : records) {
    if (record.trial.choice.layout != Layout::swap_ab) continue;
    const CaseRecord* baseline = baseline_of(record, records);
    if (baseline == nullptr) continue;
    Speedup speedup{std::string(name(baseline->trial.choice.layout)), {}, {}};
    if (record.prediction && baseline->prediction)
      speedup.predicted = ratio(baseline->prediction->seconds, record.prediction->seconds);
    const bool measured = record.measurement && baseline->measurement &&
                          !record.measurement->seconds.empty() && !baseline->measurement->seconds.empty();
    if (measured) speedup.measured = ratio(baseline->measurement->median(), record.measurement->median());
    if (speedup.predicted || speedup.measured) record.speedup = speedup;
  }
}

std::string_view tool_version() { return MOE_VERSION; }

}  // namespace moe::harness
