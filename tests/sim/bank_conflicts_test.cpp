#include "sim/bank_conflicts.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace moe::sim {
namespace {

std::vector<std::int64_t> strided(std::int64_t stride) {
  std::vector<std::int64_t> addresses;
  for (int lane = 0; lane < 32; ++lane) addresses.push_back(lane * stride);
  return addresses;
}

// The textbook cases: a miscounted bank, a word counted twice, a broadcast counted as a conflict.
TEST(BankConflicts, OfKnownPatterns) {
  EXPECT_EQ(bank_conflicts(strided(4), 4), 0);
  EXPECT_EQ(bank_conflicts(strided(0), 4), 0);
  EXPECT_EQ(bank_conflicts(strided(8), 4), 1);
  EXPECT_EQ(bank_conflicts(strided(128), 4), 31);
  EXPECT_EQ(bank_conflicts(strided(132), 4), 0);
  EXPECT_EQ(bank_conflicts(strided(8), 8), 0);
  EXPECT_EQ(bank_conflicts(strided(16), 16), 0);
  EXPECT_EQ(shared_passes(strided(16), 16), 4);
  EXPECT_EQ(bank_conflicts(strided(128), 16), 4 * 7);
  EXPECT_EQ(bank_conflicts(std::vector<std::int64_t>(32, -1), 4), 0);
}

// A swizzle applied to the wrong bits: fragment reads are free of conflicts with it and eight-fold without.
TEST(BankConflicts, SwizzleFreesTheFragmentReads) {
  std::vector<std::int64_t> plain, swizzles;
  for (int lane = 0; lane < 32; ++lane) {
    plain.push_back(lane / 4 * 128 + lane % 4 * 4);
    swizzles.push_back(swizzled(lane / 4, lane % 4 * 4));
  }
  EXPECT_EQ(bank_conflicts(plain, 4), 7);
  EXPECT_EQ(bank_conflicts(swizzles, 4), 0);
}

// The count may not depend on which lane asks for which word, nor grow when lanes drop out.
RC_GTEST_PROP(BankConflicts, DependOnTheSetOfWordsOnly, ()) {
  auto addresses = *rc::gen::container<std::vector<std::int64_t>>(
      32, rc::gen::map(rc::gen::inRange<std::int64_t>(0, 2048), [](std::int64_t word) { return 4 * word; }));
  const int passes = shared_passes(addresses, 4);
  std::rotate(addresses.begin(), addresses.begin() + *rc::gen::inRange(0, 32), addresses.end());
  RC_ASSERT(shared_passes(addresses, 4) == passes);
  addresses[std::size_t(*rc::gen::inRange(0, 32))] = -1;
  RC_ASSERT(shared_passes(addresses, 4) <= passes);
  RC_ASSERT(passes >= 1 && passes <= 32);
}

}  // namespace
}  // namespace moe::sim
