// The schema of a verdict (harness/json_codec.hpp): its worst place, its stages and experts as sums, and of
// its blocks the wrong ones.
#include "fixtures/problem/text.hpp"
#include "harness/json_codec.hpp"
#include "harness/json_reading.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Place& p) {
  Json j;
  j["stage"] = p.stage;
  if (p.expert >= 0) j["expert"] = p.expert;
  j["row"] = p.row;
  j["column"] = p.column;
  if (p.tile_row >= 0) j["tile_row"] = p.tile_row;
  j["tile_column"] = p.tile_column;
  j["got"] = json_number(p.got);
  j["want"] = json_number(p.want);
  j["ulp"] = p.ulp;
  if (p.bound > 0) j["bound"] = json_number(p.bound);
  return j;
}

Place place_from_json(const Json& j) {
  Place p;
  p.stage = json_get<std::string>(j, "stage");
  p.expert = json_get_or<int>(j, "expert", -1);
  p.row = json_get<std::int64_t>(j, "row"), p.column = json_get<std::int64_t>(j, "column");
  p.tile_row = json_get_or<int>(j, "tile_row", -1), p.tile_column = json_get_or<int>(j, "tile_column", -1);
  p.got = json_number(j, "got"), p.want = json_number(j, "want");
  p.ulp = json_get_or<std::int64_t>(j, "ulp", 0);
  if (j.contains("bound")) p.bound = json_number(j, "bound");
  return p;
}

/// A wrong block; right ones are in the sums.
Json to_json(const BlockVerdict& b) {
  Json j;
  j["stage"] = b.stage;
  if (b.expert >= 0) j["expert"] = b.expert;
  j["column_block"] = b.column_block;
  j["checked"] = b.checked;
  j["wrong"] = b.wrong;
  if (b.worst_ratio > 0) j["worst_ratio"] = json_number(b.worst_ratio);
  return j;
}

BlockVerdict block_from_json(const Json& j) {
  BlockVerdict b;
  b.stage = json_get<std::string>(j, "stage");
  b.expert = json_get_or<int>(j, "expert", -1);
  b.column_block = json_get<int>(j, "column_block");
  if (b.column_block < 0) throw BadInput("'column_block' is below 0");
  b.checked = json_get<std::int64_t>(j, "checked"), b.wrong = json_get<std::int64_t>(j, "wrong");
  if (j.contains("worst_ratio")) b.worst_ratio = json_number(j, "worst_ratio");
  return b;
}

Json to_json(const StageSum& s) {
  Json j{{"stage", s.stage}, {"checked", s.checked}, {"wrong", s.wrong}, {"column_blocks", s.column_blocks}};
  for (const auto& [ratio, blocks] : s.by_ratio) j["blocks_by_log2_ratio"][std::to_string(ratio)] = blocks;
  return j;
}

StageSum stage_from_json(const Json& j) {
  StageSum s;
  s.stage = json_get<std::string>(j, "stage");
  s.checked = json_get<std::int64_t>(j, "checked"), s.wrong = json_get<std::int64_t>(j, "wrong");
  s.column_blocks = json_get_or<int>(j, "column_blocks", 0);
  const auto bins = json_get_or<std::map<std::string, std::int64_t>>(j, "blocks_by_log2_ratio",
                                                                     {});  // absent: judged to the bit
  for (const auto& [ratio, blocks] : bins)
    s.by_ratio[int(parse_integer("ratio", ratio, kLeastRatio, kMostRatio))] = blocks;
  return s;
}

Json to_json(const ExpertSum& e) {
  return {{"expert", e.expert},
          {"blocks", e.blocks},
          {"wrong_blocks", e.wrong_blocks},
          {"checked", e.checked},
          {"wrong", e.wrong}};
}

ExpertSum expert_from_json(const Json& j) {
  return {json_get<int>(j, "expert"), json_get<std::int64_t>(j, "blocks"),
          json_get<std::int64_t>(j, "wrong_blocks"), json_get<std::int64_t>(j, "checked"),
          json_get<std::int64_t>(j, "wrong")};
}

void add_sums(Json& j, const Verdict& v, const BlockSums& sums) {
  if (sums.stages.empty()) return;
  j["stages"] = Json::array(), j["experts"] = Json::array(), j["wrong_blocks"] = Json::array();
  for (const StageSum& s : sums.stages) j["stages"].push_back(to_json(s));
  for (const ExpertSum& e : sums.experts) j["experts"].push_back(to_json(e));
  for (const BlockVerdict& b : v.blocks)
    if (b.wrong > 0) j["wrong_blocks"].push_back(to_json(b));
}

}  // namespace

Json to_json(const Verdict& v, const BlockSums& sums) {
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
  add_sums(j, v, sums);
  if (!v.replay.empty()) j["replay"] = v.replay;
  if (!v.log.empty()) j["log"] = v.log;
  return j;
}

Json to_json(const Verdict& v) { return to_json(v, block_sums(v.blocks)); }

Verdict verdict_from_json(const Json& j) {
  Verdict v;
  v.correctness = parse_name("correctness", json_get<std::string>(j, "correctness"), Correctness::timed_out);
  if (j.contains("speed")) v.speed = parse_name("speed", json_get<std::string>(j, "speed"), Speed::no_data);
  if (j.contains("model"))
    v.model = parse_name("model", json_get<std::string>(j, "model"), ModelAgreement::no_data);
  v.reason = json_get_or<std::string>(j, "reason", "");
  v.judged_by = json_get_or<std::string>(j, "judged_by", "");
  v.coverage = json_get_or<double>(j, "coverage", 0);
  v.checked = json_get_or<std::int64_t>(j, "checked", 0);
  v.wrong = json_get_or<std::int64_t>(j, "wrong", 0);
  v.open = json_get_or<std::int64_t>(j, "open", 0);
  v.bounded = json_get_or<std::int64_t>(j, "bounded", 0);
  if (j.contains("worst")) v.worst = place_from_json(j["worst"]);
  for (const Json& block : json_list(j, "wrong_blocks")) v.blocks.push_back(block_from_json(block));
  v.fault_class = json_get_or<std::string>(j, "fault_class", "");
  v.replay = json_get_or<std::string>(j, "replay", "");
  v.log = json_get_or<std::string>(j, "log", "");
  return v;
}

BlockSums sums_from_json(const Json& verdict) {
  BlockSums sums;
  for (const Json& s : json_list(verdict, "stages")) sums.stages.push_back(stage_from_json(s));
  for (const Json& e : json_list(verdict, "experts")) sums.experts.push_back(expert_from_json(e));
  return sums;
}

}  // namespace moe::harness
