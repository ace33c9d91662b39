// How often must shared memory be served for the ordinary accesses of a CTA? Lanes run one by one here, so
// the k-th time that each lane of a warp comes to a place of the code is taken for one instruction of the
// warp; its wavefronts are counted as the hardware serves it: 32 banks of 4 bytes, lanes that want the same
// word together, accesses of 8 bytes by half warps and of 16 bytes by quarter warps (CUDA C++ Programming
// Guide, "Shared Memory", compute capability 5.x on). Wavefronts beyond the least are bank conflicts.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace moe::device::emulator {

class SharedWavefronts {
 public:
  void reset(int warps);
  /// One lane's access of `bytes` (up to 16) at `offset` of shared memory, by the code at `pc`.
  void record(int warp, int lane, std::uint32_t pc, std::uint32_t offset, std::uint32_t bytes);
  /// Counts what only some lanes have done: those that the others have skipped.
  void finish();
  std::int64_t wavefronts() const { return wavefronts_; }
  std::int64_t conflicts() const { return wavefronts_ - least_; }

 private:
  struct Instruction {  // that some lanes have executed
    std::uint32_t lanes = 0;
    std::array<std::uint32_t, 32> offset;
  };
  struct Place {
    std::uint32_t pc = 0, bytes = 0;
    std::uint32_t first = 0;               // number of waiting[0]
    std::array<std::uint32_t, 32> done{};  // executions by each lane
    std::vector<Instruction> waiting;
  };
  struct Warp {
    std::vector<Place> places;
    std::array<std::uint16_t, 256> index{};  // place + 1 by a hash of its pc; 0: none
  };
  Place& place(Warp& warp, std::uint32_t pc, std::uint32_t bytes);
  void count(const Instruction& instruction, std::uint32_t bytes);

  std::vector<Warp> warps_;
  std::int64_t wavefronts_ = 0, least_ = 0;
};

}  // namespace moe::device::emulator
