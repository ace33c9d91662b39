#include "harness/json_codec.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN or infinity: they travel as words.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json to_json(const Place& p) {
  Json j;
  j["stage"] = p.stage;
  if (p.expert >= 0) j["expert"] = p.expert;
  j["row"] = p.row;
  j["column"] = p.column;
  if (p.tile_row >= 0) j["tile_row"] = p.tile_row;
  j["tile_column"] = p.tile_column;
  j["got"] = number(p.got);
  j["want"] = number(p.want);
  j["ulp"] = p.ulp;
  if (p.bound > 0) j["bound"] = number(p.bound);
  return j;
}

/// A wrong block; right ones are counted by experts_to_json.
Json to_json(const BlockVerdict& b) {
  Json j;
  j["stage"] = b.stage;
  if (b.expert >= 0) j["expert"] = b.expert;
  j["column_block"] = b.column_block;
  j["checked"] = b.checked;
  j["wrong"] = b.wrong;
  if (b.worst_ratio > 0) j["worst_ratio"] = number(b.worst_ratio);
  return j;
}

/// Outputs of each stage, in the order of the layer.
Json stages_to_json(const std::vector<BlockVerdict>& blocks) {
  Json list = Json::array();
  for (const BlockVerdict& b : blocks) {
    if (list.empty() || list.back()["stage"] != b.stage)
      list.push_back({{"stage", b.stage}, {"checked", 0}, {"wrong", 0}});
    Json& last = list.back();
    last["checked"] = last["checked"].get<std::int64_t>() + b.checked;
    last["wrong"] = last["wrong"].get<std::int64_t>() + b.wrong;
  }
  return list;
}

/// Outputs of each expert over all its stages and column blocks.
Json experts_to_json(const std::vector<BlockVerdict>& blocks) {
  struct Sum {
    std::int64_t blocks = 0, wrong_blocks = 0, checked = 0, wrong = 0;
  };
  std::map<int, Sum> sums;
  for (const BlockVerdict& b : blocks) {
    if (b.expert < 0) continue;
    Sum& s = sums[b.expert];
    ++s.blocks;
    s.wrong_blocks += b.wrong > 0;
    s.checked += b.checked;
    s.wrong += b.wrong;
  }
  Json list = Json::array();
  for (const auto& [expert, s] : sums) {
    Json one;
    one["expert"] = expert;
    one["blocks"] = s.blocks;
    one["wrong_blocks"] = s.wrong_blocks;
    one["checked"] = s.checked;
    one["wrong"] = s.wrong;
    list.push_back(one);
  }
  return list;
}

const Json& member(const Json& j, const char* key) {
  if (!j.is_object() || !j.contains(key)) throw BadInput(fmt::format("'{}' is missing", key));
  return j.at(key);
}

/// Runs `read`, and says which key was wrong where it has another type than expected.
template <class T>
T get(const Json& j, const char* key) {
  try {
    return member(j, key).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw BadInput(fmt::format("'{}' has the wrong type", key));
  }
}

template <class T>
T get_or(const Json& j, const char* key, T otherwise) {
  return j.contains(key) ? get<T>(j, key) : otherwise;
}

std::vector<double> times(const Json& j, const char* key) {
  auto values = get<std::vector<double>>(j, key);
  for (double v : values)
    if (!(v > 0) || !std::isfinite(v))
      throw BadInput(fmt::format("'{}' holds {}, which is no time in seconds", key, v));
  return values;
}

Verdict verdict_from_json(const Json& j) {
  Verdict v;
  v.correctness = parse_name("correctness", get<std::string>(j, "correctness"), Correctness::timed_out);
  v.reason = get_or<std::string>(j, "reason", "");
  v.judged_by = get_or<std::string>(j, "judged_by", "");
  v.coverage = get_or<double>(j, "coverage", 0);
  v.checked = get_or<std::int64_t>(j, "checked", 0);
  v.wrong = get_or<std::int64_t>(j, "wrong", 0);
  v.open = get_or<std::int64_t>(j, "open", 0);
  v.bounded = get_or<std::int64_t>(j, "bounded", 0);
  v.fault_class = get_or<std::string>(j, "fault_class", "");
  v.replay = get_or<std::string>(j, "replay", "");
  v.log = get_or<std::string>(j, "log", "");
  return v;
}

std::vector<PropertyOutcome> outcomes_from_json(const Json& j) {
  std::vector<PropertyOutcome> outcomes;
  for (const auto& id : get<std::vector<std::string>>(j, "held"))
    outcomes.push_back({id, PropertyState::held, {}});
  for (const auto& [key, state] :
       {std::pair{"failed", PropertyState::failed}, {"skipped", PropertyState::skipped}})
    for (const Json& one : member(j, key))
      outcomes.push_back({get<std::string>(one, "id"), state, get<std::string>(one, "reason")});
  return outcomes;
}

}  // namespace

CaseRecord record_from_json(const Json& j) {
  CaseRecord r;
  r.trial = parse_case(get<std::string>(j, "case"));
  if (j.contains("prediction") && !j["prediction"].is_null())
    r.prediction = prediction_from_json(j["prediction"]);
  if (j.contains("measurement") && !j["measurement"].is_null())
    r.measurement = measurement_from_json(j["measurement"]);
  if (j.contains("verdict")) r.verdict = verdict_from_json(j["verdict"]);
  if (j.contains("properties")) r.properties = outcomes_from_json(j["properties"]);
  if (j.contains("counts")) r.counts = counts_from_json(j["counts"]);
  return r;
}

KillRow kill_row_from_json(const Json& j) {
  KillRow row;
  row.fault = get<std::string>(j, "fault"), row.kind = get<std::string>(j, "kind");
  row.text = get<std::string>(j, "what"), row.declared = get<bool>(j, "declared");
  row.why_not = get_or<std::string>(j, "why_not", "");
  if (!row.why_not.empty()) return row;
  row.killed_by = get<std::vector<std::string>>(j, "killed_by");
  row.seeds = get<int>(j, "seeds"), row.killed = get<int>(j, "killed");
  row.cases = get_or<int>(j, "cases", 0), row.runs = get_or<int>(j, "runs", 0);
  row.shrunk = get_or<std::string>(j, "shrunk", ""), row.trigger = get_or<std::string>(j, "trigger", "");
  row.distance = get_or<double>(j, "distance", 0);
  return row;
}

Json to_json(const Counts& c) {
  Json j;
  j["ctas"] = c.ctas;
  j["tiles"] = c.tiles;
  Json by_n = Json::object();
  for (const auto& [n, count] : c.wgmma) by_n[std::to_string(n)] = count;
  j["wgmma"] = by_n;
  j["mma"] = c.mma;
  j["tma_load_bytes"] = c.tma_load_bytes;
  j["tma_store_bytes"] = c.tma_store_bytes;
  j["tma_loads"] = c.tma_loads;
  if (c.shared_wavefronts) {  // counted on the emulated SM only
    j["shared_wavefronts"] = c.shared_wavefronts;
    j["bank_conflicts"] = c.bank_conflicts;
  }
  return j;
}

Counts counts_from_json(const Json& j) {
  Counts c;
  c.ctas = get<std::int64_t>(j, "ctas");
  c.tiles = get<std::int64_t>(j, "tiles");
  const auto by_n = get<std::map<std::string, std::int64_t>>(j, "wgmma");
  for (const auto& [n, count] : by_n) c.wgmma[int(parse_integer("wgmma N", n, 8, 256))] = count;
  c.mma = get<std::int64_t>(j, "mma");
  c.tma_load_bytes = get<std::int64_t>(j, "tma_load_bytes");
  c.tma_store_bytes = get<std::int64_t>(j, "tma_store_bytes");
  c.tma_loads = get<std::int64_t>(j, "tma_loads");
  if (j.contains("shared_wavefronts")) {
    c.shared_wavefronts = get<std::int64_t>(j, "shared_wavefronts");
    c.bank_conflicts = get<std::int64_t>(j, "bank_conflicts");
  }
  return c;
}

Json to_json(const Prediction& p) {
  Json j;
  j["seconds"] = p.seconds;
  j["uncertainty"] = p.uncertainty;
  j["limit"] = name(p.limit);
  j["reason"] = p.reason;
  j["tensor_active"] = p.tensor_active;
  j["useful_flop"] = p.useful_flop;
  j["issue_efficiency"] = p.issue_efficiency;
  j["padding"] = p.padding;
  j["waves"] = p.waves;
  j["tail"] = p.tail;
  j["hbm_bytes"] = p.hbm_bytes;
  j["l2_bytes"] = p.l2_bytes;
  j["shared_bytes"] = p.shared_bytes;
  j["bank_conflicts"] = p.bank_conflicts;
  j["parts"] = Json::array();
  for (const Part& part : p.parts) {
    Json one;
    one["name"] = part.name;
    one["seconds"] = part.seconds;
    one["limit"] = name(part.limit);
    j["parts"].push_back(one);
  }
  j["counts"] = to_json(p.counts);
  return j;
}

Prediction prediction_from_json(const Json& j) {
  Prediction p;
  p.seconds = get<double>(j, "seconds");
  if (!(p.seconds >= 0) || !std::isfinite(p.seconds)) throw BadInput("'seconds' of a prediction is no time");
  p.uncertainty = get_or<double>(j, "uncertainty", 0);
  if (j.contains("limit")) p.limit = parse_name("limit", get<std::string>(j, "limit"), Limit::launch);
  p.tensor_active = get_or<double>(j, "tensor_active", 0);
  p.useful_flop = get_or<double>(j, "useful_flop", 0);
  return p;
}

Json to_json(const Measurement& m) {
  Json j;
  j["seconds"] = m.seconds;
  if (!m.seconds.empty()) j["median"] = m.median(), j["spread"] = m.spread();
  j["stages"] = Json::array();
  for (const StageTime& stage : m.stages) {
    Json one;
    one["stage"] = stage.stage;
    one["seconds"] = stage.seconds;
    j["stages"].push_back(one);
  }
  j["cold"] = m.cold;
  j["graph"] = m.graph;
  if (m.sm_clock_hz > 0) j["sm_clock_hz"] = m.sm_clock_hz;
  j["device"] = m.device;
  j["driver"] = m.driver;
  j["kernel_hash"] = m.kernel_hash;
  return j;
}

Measurement measurement_from_json(const Json& j) {
  Measurement m;
  m.seconds = times(j, "seconds");
  if (j.contains("stages"))
    for (const Json& stage : j["stages"])
      m.stages.push_back({get<std::string>(stage, "stage"), times(stage, "seconds")});
  m.cold = get_or<bool>(j, "cold", true);
  m.graph = get_or<bool>(j, "graph", false);
  m.sm_clock_hz = get_or<double>(j, "sm_clock_hz", 0);
  m.device = get_or<std::string>(j, "device", "");
  m.driver = get_or<std::string>(j, "driver", "");
  m.kernel_hash = get_or<std::string>(j, "kernel_hash", "");
  return m;
}

Json to_json(const Verdict& v) {
  Json j;
  j["correctness"] = name(v.correctness);
  if (v.speed != Speed::no_data) j["speed"] = name(v.speed);
  if (v.model != ModelAgreement::no_data) j["model"] = name(v.model);
  if (!v.reason.empty()) j["reason"] = v.reason;
  if (!v.judged_by.empty()) {
    j["judged_by"] = v.judged_by;
    j["coverage"] = v.coverage;
    j["checked"] = v.checked;
    j["wrong"] = v.wrong;
    if (v.open > 0) j["open"] = v.open;
    if (v.bounded > 0) j["bounded"] = v.bounded;
  }
  if (v.worst) j["worst"] = to_json(*v.worst);
  if (!v.fault_class.empty()) j["fault_class"] = v.fault_class;
  if (!v.blocks.empty()) {
    j["stages"] = stages_to_json(v.blocks);
    j["experts"] = experts_to_json(v.blocks);
    j["wrong_blocks"] = Json::array();
    for (const BlockVerdict& block : v.blocks)
      if (block.wrong > 0) j["wrong_blocks"].push_back(to_json(block));
  }
  if (!v.replay.empty()) j["replay"] = v.replay;
  if (!v.log.empty()) j["log"] = v.log;
  return j;
}

namespace {

Json to_json(const std::vector<PropertyOutcome>& outcomes) {
  Json j = {{"held", Json::array()}, {"failed", Json::array()}, {"skipped", Json::array()}};
  for (const PropertyOutcome& o : outcomes) {
    if (o.state == PropertyState::held)
      j["held"].push_back(o.id);
    else
      j[std::string(name(o.state))].push_back({{"id", o.id}, {"reason", o.reason}});
  }
  return j;
}

Json to_json(const PropertyCount& p) {
  Json j = {{"id", p.id},
            {"statement", p.statement},
            {"held", p.held},
            {"failed", p.failed},
            {"skipped", p.skipped}};
  if (!p.reason.empty()) j["reason"] = p.reason;
  return j;
}

}  // namespace

Json to_json(const KillRow& row) {
  Json j = {{"fault", row.fault}, {"kind", row.kind}, {"what", row.text}, {"declared", row.declared}};
  if (!row.why_not.empty()) {
    j["why_not"] = row.why_not;
    return j;
  }
  j["killed_by"] = row.killed_by;
  j["seeds"] = row.seeds, j["killed"] = row.killed;
  if (row.killed > 0) j["cases"] = row.cases;
  if (!row.shrunk.empty())
    j["shrunk"] = row.shrunk, j["distance"] = number(row.distance), j["runs"] = row.runs;
  if (!row.trigger.empty()) j["trigger"] = row.trigger;
  return j;
}

Json to_json(const CaseRecord& r) {
  Json j;
  j["case"] = to_line(r.trial);
  if (r.prediction) j["prediction"] = to_json(*r.prediction);
  j["measurement"] = r.measurement ? to_json(*r.measurement) : Json(nullptr);
  if (r.verdict) j["verdict"] = to_json(*r.verdict);
  if (r.counts) j["counts"] = to_json(*r.counts);
  if (!r.properties.empty()) j["properties"] = to_json(r.properties);
  if (r.speedup) {
    Json& s = j["speedup"];
    s["baseline"] = r.speedup->baseline;
    if (r.speedup->predicted) s["predicted"] = *r.speedup->predicted;
    if (r.speedup->measured) s["measured"] = *r.speedup->measured;
  }
  return j;
}

Json to_json(const Report& report) {
  Json j;
  j["schema"] = 1;
  j["tool"] = {{"name", "moeproof"}, {"version", tool_version()}, {"command", report.command}};
  if (!report.executor.empty()) j["tool"]["executor"] = report.executor;
  if (!report.hardware.empty()) j["tool"]["hardware"] = report.hardware;
  j["device"] = nullptr;
  if (report.device)
    j["device"] = {
        {"name", report.device->name}, {"driver", report.device->driver}, {"sms", report.device->sms}};
  j["cases"] = Json::array();
  for (const CaseRecord& r : report.cases) j["cases"].push_back(to_json(r));
  if (report.unlisted.passed > 0) j["unlisted"] = {{"passed", report.unlisted.passed}};
  for (const KillRow& row : report.self_test) j["self_test"].push_back(to_json(row));
  for (const PropertyCount& p : report.properties) j["properties"].push_back(to_json(p));
  Json& s = j["summary"];
  s["n"] = report.errors.n;
  s["mean"] = report.errors.mean;
  s["median"] = report.errors.median;
  s["p90"] = report.errors.p90;
  for (int c = 0; c <= int(Correctness::timed_out); ++c)
    s[std::string(name(Correctness(c)))] = count_of(report, Correctness(c));
  const JudgedElements judged = judged_elements(report);
  s["checked"] = judged.checked;
  s["checked_to_the_bit"] = judged.to_the_bit;
  s["wrong"] = judged.wrong;
  return j;
}

Report report_from_json(std::string_view text, std::string_view path) {
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw BadInput(fmt::format("'{}' is not JSON", path));
  std::string where = fmt::format("'{}'", path);
  try {
    if (get<int>(j, "schema") != 1) throw BadInput("'schema' is not 1, the one this program reads");
    Report report;
    report.command = get_or<std::string>(member(j, "tool"), "command", "");
    const Json& cases = member(j, "cases");
    if (!cases.is_array()) throw BadInput("'cases' is not a list");
    for (std::size_t i = 0; i < cases.size(); ++i) {
      where = fmt::format("'{}', case {}", path, i + 1);
      report.cases.push_back(record_from_json(cases[i]));
    }
    return report;
  } catch (const BadInput& e) {
    throw BadInput(fmt::format("{}: {}", where, e.what()));
  } catch (const nlohmann::json::exception&) {
    throw BadInput(fmt::format("{}: a value has the wrong type", where));
  }
}

}  // namespace moe::harness
