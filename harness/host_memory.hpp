// How many bytes may this process still use? What the system has free or can free, and no more than its
// control groups (containers, job schedulers) leave.
#pragma once
#include <string>

namespace moe::harness {

/// Bytes; infinity where nothing says. `root` stands in front of /proc and /sys/fs/cgroup, for tests. Reads
/// MemAvailable of /proc/meminfo, and of the process's group and all above it memory.max (cgroup v2) or
/// memory.limit_in_bytes (v1) less what is used and cannot be dropped (Linux,
/// Documentation/admin-guide/cgroup-v2.rst).
double available_host_memory(const std::string& root = "");

}  // namespace moe::harness
