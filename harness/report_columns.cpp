#include "harness/report_columns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/reporters.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

using Cell = std::string (*)(const CaseRecord&);

struct ColumnRow {
  const char* heading;
  bool numeric;
  Cell cell;
};

bool timed(const CaseRecord& r) { return r.measurement && !r.measurement->seconds.empty(); }

std::string error_of_model(const CaseRecord& r) {
  if (!timed(r) || !r.prediction) return "";
  return fmt::format("{:+.0f} %", 100 * (r.prediction->seconds / r.measurement->median() - 1));
}

std::string speedup_cell(const CaseRecord& r, std::optional<double> Speedup::*which) {
  if (!r.speedup || !((*r.speedup).*which)) return "";
  return ratio_text(*((*r.speedup).*which));
}

const std::vector<ColumnRow>& rows() {
  static const std::vector<ColumnRow> table{
      {"tokens", true, [](const CaseRecord& r) { return std::to_string(r.trial.problem.shape.tokens); }},
      {"load", false, [](const CaseRecord& r) { return to_string(r.trial.problem.routing.load); }},
      {"data", false, [](const CaseRecord& r) { return std::string(name(r.trial.problem.data)); }},
      {"layout", false, [](const CaseRecord& r) { return std::string(name(r.trial.choice.layout)); }},
      {"tile", false, [](const CaseRecord& r) { return to_string(r.trial.choice.tile); }},
      {"predicted", true,
       [](const CaseRecord& r) {
         return r.prediction ? seconds_text(r.prediction->seconds) : std::string();
       }},
      {"+-", true,
       [](const CaseRecord& r) {
         return r.prediction && r.prediction->seconds > 0 ? percent_text(r.prediction->uncertainty)
                                                          : std::string();
       }},
      {"measured", true,
       [](const CaseRecord& r) { return timed(r) ? seconds_text(r.measurement->median()) : std::string(); }},
      {"model", true, error_of_model},
      {"gain", true, [](const CaseRecord& r) { return speedup_cell(r, &Speedup::predicted); }},
      {"gained", true,  // measured
       [](const CaseRecord& r) { return speedup_cell(r, &Speedup::measured); }},
      {"limit", false,
       [](const CaseRecord& r) {
         return r.prediction && r.prediction->seconds > 0 ? std::string(name(r.prediction->limit))
                                                          : std::string();
       }},
      {"tensor", true,
       [](const CaseRecord& r) {
         return r.prediction ? percent_text(r.prediction->tensor_active) : std::string();
       }},
      {"useful", true,
       [](const CaseRecord& r) {
         return r.prediction ? percent_text(r.prediction->useful_flop) : std::string();
       }},
      {"speed", false,
       [](const CaseRecord& r) {
         return r.verdict && r.verdict->speed != Speed::no_data ? std::string(name(r.verdict->speed))
                                                                : std::string();
       }},
      {"verdict", false,
       [](const CaseRecord& r) { return r.verdict ? verdict_word(*r.verdict) : std::string(); }},
  };
  return table;
}

}  // namespace

std::vector<Column> report_columns(const Report& report) {
  std::vector<Column> columns;
  for (const ColumnRow& row : rows()) {
    Column column{row.heading, row.numeric, {}};
    for (const CaseRecord& r : report.cases) column.cells.push_back(row.cell(r));
    const auto in_any = [&](const auto& says) {
      return std::any_of(column.cells.begin(), column.cells.end(), says);
    };
    const bool filled = in_any([](const auto& c) { return !c.empty(); });
    const bool varies = in_any([&](const auto& c) { return c != column.cells.front(); });
    if (filled && (varies || column.heading != "data")) columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace moe::harness
