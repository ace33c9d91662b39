// How is a member of a JSON object read? Each reader throws BadInput that names the key. For .cpp files only.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {

inline const nlohmann::ordered_json& json_member(const nlohmann::ordered_json& j, const char* key) {
  if (!j.is_object() || !j.contains(key)) throw BadInput(fmt::format("'{}' is missing", key));
  return j.at(key);
}

[[noreturn]] inline void json_wrong(const nlohmann::ordered_json& value, const char* key, const char* due) {
  throw BadInput(
      fmt::format("'{}' is {}, where {} is due", key,
                  value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 80), due));
}

/// The value as T and nothing near it: nlohmann's own get() takes true for 1, 1.7 for 1 and 2^32 for 0.
template <class T>
T json_value(const nlohmann::ordered_json& value, const char* key) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) json_wrong(value, key, "true or false");
    return value.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<std::uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
    if (!fits) json_wrong(value, key, "a whole number of its range");
    return value.get<T>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!value.is_number()) json_wrong(value, key, "a number");
    return value.get<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) json_wrong(value, key, "a text");
    return value.get<T>();
  } else if constexpr (requires { typename T::mapped_type; }) {
    if (!value.is_object()) json_wrong(value, key, "an object");
    T all;
    for (const auto& item : value.items())
      all.emplace(item.key(), json_value<typename T::mapped_type>(item.value(), key));
    return all;
  } else {
    if (!value.is_array()) json_wrong(value, key, "a list");
    T all;
    for (const nlohmann::ordered_json& one : value)
      all.push_back(json_value<typename T::value_type>(one, key));
    return all;
  }
}

/// Says which key was wrong where it has another type than expected.
template <class T>
T json_get(const nlohmann::ordered_json& j, const char* key) {
  return json_value<T>(json_member(j, key), key);
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
