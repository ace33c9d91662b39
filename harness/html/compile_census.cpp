#include "harness/html/compile_census.hpp"

#include <fmt/ranges.h>

#include "harness/json_reading.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> seconds_of(const Json& j, const char* key) {
  if (!j.contains(key)) return std::nullopt;
  return json_get<double>(j, key);
}

CensusKernel kernel_of(const Json& j) {
  CensusKernel k{json_get<std::string>(j, "function"),
                 json_get<std::int64_t>(j, "compiled"),
                 json_get<std::int64_t>(j, "distinct"),
                 json_get<std::int64_t>(j, "left"),
                 seconds_of(j, "seconds"),
                 seconds_of(j, "avoidable_s"),
                 {}};
  for (const Json& cause : json_list(j, "causes")) {
    auto states = json_get<std::vector<std::string>>(cause, "states");
    for (std::string& state : states)
      if (state.empty()) state = "folded";
    k.causes.push_back(fmt::format("{}: {}; {}", json_get<std::string>(cause, "property"),
                                   fmt::join(states, " | "), json_get<std::string>(cause, "advice")));
  }
  return k;
}

/// Of the reasons of the variants and the annotations that are enough.
CensusKernel stream_kernel(const Json& j) {
  const Json& kernel = json_member(j, "kernel");
  CensusKernel k{json_get<std::string>(kernel, "function"),
                 json_get<std::int64_t>(j, "variants_before"),
                 json_get<std::int64_t>(j, "variants_after"),
                 json_get<std::int64_t>(j, "variants_left"),
                 seconds_of(j, "seconds_lost_before"),
                 {},
                 {}};
  if (const auto after = seconds_of(j, "seconds_lost_after"); after && k.seconds)
    k.avoidable_s = *k.seconds - *after;
  for (const std::string& argument : json_get<std::vector<std::string>>(j, "remaining_arguments"))
    k.causes.push_back(argument + " still varies");
  for (const Json& e : json_list(j, "enough"))
    k.causes.push_back(fmt::format("enough: {} {}", json_get<std::string>(e, "annotation"),
                                   json_get<std::string>(e, "argument")));
  return k;
}

}  // namespace

CompileCensus census_from_json(std::string_view text, std::string_view path) {
  const Json j = Json::parse(text, nullptr, false);
  if (j.is_discarded()) throw BadInput(fmt::format("'{}' is not JSON", path));
  try {
    if (json_get<int>(j, "schema") != 1) throw BadInput("'schema' is not 1, the one this program reads");
    CompileCensus census;
    census.stream = j.contains("kernel");
    if (census.stream) {
      const Json& trace = json_member(j, "trace");
      census.source = fmt::format("{} launches {}", json_get<std::int64_t>(trace, "rows"),
                                  json_get<std::string>(trace, "file"));
      census.kernels.push_back(stream_kernel(j));
      return census;
    }
    census.source = json_get<std::string>(j, "source");
    if (!json_member(j, "kernels").is_array()) throw BadInput("'kernels' is no list");
    for (const Json& kernel : j["kernels"]) census.kernels.push_back(kernel_of(kernel));
    return census;
  } catch (const BadInput& e) {
    throw BadInput(fmt::format("'{}': {}", path, e.what()));
  }
}

}  // namespace moe::harness
