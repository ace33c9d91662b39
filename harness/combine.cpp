#include "harness/combine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/journal.hpp"
#include "harness/json_codec.hpp"

namespace moe::harness {
namespace {

/// Commands whose JSON is a list of cases and nothing else.
constexpr std::string_view kCaseCommands[] = {"check", "bench", "predict", "compare", "report", "merge"};

std::string command_in(const std::string& text, const std::string& path) {
  const auto j = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("tool") || !j["tool"].is_object() || !j["tool"].contains("command") ||
      !j["tool"]["command"].is_string())
    throw BadInput(fmt::format("'{}' is neither a journal nor a JSON report of moeproof", one_line(path)));
  return j["tool"]["command"].get<std::string>();
}

bool is_journal(std::string_view text) { return text.starts_with("{\"moeproof_journal\""); }

bool lists_cases(std::string_view command) {
  return std::find(std::begin(kCaseCommands), std::end(kCaseCommands), command) != std::end(kCaseCommands);
}

[[noreturn]] void cannot_read(const std::string& path, const std::string& command, const char* what) {
  throw BadInput(fmt::format("'{}' was written by {}; {}", one_line(path), one_line(command), what));
}

void add_property(std::vector<PropertyCount>& all, PropertyCount p) {
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const PropertyCount& q) { return q.id == p.id; });
  if (known == all.end()) return all.push_back(std::move(p));
  if (known->failed == 0 && (p.failed > 0 || known->reason.empty())) known->reason = p.reason;
  known->held += p.held, known->failed += p.failed, known->skipped += p.skipped;
  for (const auto& [reason, n] : p.skips) known->skips[reason] += n;
}

/// Both where they differ: "emulated, cuda".
void add_word(std::string& all, const std::string& word) {
  if (word.empty() || all == word || (", " + all + ", ").find(", " + word + ", ") != std::string::npos)
    return;
  all += (all.empty() ? "" : ", ") + word;
}

void add(Report& all, Report one) {
  add_word(all.command, one.command);
  add_word(all.executor, one.executor);
  add_word(all.hardware, one.hardware);
  all.hardware_measured |= one.hardware_measured;
  all.hbm_bytes_per_s = std::max(all.hbm_bytes_per_s, one.hbm_bytes_per_s);
  if (!all.device) all.device = one.device;
  for (CaseRecord& r : one.cases) all.cases.push_back(std::move(r));
  for (PropertyCount& p : one.properties) add_property(all.properties, std::move(p));
  for (KillRow& row : one.self_test) all.self_test.push_back(std::move(row));
  all.unlisted.passed += one.unlisted.passed;
  all.unlisted.judged.checked += one.unlisted.judged.checked;
  all.unlisted.judged.to_the_bit += one.unlisted.judged.to_the_bit;
}

void require_same(const char* what, const std::string& first, const NamedReport& other,
                  const std::string& word, const NamedReport& one) {
  if (first != word)
    throw BadInput(fmt::format("'{}' has {} '{}', '{}' has '{}': they are no shards of one run",
                               one_line(one.path), what, one_line(first), one_line(other.path),
                               one_line(word)));
}

std::string device_name(const Report& r) { return r.device ? r.device->name : "none"; }

}  // namespace

Report combine(std::vector<NamedReport> reports) {
  if (reports.empty()) throw BadInput("there is no report to read");
  Report all;
  for (NamedReport& one : reports) add(all, std::move(one.report));
  all.errors = summarise_errors(all.cases);
  return all;
}

void require_shards(const std::vector<NamedReport>& reports) {
  std::map<std::string, const NamedReport*> seen;
  for (const NamedReport& one : reports) {
    const NamedReport& first = reports.front();
    require_same("command", first.report.command, one, one.report.command, first);
    require_same("executor", first.report.executor, one, one.report.executor, first);
    require_same("device", device_name(first.report), one, device_name(one.report), first);
    require_same("hardware", first.report.hardware, one, one.report.hardware, first);
    for (const CaseRecord& r : one.report.cases) {
      const auto [place, is_new] = seen.emplace(to_line(r.trial), &one);
      if (!is_new && place->second != &one)
        throw BadInput(fmt::format("'{}' and '{}' both hold the case '{}'", one_line(place->second->path),
                                   one_line(one.path), place->first));
    }
  }
}

std::vector<NamedReport> read_reports(const std::vector<std::string>& paths) {
  std::vector<NamedReport> reports;
  for (const std::string& path : paths) {
    const std::string text = read_file(path);
    if (is_journal(text) || text.empty()) {
      reports.push_back({path, report_of(parse_journal(text, one_line(path)))});
      continue;
    }
    const std::string command = command_in(text, path);
    if (!lists_cases(command)) cannot_read(path, command, "merge joins reports of check, bench and predict");
    reports.push_back({path, report_from_json(text, path)});
  }
  return reports;
}

PageContent read_results(const std::vector<std::string>& paths) {
  PageContent page{{}, {}, paths};
  std::vector<NamedReport> reports;
  for (const std::string& path : paths) {
    const std::string text = read_file(path);
    if (is_journal(text) || text.empty()) {
      reports.push_back({path, report_of(parse_journal(text, one_line(path)))});
      continue;
    }
    const std::string command = command_in(text, path);
    if (command == "audit-jit")
      page.censuses.push_back(census_from_json(text, path));
    else if (lists_cases(command) || command == "upstream-check")
      reports.push_back({path, report_from_json(text, path)});
    else
      cannot_read(path, command, "report reads check, bench, predict, compare, upstream-check and audit-jit");
  }
  if (!reports.empty()) page.report = combine(std::move(reports));
  if (page.report.command.empty()) page.report.command = "audit-jit";
  return page;
}

}  // namespace moe::harness
