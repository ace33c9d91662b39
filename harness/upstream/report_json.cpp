#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/json_codec.hpp"
#include "harness/upstream/report.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const StageDifference& d) {
  Json j{{"stage", d.stage}, {"elements", d.elements}, {"different", d.different}};
  if (!d.worst) return j;
  const Place& p = *d.worst;
  Json& place = j["largest"];
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  if (p.expert >= 0) place["expert"] = p.expert;
  place["row"] = p.row;
  place["column"] = p.column;
  place["before"] = number(p.want);
  place["after"] = number(p.got);
  place["ulp"] = p.ulp;
  return j;
}

Json bits_to_json(const PairRecord& pair) {
  const StageDifference all = all_stages(pair.stages);
  Json j{{"word", name(pair.bits.word)}, {"elements", all.elements}, {"different", all.different}};
  if (!pair.bits.reason.empty()) j["reason"] = pair.bits.reason;
  j["stages"] = Json::array();
  for (const StageDifference& d : pair.stages) j["stages"].push_back(to_json(d));
  return j;
}

Json timing_to_json(const PairRecord& pair) {
  if (!pair.timing) return {{"word", name(Speed::no_data)}, {"reason", pair.untimed}};
  const PairTiming& t = *pair.timing;
  return {{"word", name(t.word)},       {"ratio", t.ratio.median}, {"ratio_low", t.ratio.low},
          {"ratio_high", t.ratio.high}, {"rounds", t.rounds},      {"batches", t.batches}};
}

Json to_json(const PairRecord& pair) {
  Json j = to_json(pair.after);
  j["before"] = to_json(pair.before);
  j["bits"] = bits_to_json(pair);
  j["timing"] = timing_to_json(pair);
  if (const auto ratio = predicted_ratio(pair)) j["predicted_ratio"] = *ratio;
  return j;
}

}  // namespace

std::string upstream_json(const UpstreamReport& report) {
  Json j = to_json(upstream_records(report));
  j["tool"]["executor"] = report.after.executor;
  j["tool"]["before"] = report.before.executor;
  j["cases"] = Json::array();
  for (const PairRecord& pair : report.pairs) j["cases"].push_back(to_json(pair));
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moe::harness
