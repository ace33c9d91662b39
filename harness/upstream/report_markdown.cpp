#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixtures/problem/text.hpp"
#include "harness/compare_output.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"
#include "harness/upstream/report.hpp"
#include "sim/uncertainty.hpp"

namespace moe::harness {
namespace {

std::string share_text(const StageDifference& d) {
  if (d.elements == 0) return "";
  if (d.different == 0) return fmt::format("0 of {}", count_text(d.elements));
  return fmt::format("{} of {} ({:.3g} %)", count_text(d.different), count_text(d.elements),
                     100 * double(d.different) / double(d.elements));
}

std::string ulp_text(const Place& p) {
  return p.ulp == std::numeric_limits<std::int64_t>::max() ? "a NaN" : count_text(p.ulp) + " ulp";
}

/// "c expert 2 row 3 column 7: 0.5, then 0.502".
std::string where_text(const Place& p) {
  const std::string expert = p.expert >= 0 ? fmt::format(" expert {}", p.expert) : "";
  return fmt::format("{}{} row {} column {}: {}", p.stage, expert, p.row, p.column,
                     two_values("{} before, {} after", p.want, p.got));
}

std::string time_cell(const CaseRecord& r) {
  return r.measurement ? seconds_text(r.measurement->median()) : "";
}

std::string ratio_cell(const PairRecord& p) {
  return p.timing ? fmt::format("{:.3f} [{:.3f}, {:.3f}]", p.timing->ratio.median, p.timing->ratio.low,
                                p.timing->ratio.high)
                  : "";
}

std::string bits_cell(const PairRecord& p) {
  return p.bits.word == Bits::not_compared ? "not compared" : std::string(name(p.bits.word));
}

std::string model_cell(const PairRecord& p) {
  if (!p.after.prediction || !p.after.measurement) return "";
  return fmt::format("{} ({:+.0f} %, {})", seconds_text(p.after.prediction->seconds),
                     100 * (p.after.prediction->seconds / p.after.measurement->median() - 1),
                     name(p.after.verdict->model));
}

/// "normal_mma 16x128x128 -> swap_ab 8x128x128", or one choice where both have the same.
std::string choices_cell(const PairRecord& p) {
  const std::string before = choice_text(p.before.trial.choice), after = choice_text(p.after.trial.choice);
  return before == after ? after : before + " -> " + after;
}

/// "0.958 (+1.2 %)": the predicted ratio, and how far it lies from the measured one.
std::string predicted_cell(const PairRecord& p) {
  const std::optional<double> ratio = predicted_ratio(p);
  if (!ratio) return "";
  if (!p.timing) return fmt::format("{:.3f}", *ratio);
  return fmt::format("{:.3f} ({:+.1f} %)", *ratio, 100 * (*ratio / p.timing->ratio.median - 1));
}

struct Column {
  const char* heading;
  bool numeric;
  std::string (*cell)(const PairRecord&);
};

const std::vector<Column>& columns() {
  static const std::vector<Column> table{
      {"tokens", true,
       [](const PairRecord& p) { return std::to_string(p.after.trial.problem.shape.tokens); }},
      {"load", false, [](const PairRecord& p) { return to_string(p.after.trial.problem.routing.load); }},
      {"choice", false, choices_cell},
      {"before", false, [](const PairRecord& p) { return verdict_word(*p.before.verdict); }},
      {"after", false, [](const PairRecord& p) { return verdict_word(*p.after.verdict); }},
      {"bits that differ", true, [](const PairRecord& p) { return share_text(all_stages(p.stages)); }},
      {"bits", false, bits_cell},
      {"time before", true, [](const PairRecord& p) { return time_cell(p.before); }},
      {"time after", true, [](const PairRecord& p) { return time_cell(p.after); }},
      {"after / before [95 %]", true, ratio_cell},
      {"speed", false,
       [](const PairRecord& p) { return p.timing ? std::string(name(p.timing->word)) : std::string(); }},
      {"predicted after / before", true, predicted_cell},
      {"model of after", true, model_cell},
  };
  return table;
}

std::string table(const std::vector<PairRecord>& pairs) {
  std::string heading = "|", rule = "|";
  std::vector<std::string> rows(pairs.size(), "|");
  for (const Column& c : columns()) {
    std::vector<std::string> cells;
    for (const PairRecord& p : pairs) cells.push_back(c.cell(p));
    if (std::all_of(cells.begin(), cells.end(), [](const std::string& s) { return s.empty(); })) continue;
    heading += fmt::format(" {} |", c.heading);
    rule += c.numeric ? "---:|" : "---|";
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += " " + cells[i] + " |";
  }
  std::string out = heading + "\n" + rule + "\n";
  for (const std::string& row : rows) out += row + "\n";
  return out;
}

/// A line for people, outside of code: no markup of its own.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '|' || c == '<' || c == '*' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

std::string failure_lines(const char* side, const CaseRecord& r) {
  const Verdict& v = *r.verdict;
  if (v.correctness == Correctness::passed) return "";
  std::string out = fmt::format("- {} {}\n", side, plain(verdict_text(v)));
  if (!v.fault_class.empty()) out += fmt::format("  - looks like {}\n", plain(v.fault_class));
  if (!v.replay.empty()) out += fmt::format("  - replay: {}\n", markdown_code(v.replay));
  return out;
}

/// "gemm1 12, out 5 differ; " of a kernel that shows several tensors.
std::string by_stage(const std::vector<StageDifference>& stages) {
  std::string text;
  for (const StageDifference& s : stages)
    if (s.different > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", s.stage, count_text(s.different));
  return stages.size() > 1 ? text + " differ; " : "";
}

std::string slow_lines(const PairRecord& p) {
  if (!p.timing || p.timing->word != Speed::slow) return "";
  return fmt::format("- {} tokens: slower\n  - review again: {}\n", p.after.trial.problem.shape.tokens,
                     markdown_code(p.replay));
}

std::string bits_lines(const PairRecord& p) {
  const StageDifference all = all_stages(p.stages);
  if (!all.worst) return "";
  std::string out =
      fmt::format("- {} tokens: {}largest difference {}, {}", p.after.trial.problem.shape.tokens,
                  by_stage(p.stages), ulp_text(*all.worst), plain(where_text(*all.worst)));
  if (p.bits.word != Bits::not_compared)
    out += fmt::format("; {}: {}", name(p.bits.word), plain(p.bits.reason));
  return out + "\n";
}

/// Reasons that hold for several pairs once.
std::string untimed_line(const std::vector<PairRecord>& pairs) {
  std::vector<std::string> reasons;
  for (const PairRecord& p : pairs)
    if (!p.timing && std::find(reasons.begin(), reasons.end(), p.untimed) == reasons.end())
      reasons.push_back(p.untimed);
  std::string out;
  for (const std::string& reason : reasons) out += fmt::format("- not timed: {}\n", plain(reason));
  return out;
}

std::string rounds_line(const std::vector<PairRecord>& pairs) {
  int least = std::numeric_limits<int>::max(), most = 0;
  for (const PairRecord& p : pairs)
    if (p.timing) least = std::min(least, p.timing->rounds), most = std::max(most, p.timing->rounds);
  if (most == 0) return "";
  return fmt::format(
      "- timed in turns, {} rounds a case; the ratio is the median over the rounds; fast and slow were "
      "measured twice; outputs were judged again afterwards\n",
      least == most ? std::to_string(most) : fmt::format("{} to {}", least, most));
}

/// How well the model knew the ratios: "- predicted ratios of 6 cases are off by 1.2 % in the median, 3.0 %
/// at most".
std::string prediction_line(const UpstreamReport& report) {
  std::vector<double> errors;
  bool predicted = false;
  for (const PairRecord& p : report.pairs) {
    const std::optional<double> ratio = predicted_ratio(p);
    predicted = predicted || ratio;
    if (ratio && p.timing) errors.push_back(std::abs(*ratio / p.timing->ratio.median - 1));
  }
  if (!predicted) return "";
  if (errors.empty())
    return fmt::format("- predicted for {}; a predicted ratio is known to {:.0f} %\n", plain(report.hardware),
                       100 * sim::kGainWidth);
  std::sort(errors.begin(), errors.end());
  return fmt::format("- predicted ratios of {} cases are off by {:.1f} % in the median, {:.1f} % at most\n",
                     errors.size(), 100 * errors[errors.size() / 2], 100 * errors.back());
}

/// Whether every difference is explained, as a heading says it; empty where one side is wrong.
std::string reason_word(const std::vector<PairRecord>& pairs) {
  bool explained = false;
  for (const PairRecord& p : pairs) {
    if (p.bits.word == Bits::unexplained) return ", unexplained";
    if (p.bits.word == Bits::explained) explained = true;
  }
  return explained ? ", explained" : "";
}

std::string side_line(const char* side, const UpstreamSide& s, const CaseRecord* first) {
  std::string out = fmt::format("{}: {}", side, markdown_code(s.executor));
  if (first != nullptr) out += fmt::format(", kernel {}", markdown_code(first->trial.choice.kernel));
  return out + (s.device ? " on " + plain(s.device->name) : "");
}

}  // namespace

std::string upstream_summary(const UpstreamReport& report) {
  StageDifference all;
  Report before, after;  // of correctness alone: slow has its own word below
  for (const PairRecord& p : report.pairs) {
    for (const auto& [side, record] : {std::pair(&before, &p.before), std::pair(&after, &p.after)}) {
      side->cases.emplace_back().verdict = Verdict{};
      side->cases.back().verdict->correctness = record->verdict->correctness;
    }
    const StageDifference d = all_stages(p.stages);
    all.elements += d.elements, all.different += d.different;
  }
  const int n = int(report.pairs.size());
  const bool passed = count_of(before, Correctness::passed) == n && count_of(after, Correctness::passed) == n;
  std::string text = passed ? summary_text(after)
                            : fmt::format("before {}, after {}", summary_text(before), summary_text(after));
  text += all.elements == 0 ? "; no outputs to compare"
          : all.different == 0
              ? fmt::format("; all {} elements have the same bits", count_text(all.elements))
              : fmt::format("; {} elements differ{}", share_text(all), reason_word(report.pairs));
  std::string speeds;
  for (const Speed word : {Speed::slow, Speed::ambiguous, Speed::fast, Speed::same}) {
    const auto times = std::count_if(report.pairs.begin(), report.pairs.end(),
                                     [&](const PairRecord& p) { return p.timing && p.timing->word == word; });
    if (times > 0) speeds += fmt::format("{}{} {}", speeds.empty() ? "" : ", ", times, name(word));
  }
  return text + "; " + (speeds.empty() ? "not timed" : "speed " + speeds);
}

std::string upstream_markdown(const UpstreamReport& report) {
  std::string out = fmt::format("### moeproof upstream-check: {}\n\n", upstream_summary(report));
  const PairRecord* first = report.pairs.empty() ? nullptr : &report.pairs.front();
  out += side_line("before", report.before, first ? &first->before : nullptr) + "  \n";
  out += side_line("after", report.after, first ? &first->after : nullptr) + "  \n";
  if (first == nullptr) return out;
  const Problem& p = first->after.trial.problem;
  out += fmt::format("{}, {}, data {}, seed {}; moeproof {}\n\n", shape_text(p), name(p.quant.kind),
                     name(p.data), p.seed, tool_version());
  out += table(report.pairs) + "\n";
  for (const PairRecord& pair : report.pairs)
    out += failure_lines("before", pair.before) + failure_lines("after", pair.after);
  for (const PairRecord& pair : report.pairs) out += slow_lines(pair) + bits_lines(pair);
  return out + rounds_line(report.pairs) + prediction_line(report) + untimed_line(report.pairs);
}

Report upstream_records(const UpstreamReport& report) {
  Report records;
  records.command = "upstream-check";
  records.executor = report.after.executor;
  records.hardware = report.hardware;
  records.device = report.after.device;
  for (const PairRecord& pair : report.pairs) {
    CaseRecord r = pair.after;
    r.verdict = pair.verdict();
    if (r.verdict->correctness == Correctness::passed && r.verdict->speed == Speed::slow) {
      r.verdict->correctness = Correctness::failed;
      r.verdict->reason = fmt::format("slow: {:.3f} times the time before, at least {:.3f}",
                                      pair.timing->ratio.median, pair.timing->ratio.low);
      r.verdict->replay = pair.replay;
    }
    records.cases.push_back(std::move(r));
  }
  records.errors = summarise_errors(records.cases);
  return records;
}

}  // namespace moe::harness
