#include "harness/json_codec.hpp"

#include <fmt/format.h>

#include <cmath>

#include "fixtures/problem/text.hpp"
#include "harness/json_reading.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> times(const Json& j, const char* key) {
  auto values = json_get<std::vector<double>>(j, key);
  for (double v : values)
    if (!(v > 0) || !std::isfinite(v))
      throw BadInput(fmt::format("'{}' holds {}, which is no time in seconds", key, v));
  return values;
}

std::vector<PropertyOutcome> outcomes_from_json(const Json& j) {
  std::vector<PropertyOutcome> outcomes;
  for (const auto& id : json_get<std::vector<std::string>>(j, "held"))
    outcomes.push_back({id, PropertyState::held, {}});
  for (const auto& [key, state] :
       {std::pair{"failed", PropertyState::failed}, {"skipped", PropertyState::skipped}})
    for (const Json& one : json_member(j, key))
      outcomes.push_back({json_get<std::string>(one, "id"), state, json_get<std::string>(one, "reason")});
  return outcomes;
}

Speedup speedup_from_json(const Json& j) {
  Speedup s{json_get<std::string>(j, "baseline"), {}, {}};
  if (j.contains("predicted")) s.predicted = json_get<double>(j, "predicted");
  if (j.contains("measured")) s.measured = json_get<double>(j, "measured");
  return s;
}

}  // namespace

CaseRecord record_from_json(const Json& j) {
  CaseRecord r;
  r.trial = parse_case(json_get<std::string>(j, "case"));
  if (j.contains("prediction") && !j["prediction"].is_null())
    r.prediction = prediction_from_json(j["prediction"]);
  if (j.contains("measurement") && !j["measurement"].is_null())
    r.measurement = measurement_from_json(j["measurement"]);
  if (j.contains("verdict"))
    r.verdict = verdict_from_json(j["verdict"]), r.sums = sums_from_json(j["verdict"]);
  if (j.contains("properties")) r.properties = outcomes_from_json(j["properties"]);
  if (j.contains("counts")) r.counts = counts_from_json(j["counts"]);
  if (j.contains("speedup")) r.speedup = speedup_from_json(j["speedup"]);
  return r;
}

KillRow kill_row_from_json(const Json& j) {
  KillRow row;
  row.fault = json_get<std::string>(j, "fault"), row.kind = json_get<std::string>(j, "kind");
  row.text = json_get<std::string>(j, "what"), row.declared = json_get<bool>(j, "declared");
  row.why_not = json_get_or<std::string>(j, "why_not", "");
  if (!row.why_not.empty()) return row;
  row.killed_by = json_get<std::vector<std::string>>(j, "killed_by");
  row.seeds = json_get<int>(j, "seeds"), row.killed = json_get<int>(j, "killed");
  row.cases = json_get_or<int>(j, "cases", 0), row.runs = json_get_or<int>(j, "runs", 0);
  row.shrunk = json_get_or<std::string>(j, "shrunk", ""),
  row.trigger = json_get_or<std::string>(j, "trigger", "");
  row.distance = json_get_or<double>(j, "distance", 0);
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
  c.ctas = json_get<std::int64_t>(j, "ctas");
  c.tiles = json_get<std::int64_t>(j, "tiles");
  const auto by_n = json_get<std::map<std::string, std::int64_t>>(j, "wgmma");
  for (const auto& [n, count] : by_n) c.wgmma[int(parse_integer("wgmma N", n, 8, 256))] = count;
  c.mma = json_get<std::int64_t>(j, "mma");
  c.tma_load_bytes = json_get<std::int64_t>(j, "tma_load_bytes");
  c.tma_store_bytes = json_get<std::int64_t>(j, "tma_store_bytes");
  c.tma_loads = json_get<std::int64_t>(j, "tma_loads");
  if (j.contains("shared_wavefronts")) {
    c.shared_wavefronts = json_get<std::int64_t>(j, "shared_wavefronts");
    c.bank_conflicts = json_get<std::int64_t>(j, "bank_conflicts");
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
  if (p.counts.shared_wavefronts) j["shared_wavefronts"] = p.counts.shared_wavefronts;
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
  p.seconds = json_get<double>(j, "seconds");
  if (!(p.seconds >= 0) || !std::isfinite(p.seconds)) throw BadInput("'seconds' of a prediction is no time");
  p.uncertainty = json_get_or<double>(j, "uncertainty", 0);
  if (j.contains("limit")) p.limit = parse_name("limit", json_get<std::string>(j, "limit"), Limit::launch);
  p.tensor_active = json_get_or<double>(j, "tensor_active", 0);
  p.useful_flop = json_get_or<double>(j, "useful_flop", 0);
  p.reason = json_get_or<std::string>(j, "reason", "");
  p.issue_efficiency = json_get_or<double>(j, "issue_efficiency", 0);
  p.padding = json_get_or<double>(j, "padding", 0);
  p.waves = json_get_or<double>(j, "waves", 0), p.tail = json_get_or<double>(j, "tail", 0);
  p.hbm_bytes = json_get_or<double>(j, "hbm_bytes", 0), p.l2_bytes = json_get_or<double>(j, "l2_bytes", 0);
  p.shared_bytes = json_get_or<double>(j, "shared_bytes", 0);
  p.bank_conflicts = json_get_or<std::int64_t>(j, "bank_conflicts", 0);
  for (const Json& part : json_list(j, "parts"))
    p.parts.push_back({json_get<std::string>(part, "name"), json_get<double>(part, "seconds"),
                       parse_name("limit", json_get<std::string>(part, "limit"), Limit::launch)});
  if (j.contains("counts")) p.counts = counts_from_json(j["counts"]);
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
      m.stages.push_back({json_get<std::string>(stage, "stage"), times(stage, "seconds")});
  m.cold = json_get_or<bool>(j, "cold", true);
  m.graph = json_get_or<bool>(j, "graph", false);
  m.sm_clock_hz = json_get_or<double>(j, "sm_clock_hz", 0);
  m.device = json_get_or<std::string>(j, "device", "");
  m.driver = json_get_or<std::string>(j, "driver", "");
  m.kernel_hash = json_get_or<std::string>(j, "kernel_hash", "");
  return m;
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
    j["shrunk"] = row.shrunk, j["distance"] = json_number(row.distance), j["runs"] = row.runs;
  if (!row.trigger.empty()) j["trigger"] = row.trigger;
  return j;
}

Json to_json(const CaseRecord& r) {
  Json j;
  j["case"] = to_line(r.trial);
  if (r.prediction) j["prediction"] = to_json(*r.prediction);
  j["measurement"] = r.measurement ? to_json(*r.measurement) : Json(nullptr);
  if (r.verdict) j["verdict"] = r.sums.stages.empty() ? to_json(*r.verdict) : to_json(*r.verdict, r.sums);
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
  if (!report.hardware.empty()) {
    j["tool"]["hardware"] = report.hardware;
    j["tool"]["hardware_measured"] = report.hardware_measured;
  }
  if (report.hbm_bytes_per_s > 0) j["tool"]["hbm_bytes_per_s"] = report.hbm_bytes_per_s;
  j["device"] = nullptr;
  if (report.device)
    j["device"] = {
        {"name", report.device->name}, {"driver", report.device->driver}, {"sms", report.device->sms}};
  j["cases"] = Json::array();
  for (const CaseRecord& r : report.cases) j["cases"].push_back(to_json(r));
  if (report.unlisted.passed > 0)
    j["unlisted"] = {{"passed", report.unlisted.passed},
                     {"checked", report.unlisted.judged.checked},
                     {"checked_to_the_bit", report.unlisted.judged.to_the_bit}};
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

namespace {

PropertyCount property_from_json(const Json& j) {
  PropertyCount p{json_get<std::string>(j, "id"),
                  json_get_or<std::string>(j, "statement", ""),
                  json_get<int>(j, "held"),
                  json_get<int>(j, "failed"),
                  json_get<int>(j, "skipped"),
                  json_get_or<std::string>(j, "reason", ""),
                  {}};
  if (p.skipped > 0) p.skips[p.failed == 0 ? p.reason : ""] = p.skipped;
  return p;
}

/// All but the cases.
Report heading_from_json(const Json& j) {
  Report report;
  const Json& tool = json_member(j, "tool");
  report.command = json_get_or<std::string>(tool, "command", "");
  report.executor = json_get_or<std::string>(tool, "executor", "");
  report.hardware = json_get_or<std::string>(tool, "hardware", "");
  report.hardware_measured = json_get_or<bool>(tool, "hardware_measured", false);
  report.hbm_bytes_per_s = json_get_or<double>(tool, "hbm_bytes_per_s", 0);
  if (j.contains("device") && !j["device"].is_null())
    report.device = DeviceFacts{json_get<std::string>(j["device"], "name"),
                                json_get_or<std::string>(j["device"], "driver", ""),
                                json_get_or<int>(j["device"], "sms", 0)};
  for (const Json& p : json_list(j, "properties")) report.properties.push_back(property_from_json(p));
  for (const Json& row : json_list(j, "self_test")) report.self_test.push_back(kill_row_from_json(row));
  if (!j.contains("unlisted")) return report;
  report.unlisted.passed = json_get<int>(j["unlisted"], "passed");
  report.unlisted.judged = {json_get_or<std::int64_t>(j["unlisted"], "checked", 0),
                            json_get_or<std::int64_t>(j["unlisted"], "checked_to_the_bit", 0), 0};
  return report;
}

}  // namespace

Report report_from_json(std::string_view text, std::string_view path) {
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw BadInput(fmt::format("'{}' is not JSON", path));
  std::string where = fmt::format("'{}'", path);
  try {
    if (json_get<int>(j, "schema") != 1) throw BadInput("'schema' is not 1, the one this program reads");
    Report report = heading_from_json(j);
    const Json& cases = json_member(j, "cases");
    if (!cases.is_array()) throw BadInput("'cases' is not a list");
    for (std::size_t i = 0; i < cases.size(); ++i) {
      where = fmt::format("'{}', case {}", path, i + 1);
      report.cases.push_back(record_from_json(cases[i]));
    }
    report.errors = summarise_errors(report.cases);
    return report;
  } catch (const BadInput& e) {
    throw BadInput(fmt::format("{}: {}", where, e.what()));
  } catch (const nlohmann::json::exception&) {
    throw BadInput(fmt::format("{}: a value has the wrong type", where));
  }
}

}  // namespace moe::harness
