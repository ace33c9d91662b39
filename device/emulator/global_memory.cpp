#include "device/emulator/global_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>

#include "fixtures/problem/errors.hpp"

namespace moe::device::emulator {
namespace {
constexpr std::size_t kPage = 4096, kGap = std::size_t(1) << 16;
std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }
}  // namespace

GlobalMemory::~GlobalMemory() {
  if (arena_) munmap(arena_, arena_bytes_);
}

void GlobalMemory::reserve() {
  for (arena_bytes_ = std::size_t(1) << 41; arena_bytes_ >= std::size_t(1) << 28; arena_bytes_ /= 2) {
    void* p = mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) continue;
    arena_ = static_cast<std::byte*>(p);
    madvise(p, arena_bytes_, MADV_NOHUGEPAGE);  // a sparse tensor shall not turn into whole 2 MB pages
    used_ = kGap;
    return;
  }
  throw MachineFailure("emulated card: the system gives no address space for global memory");
}

void* GlobalMemory::allocate(std::size_t bytes, std::string name, bool read_only) {
  if (!arena_) reserve();
  const std::size_t step = round_up(bytes, kPage) + kGap;
  if (bytes > arena_bytes_ || used_ + step > arena_bytes_)
    throw MachineFailure("emulated card: no address space left for '" + name + "' (" + std::to_string(bytes) +
                         " bytes)");
  std::byte* p = arena_ + used_;
  used_ += step;
  adopt(p, bytes, std::move(name), read_only);
  return p;
}

void GlobalMemory::adopt(const void* p, std::size_t bytes, std::string name, bool read_only) {
  const auto lo = reinterpret_cast<std::uintptr_t>(p);
  Region region{lo, lo + bytes, std::move(name), read_only};
  const auto at = std::upper_bound(regions_.begin(), regions_.end(), lo,
                                   [](std::uintptr_t a, const Region& r) { return a < r.lo; });
  regions_.insert(at, std::move(region));
}

void GlobalMemory::allow_writes(const void* p, std::size_t bytes) {
  const auto lo = reinterpret_cast<std::uintptr_t>(p), hi = lo + bytes;
  std::vector<Range> kept;
  for (const Range& r : forbidden_) {
    if (r.hi <= lo || r.lo >= hi) {
      kept.push_back(r);
      continue;
    }
    if (r.lo < lo) kept.push_back({r.lo, lo});
    if (r.hi > hi) kept.push_back({hi, r.hi});
  }
  forbidden_ = std::move(kept);
}

void GlobalMemory::forbid_writes(const void* p, std::size_t bytes) {
  allow_writes(p, bytes);
  const auto lo = reinterpret_cast<std::uintptr_t>(p);
  const auto at = std::upper_bound(forbidden_.begin(), forbidden_.end(), lo,
                                   [](std::uintptr_t a, const Range& r) { return a < r.lo; });
  forbidden_.insert(at, {lo, lo + bytes});
}

void GlobalMemory::release_all() {
  regions_.clear();
  forbidden_.clear();
  if (arena_) madvise(arena_, used_, MADV_DONTNEED);
  used_ = kGap;
}

const Region* GlobalMemory::find(std::uintptr_t a) const {
  const auto at = std::upper_bound(regions_.begin(), regions_.end(), a,
                                   [](std::uintptr_t v, const Region& r) { return v < r.lo; });
  if (at == regions_.begin()) return nullptr;
  return a < std::prev(at)->hi ? &*std::prev(at) : nullptr;
}

std::uintptr_t GlobalMemory::first_forbidden(std::uintptr_t a, std::size_t bytes) const {
  const auto at = std::upper_bound(forbidden_.begin(), forbidden_.end(), a,
                                   [](std::uintptr_t v, const Range& r) { return v < r.lo; });
  if (at != forbidden_.begin() && a < std::prev(at)->hi) return a;
  return at != forbidden_.end() && at->lo < a + bytes ? at->lo : 0;
}

bool GlobalMemory::mapped(std::uintptr_t a, std::size_t bytes) const {
  const auto lo = reinterpret_cast<std::uintptr_t>(arena_);
  return arena_ && a >= lo && a + bytes <= lo + used_;
}

}  // namespace moe::device::emulator
