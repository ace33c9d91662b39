#include "harness/host_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace moe::harness {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// The number behind `key` in a file of "key number" lines; the first number of the file for an empty key.
std::optional<double> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  if (!key.empty())
    while (file >> word && word != key) {
    }
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// Names of the files of one cgroup version.
struct Controller {
  const char *folder, *limit, *usage, *droppable;
};
constexpr Controller kV2{"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"};
constexpr Controller kV1{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                         "total_inactive_file"};

double room_of_group(const std::string& folder, const Controller& c) {
  const auto limit = number_in(folder + c.limit, "");  // "max" is no number: no limit
  if (!limit) return kUnlimited;
  const double used = number_in(folder + c.usage, "").value_or(0),
               droppable = number_in(folder + "/memory.stat", c.droppable).value_or(0);
  return std::max(0.0, *limit - std::max(0.0, used - droppable));
}

/// The least room of the group `path` ("/a/b") and of all above it. In a container the path may be the
/// host's: groups that are not there limit nothing, and the container's own limit stands at the top.
double room_of_groups(const std::string& root, const Controller& c, std::string path) {
  double room = room_of_group(root + c.folder, c);
  while (path.size() > 1) {
    room = std::min(room, room_of_group(root + c.folder + path, c));
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  return room;
}

}  // namespace

double available_host_memory(const std::string& root) {
  double room = kUnlimited;
  if (const auto kilobytes = number_in(root + "/proc/meminfo", "MemAvailable:")) room = *kilobytes * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");  // lines "number:controllers:path"
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",",
                      path = line.substr(second + 1);
    if (names == ",,") room = std::min(room, room_of_groups(root, kV2, path));
    if (names.find(",memory,") != std::string::npos) room = std::min(room, room_of_groups(root, kV1, path));
  }
  return room;
}

}  // namespace moe::harness
