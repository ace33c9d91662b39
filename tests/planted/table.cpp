#include "tests/planted/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "fixtures/problem/errors.hpp"

namespace moe::device {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name(FaultKind kind) {
  static constexpr std::string_view kNames[] = {"protocol", "generation", "bounds", "value", "host"};
  return kNames[int(kind)];
}

/// C75xx that ptxas said when this fault was compiled in; "-" where it has no compilation of its own.
std::string ptxas_word(const FaultInfo& info, const std::string& folder) {
  if (folder.empty() || !is_wgmma_fault(info.fault)) return "-";
  const auto place = std::find(std::begin(kWgmmaFaults), std::end(kWgmmaFaults), info.fault);
  std::ifstream log(fmt::format("{}/fault_{}.cubin.log", folder, place - std::begin(kWgmmaFaults)));
  if (!log) throw BadInput("no compile log of " + std::string(info.name) + " in " + folder);
  const std::string text{std::istreambuf_iterator<char>(log), {}};
  std::set<std::string> codes;
  const std::regex code("C75[0-9][0-9]");
  for (auto i = std::sregex_iterator(text.begin(), text.end(), code); i != std::sregex_iterator(); ++i)
    codes.insert(i->str());
  std::string all;
  for (const std::string& c : codes) all += (all.empty() ? "" : ", ") + c;
  return all.empty() ? "nothing" : all;
}

Json read_card(const std::string& path) {
  if (path.empty()) return Json::object();
  std::ifstream file(path);
  if (!file) throw BadInput("cannot read " + path);
  return Json::parse(file);
}

std::string word(const Json& card, const FaultInfo& info, const char* key) {
  const auto faults = card.find("faults");
  if (faults == card.end() || !faults->contains(std::string(info.id))) return "";
  return (*faults)[std::string(info.id)].value(key, "");
}

std::string seeds_by(const FaultRow& row) {
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [check, seeds] : row.by_seed) order.emplace_back(-seeds, check);
  std::sort(order.begin(), order.end());
  std::string all;
  for (const auto& [seeds, check] : order)
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", check, -seeds);
  return all;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw MachineFailure("cannot write " + path);
}

Json to_json(const FaultRow& row, const TableFiles& files) {
  const FaultInfo& info = kFaults[int(row.fault)];
  Json by = Json::object();
  for (const auto& [check, seeds] : row.by_seed) by[check] = seeds;
  return {{"id", info.id},
          {"name", info.name},
          {"kind", name(info.kind)},
          {"what", info.what},
          {"trigger", info.trigger},
          {"card_only", info.card_only},
          {"deterministic", row.deterministic},
          {"by", row.by},
          {"sentence", row.sentence},
          {"seeds", row.seeds},
          {"caught", row.caught},
          {"caught_by_output", row.caught_by_output},
          {"by_seed", by},
          {"ptxas", ptxas_word(info, files.ptxas)}};
}

std::string markdown(const std::vector<FaultRow>& rows, const TableFiles& files, const Json& card) {
  std::string text =
      "| fault | what it does | one deterministic run | seeds | output alone | ptxas | H200 launches | "
      "memcheck | "
      "synccheck | racecheck |\n|---|---|---|---:|---:|---|---|---|---|---|\n";
  for (const FaultRow& row : rows) {
    const FaultInfo& info = kFaults[int(row.fault)];
    const std::string found = info.card_only      ? "card only"
                              : row.deterministic ? row.by
                                                  : "no (" + row.by + ")";
    const std::string seeds = info.card_only ? "" : fmt::format("{} of {}", row.caught, row.seeds);
    const std::string output = info.card_only ? "" : fmt::format("{}", row.caught_by_output);
    text += fmt::format("| {} `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", info.id, info.name,
                        info.what, found, seeds, output, ptxas_word(info, files.ptxas),
                        word(card, info, "launches"), word(card, info, "memcheck"),
                        word(card, info, "synccheck"), word(card, info, "racecheck"));
  }
  return text;
}

}  // namespace

int print_table(const std::vector<FaultRow>& rows, const TableFiles& files) {
  const Json card = read_card(files.card);
  Json all = Json::array();
  int missed = 0, emulated = 0, deterministic = 0;
  for (const FaultRow& row : rows) {
    const FaultInfo& info = kFaults[int(row.fault)];
    all.push_back(to_json(row, files));
    if (info.card_only) continue;
    ++emulated;
    deterministic += row.deterministic;
    if (meets(row)) continue;
    ++missed;
    fmt::print("missed: {} {}: deterministic run says '{}'{}, {} of {} seeds ({})\n  {}\n", info.id,
               info.name, row.by,
               info.sentence.empty() ? "" : fmt::format(" and should say '{}'", info.sentence), row.caught,
               row.seeds, seeds_by(row), row.sentence);
  }
  fmt::print("{} faults, {} on the emulated SM: {} found in one deterministic run, {} missed\n", rows.size(),
             emulated, deterministic, missed);
  if (!files.json.empty()) write(files.json, Json{{"schema", 1}, {"faults", all}}.dump(1) + "\n");
  if (!files.markdown.empty()) write(files.markdown, markdown(rows, files, card));
  return missed ? 1 : 0;
}

}  // namespace moe::device
