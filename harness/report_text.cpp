// What the report formats share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "fixtures/files/whole_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/reporters.hpp"
#include "harness/units.hpp"
#include "harness/write_file.hpp"
#include "sim/uncertainty.hpp"

namespace moe::harness {

std::string shape_text(const Problem& p) {
  const MoeShape& s = p.shape;
  if (p.op == Op::inv_rope_quant)
    return fmt::format("{} heads {} groups {}{}", name(p.op), p.heads.heads, p.heads.groups,
                       s.tp > 1 ? fmt::format(" tp {}", s.tp) : "");
  std::string text = p.model.empty()
                         ? fmt::format("E {} top {} H {} I {}", s.experts, s.top_k, s.hidden, s.intermediate)
                         : one_line(p.model);
  if (s.tp > 1) text += fmt::format(" tp {}", s.tp);
  if (s.ep > 1) text += fmt::format(" ep {} rank {}", s.ep, p.rank);
  if (p.op != Op::moe_layer) text += fmt::format(" {}", name(p.op));
  if (p.op == Op::grouped_gemm) text += fmt::format(" {} {}", p.gemm, name(p.contract));
  return text;
}

std::string hardware_text(const Hardware& h) {
  return h.source == "measured" ? h.name : fmt::format("{} ({})", h.name, h.source);
}

void describe_hardware(Report& report, const Hardware& hardware) {
  report.hardware = hardware_text(hardware);
  report.hardware_measured = hardware.source == "measured";
  for (const auto& [inflight, rate] : hardware.hbm_bytes_per_s_by_inflight.points)
    report.hbm_bytes_per_s = std::max(report.hbm_bytes_per_s, rate);
}

std::string prediction_text(const Report& report) {
  const std::string known = report.hardware_measured
                                ? fmt::format("a gain is known to {}", percent_text(sim::kGainWidth))
                                : std::string("not compared with measurements there");
  return fmt::format("predicted for {}; {}", report.hardware, known);
}

std::string verdict_word(const Verdict& v) {
  std::string text(name(v.correctness));
  if (v.correctness != Correctness::passed || v.judged_by.empty()) return text;
  const bool bits = v.judged_by == "bits";
  // Rounded down: 99.9 % is not all.
  const std::string share = v.coverage < 1 ? fmt::format("{:.0f} %", std::floor(100 * v.coverage)) : "";
  const std::string how = !bits ? "bounds" : v.open > 0 ? "exp" : "";
  if (how.empty() && share.empty()) return text;
  return fmt::format("{} ({}{}{})", text, how, how.empty() || share.empty() ? "" : ", ", share);
}

std::string verdict_text(const Verdict& v) {
  std::string text = verdict_word(v);
  if (!v.reason.empty() && v.correctness != Correctness::passed) text += ": " + v.reason;
  return text;
}

std::string choice_text(const Choice& c) {
  std::string text = fmt::format("{} {}", name(c.layout), to_string(c.tile));
  if (!c.tile_down.automatic() && !(c.tile_down == c.tile)) text += " down " + to_string(c.tile_down);
  return text;
}

namespace {

/// What XML 1.0 can hold: control characters and bytes that are no UTF-8 become \\x.., the two non-characters
/// of the basic plane a question mark; line breaks stay.
std::string printable(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    out += one_line(text.substr(0, end));
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  for (const char* none : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"})
    for (std::size_t at = out.find(none); at != std::string::npos; at = out.find(none, at))
      out.replace(at, 3, "?");
  return out;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string summary_text(const Report& report) {
  std::string text;
  for (int c = 0; c <= int(Correctness::timed_out); ++c) {
    const int n = count_of(report, Correctness(c));
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name(Correctness(c)));
  }
  if (text.empty()) return fmt::format("{} cases", report.cases.size());
  const JudgedElements judged = judged_elements(report);
  if (judged.checked == 0) return text;
  text += fmt::format("; {} elements judged, ", count_text(judged.checked));
  if (judged.wrong > 0) return text + count_text(judged.wrong) + " wrong";
  if (judged.to_the_bit == judged.checked) return text + "all equal to the bit";
  if (judged.to_the_bit == 0) return text + "all within bounds";
  return text + count_text(judged.to_the_bit) + " to the bit, the others within bounds";
}

std::string property_line(const PropertyCount& p) {
  std::string text = p.never_applied() ? "never applied" : fmt::format("{} held", p.held);
  if (p.failed > 0) text += fmt::format(", {} failed", p.failed);
  if (p.skipped > 0 && !p.never_applied()) text += fmt::format(", {} skipped", p.skipped);
  if (!p.reason.empty()) text += p.never_applied() ? ": " + p.reason : fmt::format(" ({})", p.reason);
  return fmt::format("{:<4} {}", p.id, text);
}

std::string properties_text(const Report& report) {
  std::string out;
  int held = 0, failed = 0, idle = 0;
  for (const PropertyCount& p : report.properties) {
    out += "  " + property_line(p) + "\n";
    failed += p.failed > 0, idle += p.never_applied(), held += p.failed == 0 && p.held > 0;
  }
  if (out.empty()) return out;
  return fmt::format("properties: {} held, {} failed, {} never applied\n", held, failed, idle) + out;
}

bool reports_to_stdout(const OutputOptions& o) {
  return o.json == "-" || o.csv == "-" || o.junit == "-" || o.markdown == "-" || o.html == "-";
}

void write_reports(const Report& report, const OutputOptions& o, std::ostream& standard_output) {
  std::exception_ptr first;
  const auto write = [&](const std::string& path, std::string (*make)(const Report&)) {
    try {
      if (!path.empty()) write_whole(path, make(report), standard_output);
    } catch (const MachineFailure&) {
      if (!first) first = std::current_exception();
    }
  };
  write(o.json, json_report);
  write(o.csv, csv_report);
  write(o.junit, junit_report);
  write(o.markdown, markdown_report);
  write(o.html, html_report);
  if (first) std::rethrow_exception(first);
}

void require_writable(const OutputOptions& o) {
  for (const std::string* path : {&o.json, &o.csv, &o.junit, &o.markdown, &o.html})
    if (!path->empty() && *path != "-") moe::require_writable(*path);
}

}  // namespace moe::harness
