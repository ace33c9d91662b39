#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fixtures/problem/text.hpp"
#include "harness/record.hpp"
#include "harness/tuned/lint.hpp"

namespace moe::harness {

std::string lint_table_text(const LintResult& result) {
  std::string text, where;
  for (const Finding& f : result.findings) {
    if (f.where != where) text += one_line(f.where) + "\n";
    where = f.where;
    const std::string batch = f.batch > 0 ? fmt::format("batch {}: ", f.batch) : "";
    text += fmt::format("  {:<8}{:<14} {}{}\n", name(f.severity), f.rule, batch, one_line(f.what));
  }
  return text + fmt::format("{} tables: {} errors, {} warnings, {} notes\n", result.tables,
                            result.count(Severity::error), result.count(Severity::warning),
                            result.count(Severity::note));
}

std::string lint_json(const LintResult& result, const std::string& path) {
  nlohmann::ordered_json j;
  j["schema"] = 1;
  j["tool"] = {{"name", "moeproof"}, {"version", tool_version()}, {"command", "lint"}};
  auto& lint = j["lint"];
  lint["path"] = one_line(path);
  lint["tables"] = result.tables;
  for (const Severity s : {Severity::error, Severity::warning, Severity::note})
    lint[std::string(name(s)) + "s"] = result.count(s);
  lint["findings"] = nlohmann::ordered_json::array();
  for (const Finding& f : result.findings) {
    nlohmann::ordered_json finding{
        {"where", one_line(f.where)}, {"severity", name(f.severity)}, {"rule", f.rule}};
    if (f.batch > 0) finding["batch"] = f.batch;
    finding["what"] = one_line(f.what);
    lint["findings"].push_back(finding);
  }
  return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace moe::harness
