// Which addresses may a kernel touch? Global memory of the emulated card: address space without pages until
// written (a weight tensor of inactive experts costs nothing), byte-exact bounds, gaps between allocations,
// read-only regions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moe::device::emulator {

struct Region {
  std::uintptr_t lo = 0, hi = 0;  // [lo, hi)
  std::string name;
  bool read_only = false;
};

class GlobalMemory {
 public:
  GlobalMemory() = default;
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  /// Zero-filled, aligned to 4096 bytes. Throws MachineFailure when address space ends.
  void* allocate(std::size_t bytes, std::string name, bool read_only = false);
  /// Makes host memory that the caller keeps alive visible to kernels, without a copy.
  void adopt(const void* p, std::size_t bytes, std::string name, bool read_only);
  /// A kernel may not write [p, p + bytes) from now on, or may again. The range lies in one region.
  void forbid_writes(const void* p, std::size_t bytes);
  void allow_writes(const void* p, std::size_t bytes);
  void release_all();

  /// The region that holds address a, or null; O(log n).
  const Region* find(std::uintptr_t a) const;
  /// The first forbidden byte in [a, a + bytes), or 0.
  std::uintptr_t first_forbidden(std::uintptr_t a, std::size_t bytes) const;
  /// True where an access does not trap although no region holds it (the gaps).
  bool mapped(std::uintptr_t a, std::size_t bytes) const;
  bool has_forbidden() const { return !forbidden_.empty(); }

 private:
  struct Range {
    std::uintptr_t lo, hi;
  };
  void reserve();
  std::vector<Region> regions_;   // sorted by lo
  std::vector<Range> forbidden_;  // sorted, disjoint
  std::byte* arena_ = nullptr;
  std::size_t arena_bytes_ = 0, used_ = 0;
};

}  // namespace moe::device::emulator
