#include "device/calibrate/measured_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::device {
namespace {

constexpr std::string_view kHead = "kernel,parameters,value,unit";

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

MeasuredRow parse_row(std::string_view line, const std::string& where) {
  const auto fields = split(line, ',');
  if (fields.size() != 4)
    throw BadInput(fmt::format("{}: {} fields, due are four: {}", where, fields.size(), kHead));
  MeasuredRow row{std::string(fields[0]), {}, 0, std::string(fields[3])};
  for (const std::string_view word : split(fields[1], ' ')) {
    if (word.empty()) continue;
    const std::size_t equals = word.find('=');
    const auto value = equals == std::string_view::npos ? std::nullopt : number(word.substr(equals + 1));
    if (!value) throw BadInput(fmt::format("{}: '{}' is no name=number", where, word));
    row.parameters.emplace_back(word.substr(0, equals), *value);
  }
  const auto value = number(fields[2]);
  if (!value) throw BadInput(fmt::format("{}: '{}' is no number", where, fields[2]));
  row.value = *value;
  return row;
}

}  // namespace

const MeasuredRow* MeasuredRows::find(std::string_view kernel, std::string_view unit,
                                      const Parameters& parameters) const {
  for (const MeasuredRow& row : rows_) {
    if (row.kernel != kernel || row.unit != unit) continue;
    const bool all = std::all_of(parameters.begin(), parameters.end(), [&](const auto& wanted) {
      return std::find(row.parameters.begin(), row.parameters.end(), wanted) != row.parameters.end();
    });
    if (all) return &row;
  }
  return nullptr;
}

std::string to_csv(const MeasuredRows& rows) {
  std::string text = std::string(kHead) + "\n";
  for (const MeasuredRow& row : rows.all()) {
    std::string parameters;
    for (const auto& [name, value] : row.parameters)
      parameters += fmt::format("{}{}={}", parameters.empty() ? "" : " ", name, to_text(value));
    text += fmt::format("{},{},{},{}\n", row.kernel, parameters, to_text(row.value), row.unit);
  }
  return text;
}

MeasuredRows parse_measured_rows(std::string_view csv, std::string_view where) {
  MeasuredRows rows;
  int number_of_line = 0;
  for (const std::string_view line : split(csv, '\n')) {
    ++number_of_line;
    const std::string at = fmt::format("{}:{}", where, number_of_line);
    if (number_of_line == 1) {
      if (line != kHead) throw BadInput(fmt::format("{}: the head is not '{}'", at, kHead));
    } else if (!line.empty()) {
      MeasuredRow row = parse_row(line, at);
      rows.add(row.kernel, std::move(row.parameters), row.value, std::move(row.unit));
    }
  }
  return rows;
}

}  // namespace moe::device
