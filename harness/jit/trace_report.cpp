#include "harness/jit/trace_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

std::string variants_text(std::size_t n) { return fmt::format("{} {}", n, n == 1 ? "variant" : "variants"); }

/// Column `i` of every value, as wide as the longest of them and its head.
int width_of(const std::vector<std::string>& texts, std::size_t least) {
  std::size_t width = least;
  for (const std::string& t : texts) width = std::max(width, t.size());
  return int(width);
}

std::string list_text(const ColumnTrace& trace, const std::vector<JitVariant>& variants) {
  std::vector<std::string> values;
  for (const JitVariant& v : variants)
    values.push_back(fmt::format("{}", fmt::join(trace.rows[v.first_row], ",")));
  const std::string head = fmt::format("{}", fmt::join(trace.columns, ","));
  const int width = width_of(values, head.size());
  std::string text = fmt::format("    {:>8}  {:>{}}  {:>9}  because of\n", "row", head, width, "launches");
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const JitVariant& v = variants[i];
    text += fmt::format("    {:>8}  {:>{}}  {:>9}  {}\n", v.first_row + 1, values[i], width, v.launches,
                        i == 0 ? "the first launch" : fmt::format("{}", fmt::join(v.because, ", ")));
  }
  return text;
}

std::string annotations_text(const KernelRules& rules) {
  std::vector<std::string> words;
  for (const KernelArgument& a : rules.arguments) {
    if (a.do_not_specialize) words.push_back("do_not_specialize " + a.name);
    if (a.do_not_specialize_on_alignment) words.push_back("do_not_specialize_on_alignment " + a.name);
  }
  return words.empty() ? "no annotation" : fmt::format("{}", fmt::join(words, ", "));
}

std::string effects_text(const TraceAudit& audit) {
  if (audit.effects.empty()) return "";
  std::vector<std::string> heads;
  for (const RemedyEffect& e : audit.effects)
    heads.push_back(fmt::format("{} {}", name(e.remedy), e.argument));
  const int width = width_of(heads, 0);
  std::string text =
      fmt::format("  {:<{}}  {:>7}  {:>7}   variants left: alone, on top of the kernel's own\n", "", width,
                  "alone", "on top");
  for (std::size_t i = 0; i < heads.size(); ++i)
    text += fmt::format("  {:<{}}  {:>7}  {:>7}\n", heads[i], width, audit.effects[i].alone,
                        audit.effects[i].added);
  return text;
}

std::string verdict_text(const TraceAudit& audit) {
  if (audit.after.size() == 1) return "  one variant: nothing is compiled behind the first launch\n";
  std::string text = fmt::format("  still varies: {}\n", fmt::join(audit.remaining, ", "));
  if (audit.left == audit.after.size())
    return text + "  no annotation leaves fewer: what varies is a constexpr or a width\n";
  std::vector<std::string> words;
  for (const auto& [argument, remedy] : audit.enough)
    words.push_back(fmt::format("{} {}", name(remedy), argument));
  return text +
         fmt::format("  enough: {}; then {} is left\n", fmt::join(words, ", "), variants_text(audit.left));
}

Json variants_json(const std::vector<JitVariant>& variants, const ColumnTrace& trace) {
  Json list = Json::array();
  for (const JitVariant& v : variants) {
    Json j{{"row", v.first_row + 1}};
    for (std::size_t i = 0; i < trace.columns.size(); ++i)
      j["values"][trace.columns[i]] = trace.rows[v.first_row][i];
    j["launches"] = v.launches;
    j["because"] = v.because;
    std::vector<std::string> pairs;
    for (const Specialised& s : v.arguments) pairs.push_back(to_text(s));
    j["key"] = fmt::format("[{}]", fmt::join(pairs, ", "));
    list.push_back(std::move(j));
  }
  return list;
}

}  // namespace

std::string trace_audit_text(const KernelRules& rules, const ColumnTrace& trace, const std::string& path,
                             const TraceAudit& audit, std::optional<double> compile_s) {
  std::string text = fmt::format("audit-jit  kernel {} ({})  trace {}: {} launches\n\n", rules.name,
                                 rules.function, path, audit.rows);
  text += fmt::format("  without annotations: {}\n", variants_text(audit.before.size())) +
          list_text(trace, audit.before);
  text +=
      fmt::format("\n  as it stands ({}): {}\n", annotations_text(rules), variants_text(audit.after.size())) +
      list_text(trace, audit.after) + "\n";
  text += effects_text(audit) + verdict_text(audit);
  if (compile_s)
    text += fmt::format(
        "  lost at {:.3g} s a compilation: {:.3g} s without annotations, {:.3g} s as it stands\n", *compile_s,
        *compile_s * double(audit.before.size()), *compile_s * double(audit.after.size()));
  return text;
}

Json to_json(const KernelRules& rules, const ColumnTrace& trace, const std::string& path,
             const TraceAudit& audit, std::optional<double> compile_s) {
  Json j{{"kernel", {{"name", rules.name}, {"function", rules.function}, {"source", rules.source}}},
         {"trace", {{"file", path}, {"rows", audit.rows}}},
         {"variants_before", audit.before.size()},
         {"variants_after", audit.after.size()},
         {"varying_arguments", audit.varying},
         {"remaining_arguments", audit.remaining},
         {"before", variants_json(audit.before, trace)},
         {"after", variants_json(audit.after, trace)},
         {"annotations", Json::array()},
         {"enough", Json::array()},
         {"variants_left", audit.left}};
  for (const RemedyEffect& e : audit.effects)
    j["annotations"].push_back(
        {{"argument", e.argument}, {"annotation", name(e.remedy)}, {"alone", e.alone}, {"on_top", e.added}});
  for (const auto& [argument, remedy] : audit.enough)
    j["enough"].push_back({{"argument", argument}, {"annotation", name(remedy)}});
  if (compile_s) {
    j["seconds_lost_before"] = *compile_s * double(audit.before.size());
    j["seconds_lost_after"] = *compile_s * double(audit.after.size());
  }
  return j;
}

}  // namespace moe::harness
