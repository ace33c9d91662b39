// Where did the work of a CTA lie? The TMA boxes it asked for, in order, and its stores to global memory,
// noted where the instructions are executed, never in kernels. For comparing a kernel's walk with what its
// contract says.
#pragma once
#include <cstdint>
#include <vector>

namespace moe::device::emulator {

/// A box of a tensor map's matrix: first byte of a row, first row.
struct BoxLoad {
  std::uint64_t base = 0;  // address of the matrix
  int x = 0, y = 0;
  bool operator==(const BoxLoad&) const = default;
};

struct GlobalStore {
  std::uintptr_t address = 0;
  std::uint32_t bytes = 0;
};

struct CtaTrace {
  std::vector<BoxLoad> boxes;       // in the order of the loading thread
  std::vector<GlobalStore> stores;  // ordinary and bulk; of one thread in its order
};

}  // namespace moe::device::emulator
