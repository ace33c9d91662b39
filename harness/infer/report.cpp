#include "harness/infer/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

/// "not reciprocal (ties), multiply_ratio (ties)".
std::string ruled_out_text(const FieldFinding& f) {
  if (f.state == FieldState::irrelevant) return "";
  std::vector<std::string> words;
  for (const RuledOutValue& r : f.ruled_out) words.push_back(fmt::format("{} ({})", r.value, r.probe));
  return words.empty() ? "" : fmt::format("not {}", fmt::join(words, ", "));
}

std::string value_text(const FieldFinding& f) {
  if (f.state == FieldState::irrelevant) return "-";
  if (f.state == FieldState::unknown) return "?";
  return fmt::format("{}", fmt::join(f.values, " or "));
}

/// Whether what a kernel declares is among what was found.
bool agrees(const Inference& i, const Semantics& declared) {
  Semantics due = canonical(i.layer, declared);
  due.preset.clear();
  return i.contradictions.empty() && std::any_of(i.left.begin(), i.left.end(), [&](Semantics s) {
           s.preset.clear();
           return s == due;
         });
}

}  // namespace

std::string inference_text(const Inference& i, const std::optional<Semantics>& declared) {
  const Problem& p = i.trial.problem;
  std::string text =
      fmt::format("  {} {}  tile {}  {} {}\n", i.trial.choice.kernel, name(i.trial.choice.layout),
                  to_string(i.trial.choice.tile), name(p.quant.kind), name(p.quant.scale_format));
  text += fmt::format("  semantics  {}\n", i.summary());
  if (!i.asked()) return text;
  if (declared)
    text +=
        fmt::format("  declared   {} ({})\n", declared->preset, agrees(i, *declared) ? "agrees" : "DIFFERS");
  text += fmt::format("  seen       {} of {} probes; {} of {} candidates left\n\n", fmt::join(i.stages, ", "),
                      i.probes, i.left.size(), i.candidates);
  std::size_t width = 5;
  for (const FieldFinding& f : i.fields) width = std::max(width, value_text(f).size());
  for (const FieldFinding& f : i.fields) {
    std::string line = fmt::format("  {:<17} {:<{}}  {:<12}  {}", f.field, value_text(f), width,
                                   name(f.state), ruled_out_text(f));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  for (const Contradiction& c : i.contradictions)
    text += fmt::format("  unknown    probe {}, {}: {}\n", c.probe,
                        c.stage_only ? "stage " + c.stage : "all up to " + c.stage, c.text);
  return text;
}

Json to_json(const Inference& i, const std::optional<Semantics>& declared) {
  Json j{{"case", to_line(i.trial)}, {"known", i.known()}, {"summary", i.summary()}};
  if (i.failure) {
    const Verdict& v = i.failure->verdict;
    j["failure"] = {{"probe", i.failure->probe}, {"correctness", name(v.correctness)}, {"reason", v.reason}};
    if (!v.log.empty()) j["failure"]["log"] = v.log;
  }
  if (!i.asked()) return j;
  j["presets"] = i.presets;
  if (declared) j["declared"] = {{"preset", declared->preset}, {"agrees", agrees(i, *declared)}};
  j["stages_seen"] = i.stages;
  j["probes"] = i.probes;
  j["candidates"] = i.candidates;
  j["left"] = i.left.size();
  j["fields"] = Json::array();
  for (const FieldFinding& f : i.fields) {
    Json field{
        {"field", f.field}, {"state", name(f.state)}, {"values", f.values}, {"ruled_out", Json::array()}};
    for (const RuledOutValue& r : f.ruled_out)
      field["ruled_out"].push_back({{"value", r.value},
                                    {"probe", r.probe},
                                    {"stage", r.stage},
                                    {"wrong", r.wrong},
                                    {"checked", r.checked}});
    j["fields"].push_back(std::move(field));
  }
  j["contradictions"] = Json::array();
  for (const Contradiction& c : i.contradictions)
    j["contradictions"].push_back(
        {{"probe", c.probe}, {"stage", c.stage}, {"stage_only", c.stage_only}, {"text", c.text}});
  return j;
}

}  // namespace moe::harness
