#include "harness/jit/compiled_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

std::string times_text(const CompiledGroup& g) {
  if (!g.seconds) return "";
  return fmt::format(", {:.3g} s compiling, of which {:.3g} s could be avoided", *g.seconds, *g.avoidable_s);
}

std::string states_text(const std::vector<std::string>& states) {
  std::vector<std::string> words;
  for (const std::string& state : states) words.push_back(state.empty() ? "folded" : one_line(state));
  return fmt::format("{}", fmt::join(words, " | "));
}

/// What the file cannot tell about compilations that look the same.
std::string same_text(const CompiledGroup& g) {
  if (g.distinct == g.compiled) return "";
  const std::size_t same = g.compiled - g.distinct;
  if (!g.arguments_known)
    return fmt::format(
        "    {} not told apart: no arguments are recorded (run with --jit-monitor-verbose, or read the "
        "cache)\n",
        same);
  if (g.shortened)
    return fmt::format(
        "    {} not told apart: another process, or an argument behind the 120 characters that the log keeps "
        "of a "
        "key (read the cache)\n",
        same);
  return fmt::format(
      "    {} not told apart: a constexpr's value, a callee, a global or the decorator differs, which no "
      "cache "
      "stores\n",
      same);
}

std::string group_text(const CompiledGroup& g) {
  std::string text = fmt::format("  {}{}  {} compiled, {} told apart{}\n", one_line(g.function),
                                 g.file.empty() ? "" : fmt::format(" ({})", one_line(g.file)), g.compiled,
                                 g.distinct, times_text(g));
  for (const CompiledCause& c : g.causes)
    text += fmt::format("    {}: {}\n      {}; leaves {}\n", one_line(c.property), states_text(c.states),
                        c.advice, c.left);
  if (g.left < g.distinct) text += fmt::format("    all of these annotations together leave {}\n", g.left);
  return text + same_text(g);
}

struct Sums {
  std::size_t compiled = 0;
  std::optional<double> seconds, avoidable_s;
};

Sums sums_of(const std::vector<CompiledGroup>& groups) {
  Sums sums{0, 0.0, 0.0};
  for (const CompiledGroup& g : groups) {
    sums.compiled += g.compiled;
    if (!g.seconds) sums.seconds.reset(), sums.avoidable_s.reset();
    if (sums.seconds) *sums.seconds += *g.seconds, *sums.avoidable_s += *g.avoidable_s;
  }
  return sums;
}

Json group_json(const CompiledGroup& g) {
  Json j{{"function", g.function},
         {"file", g.file},
         {"compiled", g.compiled},
         {"distinct", g.distinct},
         {"arguments_known", g.arguments_known},
         {"causes", Json::array()}};
  for (const CompiledCause& c : g.causes)
    j["causes"].push_back({{"property", c.property},
                           {"kind", name(c.kind)},
                           {"states", c.states},
                           {"advice", c.advice},
                           {"left", c.left}});
  j["left"] = g.left;
  if (g.seconds) j["seconds"] = *g.seconds, j["avoidable_s"] = *g.avoidable_s;
  return j;
}

}  // namespace

std::string compiled_audit_text(const std::string& source, const std::vector<CompiledGroup>& groups,
                                const std::vector<std::string>& left_out) {
  const Sums sums = sums_of(groups);
  std::string text = fmt::format("audit-jit  {}: {} compilations of {} kernels", one_line(source),
                                 sums.compiled, groups.size());
  if (sums.seconds)
    text += fmt::format(", {:.3g} s, of which {:.3g} s could be avoided", *sums.seconds, *sums.avoidable_s);
  text += "\n";
  for (const CompiledGroup& g : groups)
    if (g.compiled > 1) text += "\n" + group_text(g);
  std::vector<std::string> once;
  for (const CompiledGroup& g : groups)
    if (g.compiled == 1) once.push_back(one_line(g.function));
  if (!once.empty()) text += fmt::format("\n  compiled once: {}\n", fmt::join(once, ", "));
  if (!sums.seconds) text += "\n  how long it took is not recorded; --compile-time TIME gives an estimate\n";
  for (const std::string& why : left_out) text += fmt::format("\n  left out: {}\n", one_line(why));
  return text;
}

Json to_json(const std::string& source, const std::vector<CompiledGroup>& groups,
             const std::vector<std::string>& left_out) {
  const Sums sums = sums_of(groups);
  Json j{{"source", source}, {"compiled", sums.compiled}};
  if (sums.seconds) j["seconds"] = *sums.seconds, j["avoidable_s"] = *sums.avoidable_s;
  j["kernels"] = Json::array();
  for (const CompiledGroup& g : groups) j["kernels"].push_back(group_json(g));
  j["left_out"] = left_out;
  return j;
}

}  // namespace moe::harness
