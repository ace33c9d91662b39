// The SM clock that a measurement carries: from NVML where it is there, watched while the card works.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device/cuda/nvml.hpp"
#include "device/session/clock_watch.hpp"

namespace moe::device {
namespace {

// Catches: another clock domain, MHz for Hz, total memory for free, answers after the library was shut down.
TEST(Nvml, AnswersForTheCardOfABusId) {
  ManagedCard copy("");
  {
    const ManagedCard card("0000:1B:00.0", MOE_FAKE_NVML);
    ASSERT_TRUE(card.found());
    copy = card;
  }
  EXPECT_EQ(copy.sm_clock_hz(), 1755e6);
  EXPECT_EQ(copy.free_bytes(), 100e9);
}

// Catches: a crash or an invented clock where the library, a function of it or the card is missing.
TEST(Nvml, GivesNoAnswerWhereSomethingIsMissing) {
  for (const ManagedCard& card :
       {ManagedCard("0000:1B:00.0", "libno-such-library.so"), ManagedCard("0000:1B:00.0", "libc.so.6"),
        ManagedCard("0000:99:00.0", MOE_FAKE_NVML), ManagedCard("", MOE_FAKE_NVML)}) {
    EXPECT_FALSE(card.found());
    EXPECT_FALSE(card.sm_clock_hz().has_value());
    EXPECT_FALSE(card.free_bytes().has_value());
  }
}

// Catches: the mean or the first reading in place of the median; readings that failed counted as 0 Hz.
TEST(ClockWatch, GivesTheMedianOfWhatCouldBeRead) {
  std::atomic<int> reads{0};
  ClockWatch watch([&] {
    const double hz[] = {1e9, 0, 9e9, 2e9, 0};
    const int i = reads++;
    return i < 5 ? hz[i] : 0;
  });
  while (reads < 6) std::this_thread::yield();
  EXPECT_EQ(watch.median(), 2e9);
  EXPECT_EQ(watch.median(), 2e9);  // the watch is over
}

// Catches: a thread that is started, or waited for, where the machine has no clock.
TEST(ClockWatch, WatchesNothingWithoutAReader) { EXPECT_EQ(ClockWatch({}).median(), 0); }

}  // namespace
}  // namespace moe::device
