#include "harness/calibrate/hardware_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

Json parse(std::string_view text, std::string_view where) {
  parse_hardware(text, where);  // says what is wrong with it
  return Json::parse(text);
}

/// Four digits: more than a second run repeats.
double rounded(double value) {
  if (value == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::fabs(value))) - 3);
  return std::strtod(fmt::format("{:.4g}", std::round(value / unit) * unit).c_str(), nullptr);
}

Json json_of(const CardConstant& constant) {
  if (constant.points.empty()) return rounded(constant.number);
  Json points = Json::array();
  for (const auto& [x, y] : constant.points) points.push_back({rounded(x), rounded(y)});
  return points;
}

/// Old sources less the keys that were measured now; then one line a measured key.
Json sources_of(const Json& base, const CardFacts& card, const std::vector<CardConstant>& constants,
                const std::string& date) {
  Json sources = Json::array();
  const auto measured = [&](const std::string& key) {
    return key == "sms" || key == "l2_bytes" ||
           std::any_of(constants.begin(), constants.end(),
                       [&](const CardConstant& c) { return c.key == key; });
  };
  if (base.contains("sources"))
    for (Json line : base["sources"]) {
      Json keys = Json::array();
      for (const Json& key : line["keys"])
        if (!measured(key.get<std::string>())) keys.push_back(key);
      if (keys.empty()) continue;
      line["keys"] = keys;
      sources.push_back(line);
    }
  const auto add = [&](Json keys, const std::string& row) {
    sources.push_back({{"keys", std::move(keys)},
                       {"kind", "microbenchmark"},
                       {"device", card.name},
                       {"date", date},
                       {"row", row}});
  };
  add({"sms", "l2_bytes"}, "attributes of the device");
  for (const CardConstant& c : constants) add(Json::array({c.key}), "calibrate: " + c.row);
  return sources;
}

std::string print(const Json& document) {
  std::string text = "{\n";
  for (const auto& [key, value] : document.items()) {
    if (key == "sources") continue;
    text += fmt::format("  {}: {},\n", Json(key).dump(), value.dump());
  }
  text += "  \"sources\": [\n";
  for (std::size_t i = 0; i < document["sources"].size(); ++i)
    text += fmt::format("    {}{}\n", document["sources"][i].dump(),
                        i + 1 < document["sources"].size() ? "," : "");
  return text + "  ]\n}\n";
}

double at(const Json& curve, double x) {
  Curve c;
  for (const Json& point : curve) c.points.emplace_back(point[0].get<double>(), point[1].get<double>());
  return c.at(x);
}

std::string change_line(const std::string& name, double before, double now) {
  const std::string change = before > 0 ? fmt::format("{:+.1f} %", 100 * (now / before - 1)) : "";
  return fmt::format("{:<44}{:>14}{:>14}{:>10}\n", name, fmt::format("{:.4g}", before),
                     fmt::format("{:.4g}", now), change);
}

const device::MeasuredRow* same_row(const device::MeasuredRows& rows, const device::MeasuredRow& row) {
  return rows.find(row.kernel, row.unit, row.parameters);
}

double difference(double a, double b) {
  const double most = std::max(std::fabs(a), std::fabs(b));
  return most > 0 ? std::fabs(a - b) / most : 0;
}

std::string name_of(const device::MeasuredRow& row) {
  std::string text = row.kernel;
  for (const auto& [name, value] : row.parameters) text += fmt::format(" {}={}", name, to_text(value));
  return text + " (" + row.unit + ")";
}

}  // namespace

std::string merge_hardware(std::string_view base_text, std::string_view where, const CardFacts& card,
                           const std::vector<CardConstant>& constants, const std::string& date) {
  const Json base = parse(base_text, where);
  Json document = base;
  document["name"] = card.name;
  document["source"] = "measured";
  document["date"] = date;
  document["sms"] = card.sms;
  if (card.l2_bytes > 0) document["l2_bytes"] = card.l2_bytes;
  for (const CardConstant& c : constants) {
    if (!document.contains(c.key)) throw BadInput(fmt::format("{}: no key '{}' to replace", where, c.key));
    document[c.key] = json_of(c);
  }
  document["sources"] = sources_of(base, card, constants, date);
  const std::string text = print(document);
  parse_hardware(text, "the measured card");
  return text;
}

std::string old_against_new(std::string_view base_text, std::string_view where,
                            const std::vector<CardConstant>& constants) {
  const Json base = parse(base_text, where);
  std::string text = fmt::format("{:<44}{:>14}{:>14}{:>10}\n", "constant", "before", "now", "change");
  for (const CardConstant& c : constants) {
    if (c.points.empty()) text += change_line(c.key, base.at(c.key).get<double>(), c.number);
    for (const auto& [x, y] : c.points)
      text += change_line(fmt::format("{} [{:.4g}]", c.key, x), at(base.at(c.key), x), y);
  }
  return text;
}

double worst_difference(const device::MeasuredRows& first, const device::MeasuredRows& second) {
  double worst = 0;
  for (const device::MeasuredRow& row : first.all())
    if (const auto* other = same_row(second, row))
      worst = std::max(worst, difference(row.value, other->value));
  return worst;
}

std::string two_runs(const device::MeasuredRows& first, const device::MeasuredRows& second, double limit) {
  std::vector<std::pair<double, std::string>> rows;
  for (const device::MeasuredRow& row : first.all())
    if (const auto* other = same_row(second, row))
      rows.emplace_back(difference(row.value, other->value),
                        fmt::format("{:<64}{:>14.5g}{:>14.5g}", name_of(row), row.value, other->value));
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto above = std::count_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first > limit; });
  std::string text =
      fmt::format("{} rows in both runs, {} differ by more than {:.1f} %, the worst by {:.1f} %\n",
                  rows.size(), above, 100 * limit, rows.empty() ? 0 : 100 * rows[0].first);
  for (const auto& [by, line] : rows)
    if (by > limit) text += fmt::format("{}{:>8.1f} %\n", line, 100 * by);
  return text;
}

}  // namespace moe::harness
