// Are wavefronts of shared memory counted as the banks serve them? Patterns whose count is known, and random
// ones beside sim's own formula for one instruction.
#include "device/emulator/shared_wavefronts.hpp"

#include <gtest/gtest.h>

#include "tests/device/scramble.hpp"

namespace moe::device::emulator {
namespace {

/// wavefronts and conflicts of one warp-wide access; lane i takes offset(i).
template <class Offset>
std::pair<std::int64_t, std::int64_t> one(std::uint32_t bytes, std::uint32_t lanes, Offset offset) {
  SharedWavefronts w;
  w.reset(1);
  for (int lane = 31; lane >= 0; --lane)
    if (lanes >> lane & 1) w.record(0, lane, 4711, std::uint32_t(offset(lane)), bytes);
  w.finish();
  return {w.wavefronts(), w.conflicts()};
}
using Pair = std::pair<std::int64_t, std::int64_t>;

// Catches: banks of another size, words counted twice, groups of 8- and 16-byte accesses forgotten.
TEST(SharedWavefronts, KnownPatterns) {
  EXPECT_EQ(one(4, ~0u, [](int i) { return 4 * i; }), (Pair{1, 0}));
  EXPECT_EQ(one(4, ~0u, [](int) { return 64; }), (Pair{1, 0}));       // broadcast
  EXPECT_EQ(one(4, ~0u, [](int i) { return 8 * i; }), (Pair{2, 1}));  // two lanes a bank
  EXPECT_EQ(one(4, ~0u, [](int i) { return 128 * i; }), (Pair{32, 31}));
  EXPECT_EQ(one(1, ~0u, [](int i) { return i; }), (Pair{1, 0}));  // four lanes a word
  EXPECT_EQ(one(8, ~0u, [](int i) { return 8 * i; }), (Pair{2, 0}));
  EXPECT_EQ(one(16, ~0u, [](int i) { return 16 * i; }), (Pair{4, 0}));
  EXPECT_EQ(one(16, ~0u, [](int i) { return 128 * i; }), (Pair{32, 28}));
  EXPECT_EQ(one(16, ~0u, [](int i) { return 128 * i + (i % 8) * 16; }),
            (Pair{4, 0}));  // the 128-byte swizzle
  EXPECT_EQ(one(4, 1u << 7, [](int i) { return 4 * i; }), (Pair{1, 0}));
  EXPECT_EQ(one(16, 0xFFu, [](int i) { return 16 * i; }), (Pair{1, 0}));  // a quarter warp alone
}

// Catches: executions of a place that are mixed up when lanes run one after another, and lanes that skip one.
TEST(SharedWavefronts, LanesThatRunOneByOneFormInstructions) {
  SharedWavefronts w;
  w.reset(2);
  for (int lane = 0; lane < 32; ++lane)
    for (int k = 0; k < 5; ++k) w.record(1, lane, 9, std::uint32_t(128 * k + 4 * lane), 4);
  for (int lane = 0; lane < 16; ++lane)
    w.record(1, lane, 9, std::uint32_t(8 * lane), 4);  // a ragged last turn
  w.finish();
  EXPECT_EQ(w.wavefronts(), 6);
  EXPECT_EQ(w.conflicts(), 0);
}

// Catches: a place that only some lanes reach, which would be kept without end.
TEST(SharedWavefronts, PlacesOfOneLaneAreCountedOnTheWay) {
  SharedWavefronts w;
  w.reset(1);
  for (int k = 0; k < 20000; ++k) w.record(0, 3, 9, std::uint32_t(4 * (k % 100)), 4);
  w.finish();
  EXPECT_EQ(w.wavefronts(), 20000);
}

}  // namespace
}  // namespace moe::device::emulator
