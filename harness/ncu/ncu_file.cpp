#include "harness/ncu/ncu_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "fixtures/files/csv.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

/// "1,605,632" or "16.46", 0 or more; ncu writes n/a where a metric does not exist on a card.
std::optional<double> number(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  constexpr double kMost = 1e30;  // far beyond any counter, and finite in any unit
  return value >= 0 && value <= kMost ? std::optional(value) : std::nullopt;  // NaN is neither
}

/// ncu picks units by the size of a value, unless it was told not to.
double in_base_units(double value, const std::string& unit) {
  static const std::map<std::string, double, std::less<>> factors = {
      {"ns", 1e-9},   {"nsecond", 1e-9}, {"us", 1e-6},   {"usecond", 1e-6}, {"ms", 1e-3},  {"msecond", 1e-3},
      {"Kbyte", 1e3}, {"Mbyte", 1e6},    {"Gbyte", 1e9}, {"Kinst", 1e3},    {"Minst", 1e6}};
  const auto factor = factors.find(unit);
  return factor == factors.end() ? value : value * factor->second;
}

/// Only ncu's own lines: they begin with a quote, which no message of it or of the program does.
std::string own_lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with('"')) lines += std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<NcuLaunch> long_form(const Csv& csv) {
  std::vector<NcuLaunch> launches;
  std::map<std::int64_t, std::size_t> place;
  for (const Csv::Row& row : csv.rows) {
    const std::int64_t id = csv.integer(row, "ID", 0, 1 << 30);
    const auto [at, fresh] = place.emplace(id, launches.size());
    if (fresh) launches.push_back({int(id), csv.text(row, "Kernel Name"), {}, {}, {}});
    const auto value = number(csv.text(row, "Metric Value"));
    if (!value) continue;
    launches[at->second].metrics[csv.text(row, "Metric Name")] =
        in_base_units(*value, csv.text(row, "Metric Unit"));
  }
  return launches;
}

struct Column {
  std::string_view name, metric;
  double factor;
};
constexpr Column kColumns[] = {{"tensor_instructions", metric::kTensorInstructions, 1},
                               {"tensor_active_percent", metric::kTensorActive, 1},
                               {"dram_bytes_read", metric::kDramRead, 1},
                               {"dram_bytes_written", metric::kDramWrite, 1},
                               {"l2_bytes", metric::kL2Bytes, 1},
                               {"shared_load_wavefronts", metric::kSharedLoads, 1},
                               {"shared_store_wavefronts", metric::kSharedStores, 1},
                               {"shared_wavefronts", metric::kSharedAll, 1},
                               {"shared_wavefronts_ideal", metric::kSharedIdeal, 1},
                               {"nanoseconds", metric::kTime, 1e-9}};

std::vector<NcuLaunch> table_form(const Csv& csv) {
  std::vector<NcuLaunch> launches;
  for (const Csv::Row& row : csv.rows) {
    NcuLaunch launch{
        int(launches.size()), csv.text(row, "stage"), csv.text(row, "layout"), csv.text(row, "stage"), {}};
    for (const Column& c : kColumns) {
      if (!csv.has(c.name)) continue;
      const auto value = number(csv.text(row, c.name));
      if (!value)
        throw BadInput(fmt::format("{} line {}: {} is '{}', no number", csv.where, row.line, c.name,
                                   one_line(csv.text(row, c.name))));
      launch.metrics[std::string(c.metric)] = *value * c.factor;
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace

std::optional<double> NcuLaunch::value(std::string_view name) const {
  const auto at = metrics.find(name);
  return at == metrics.end() ? std::nullopt : std::optional<double>(at->second);
}

std::optional<double> NcuLaunch::shared_passes() const {
  const auto loads = value(metric::kSharedLoads), stores = value(metric::kSharedStores);
  return loads && stores ? std::optional<double>(*loads + *stores) : std::nullopt;
}

std::optional<double> NcuLaunch::bank_conflicts() const {
  const auto all = value(metric::kSharedAll), ideal = value(metric::kSharedIdeal);
  return all && ideal ? std::optional<double>(*all - *ideal) : std::nullopt;
}

std::vector<NcuLaunch> parse_ncu(std::string_view text, std::string_view where) {
  if (text.starts_with("layout,stage,")) return table_form(parse_csv(text, where));
  const std::string lines = own_lines(text);
  if (lines.find("\"Metric Name\"") == std::string::npos || lines.find("\"ID\"") == std::string::npos)
    throw BadInput(
        fmt::format("{}: holds no output of ncu --csv (a line with \"ID\" .. \"Metric Name\") and no table "
                    "layout,stage,..",
                    where));
  return long_form(parse_csv(lines, where));
}

std::vector<std::string> ncu_command(const std::string& program, const std::string& case_line) {
  using namespace metric;
  const std::vector<std::string_view> metrics = {
      kTensorInstructions, kTensorActive, kDramRead,  kDramWrite,  kL2Bytes, kTime,
      kSharedLoads,        kSharedStores, kSharedAll, kSharedIdeal};
  return {"ncu",           "--clock-control",
          "none",          "--target-processes",
          "all",           "--csv",
          "--print-units", "base",
          "--metrics",     fmt::format("{}", fmt::join(metrics, ",")),
          program,         "check",
          "--require-gpu", "--quiet",
          "--case",        case_line};
}

}  // namespace moe::harness
