#include "harness/kill_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/json_codec.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kHeading = "moeproof_self_test";

void append(const std::string& path, const std::string& line) {
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << line << "\n" << std::flush;
  if (!file) throw MachineFailure(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

void read_line(const Json& j, bool first, const std::string& options, std::vector<KillRow>& rows) {
  if (j.is_object() && j.contains(kHeading)) {
    const std::string given = j.at(kHeading).get<std::string>();
    if (given != options) throw BadInput(fmt::format("it has '{}', these are '{}'", given, options));
    return;
  }
  if (first) throw BadInput("it is no file of a self-test");
  rows.push_back(kill_row_from_json(j));
}

}  // namespace

std::vector<KillRow> open_kill_file(const std::string& path, const std::string& options) {
  require_regular(path, "the record of a self-test");
  if (!std::filesystem::exists(path))
    append(path, Json{{kHeading, options}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  const std::string text = read_file(path);
  std::vector<KillRow> rows;
  std::size_t begin = 0;
  for (int line = 1;; ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    try {
      read_line(Json::parse(text.substr(begin, end - begin)), line == 1, options, rows);
    } catch (const BadInput& e) {
      throw BadInput(fmt::format("{}:{}: {}", one_line(path), line, e.what()));
    } catch (const nlohmann::json::exception&) {
      throw BadInput(fmt::format("{}:{}: it is no line of a self-test", one_line(path), line));
    }
    begin = end + 1;
  }
  if (begin == 0) throw BadInput(fmt::format("{}: it is no file of a self-test", one_line(path)));
  std::error_code failed;
  if (begin < text.size()) std::filesystem::resize_file(path, begin, failed);
  if (failed) throw MachineFailure(fmt::format("cannot write {}: {}", path, failed.message()));
  return rows;
}

void append_row(const std::string& path, const KillRow& row) {
  append(path, to_json(row).dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace moe::harness
