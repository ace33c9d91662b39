#include <nlohmann/json.hpp>

#include "harness/json_codec.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {

std::string json_report(const Report& report) {
  // Text from users' files may hold bytes that are not UTF-8; they are replaced rather than refused.
  return to_json(report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace moe::harness
