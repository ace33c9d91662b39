// How is a member of a JSON object read? Each reader throws BadInput that names the key. For .cpp files only.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {

inline const nlohmann::ordered_json& json_member(const nlohmann::ordered_json& j, const char* key) {
  if (!j.is_object() || !j.contains(key)) throw BadInput(fmt::format("'{}' is missing", key));
  return j.at(key);
}

/// Says which key was wrong where it has another type than expected.
template <class T>
T json_get(const nlohmann::ordered_json& j, const char* key) {
  try {
    return json_member(j, key).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw BadInput(fmt::format("'{}' has the wrong type", key));
  }
}

template <class T>
T json_get_or(const nlohmann::ordered_json& j, const char* key, T otherwise) {
  return j.is_object() && j.contains(key) ? json_get<T>(j, key) : otherwise;
}

/// A list, empty where the key is absent.
inline const nlohmann::ordered_json& json_list(const nlohmann::ordered_json& j, const char* key) {
  static const nlohmann::ordered_json none = nlohmann::ordered_json::array();
  if (!j.is_object() || !j.contains(key)) return none;
  if (!j.at(key).is_array()) throw BadInput(fmt::format("'{}' is no list", key));
  return j.at(key);
}

/// JSON has no NaN or infinity: they travel as words.
inline nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

inline double json_number(const nlohmann::ordered_json& j, const char* key) {
  const nlohmann::ordered_json& value = json_member(j, key);
  if (value == "nan") return NAN;
  if (value == "inf" || value == "-inf") return value == "inf" ? INFINITY : -INFINITY;
  return json_get<double>(j, key);
}

}  // namespace moe::harness
