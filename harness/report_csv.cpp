#include <fmt/format.h>

#include "fixtures/problem/text.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

/// RFC 4180: quoted where it holds a comma or a quote; quotes doubled. Line breaks and other control
/// characters are shown: a table is read on terminals and by spreadsheets.
std::string field(std::string_view any) {
  const std::string text = one_line(any);
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string optional_number(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string row(const CaseRecord& r) {
  const Problem& p = r.trial.problem;
  std::vector<std::string> f{std::string(name(p.op)),         p.model,
                             std::to_string(p.shape.tokens),  to_string(p.routing.load),
                             std::string(name(p.quant.kind)), std::string(name(r.trial.choice.layout)),
                             to_string(r.trial.choice.tile)};
  const bool timed = r.measurement && !r.measurement->seconds.empty();
  f.push_back(r.prediction ? fmt::format("{}", r.prediction->seconds) : "");
  f.push_back(timed ? fmt::format("{}", r.measurement->median()) : "");
  f.push_back(timed ? fmt::format("{}", r.measurement->spread()) : "");
  f.push_back(timed && r.measurement->sm_clock_hz > 0 ? fmt::format("{}", r.measurement->sm_clock_hz) : "");
  f.push_back(r.prediction ? std::string(name(r.prediction->limit)) : "");
  f.push_back(r.prediction ? fmt::format("{}", r.prediction->tensor_active) : "");
  f.push_back(r.prediction ? fmt::format("{}", r.prediction->useful_flop) : "");
  f.push_back(r.speedup ? r.speedup->baseline : "");
  f.push_back(r.speedup ? optional_number(r.speedup->predicted) : "");
  f.push_back(r.speedup ? optional_number(r.speedup->measured) : "");
  f.push_back(r.verdict ? std::string(name(r.verdict->correctness)) : "");
  f.push_back(r.verdict ? r.verdict->reason : "");
  f.push_back(to_line(r.trial));
  std::string line;
  for (std::size_t i = 0; i < f.size(); ++i) line += (i > 0 ? "," : "") + field(f[i]);
  return line + "\r\n";
}

}  // namespace

std::string csv_report(const Report& report) {
  std::string out =
      "op,model,tokens,load,quant,layout,tile,predicted_s,measured_s,spread,sm_clock_hz,limit,tensor_active,"
      "useful_flop,"
      "baseline,predicted_speedup,measured_speedup,correctness,reason,case\r\n";
  for (const CaseRecord& r : report.cases) out += row(r);
  return out;
}

}  // namespace moe::harness
