#include "harness/values.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "fixtures/problem/errors.hpp"
#include "harness/layouts.hpp"

namespace moe::harness {
namespace {

using Counts64 = std::vector<std::int64_t>;

// Would catch a range that stops early or goes past its end.
TEST(Values, RangesAndLists) {
  EXPECT_EQ(parse_counts("1:4096:x2", 0).size(), 13u);
  EXPECT_EQ(parse_counts("1:4", 0), (Counts64{1, 2, 3, 4}));
  EXPECT_EQ(parse_counts("0:64:+32", 0), (Counts64{0, 32, 64}));
  EXPECT_EQ(parse_counts("7,1:5:x2,9", 0), (Counts64{7, 1, 2, 4, 9}));
  EXPECT_EQ(parse_counts("3:3:x2", 0), (Counts64{3}));
}

// Would catch a bad value that is taken as some number.
TEST(Values, BadCountsAreRefused) {
  for (const char* bad : {"", "-1", "1.5", "x", "1,,2", "4:1", "1:8:x1", "1:8:2", "0:8:x2", "1:2:3:4", " 1",
                          "1 ", "99999999999999999999", "1:100000", "0x10"})
    EXPECT_THROW(parse_counts(bad, 0), BadInput) << bad;
  EXPECT_THROW(parse_counts("0", 1), BadInput);
}

// Would catch overflow in a multiplying range near the largest count.
TEST(Values, MultiplyingRangeEndsAtTheLargestCount) {
  const auto values = parse_counts("1:1099511627776:x2", 0);
  EXPECT_EQ(values.size(), 41u);
  EXPECT_EQ(values.back(), std::int64_t(1) << 40);
}

RC_GTEST_PROP(Values, AListReadsBack, ()) {
  const auto values =
      *rc::gen::nonEmpty(rc::gen::container<Counts64>(rc::gen::inRange<std::int64_t>(0, 1 << 30)));
  std::string text;
  for (const auto v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  RC_ASSERT(parse_counts(text, 0) == values);
}

// Any text gives values or BadInput, never another exception.
RC_GTEST_PROP(Values, AnyTextIsAnsweredOrRefused, (const std::string& text)) {
  try {
    for (const auto v : parse_counts(text, 0)) RC_ASSERT(v >= 0);
  } catch (const BadInput&) {
  }
  try {
    RC_ASSERT(parse_duration(text) > 0);
  } catch (const BadInput&) {
  }
  try {
    RC_ASSERT(parse_amount(text) >= 1);
  } catch (const BadInput&) {
  }
}

TEST(Values, DurationsAmountsShardsSeeds) {
  EXPECT_EQ(parse_duration("90"), 90);
  EXPECT_EQ(parse_duration("1.5m"), 90);
  EXPECT_EQ(parse_duration("2h"), 7200);
  EXPECT_EQ(parse_amount("500M"), 5e8);
  EXPECT_EQ(parse_amount("2e9"), 2e9);
  EXPECT_EQ(parse_seed("0xff"), 255u);
  EXPECT_EQ(parse_seed("18446744073709551615"), ~std::uint64_t(0));
  EXPECT_EQ(parse_shard("2/5"), (Shard{2, 5}));
  for (const char* bad : {"0/2", "3/2", "1", "a/b", "1/2/3", ""})
    EXPECT_THROW(parse_shard(bad), BadInput) << bad;
  for (const char* bad : {"", "-1", "0x", "1e3", "18446744073709551616"})
    EXPECT_THROW(parse_seed(bad), BadInput) << bad;
  for (const char* bad : {"", "0", "-3s", "nan", "inf", "1d"})
    EXPECT_THROW(parse_duration(bad), BadInput) << bad;
}

// Would catch a problem that two shards both run, or none.
RC_GTEST_PROP(Values, ShardsPartition, ()) {
  const int count = *rc::gen::inRange(1, 20);
  const auto i = *rc::gen::inRange<std::size_t>(0, 1000);
  int owners = 0;
  for (int index = 1; index <= count; ++index) owners += Shard{index, count}.owns(i);
  RC_ASSERT(owners == 1);
}

ExpertLoad load_of(std::int64_t rows) { return {{rows, rows, rows, rows}}; }

// Swap-AB must stand beside what it replaces: mma.sync below 64 tokens a block, wgmma from 64.
TEST(Layouts, BothNamesTheTrueBaseline) {
  for (const std::int64_t rows : {1, 8, 9, 32, 33, 64, 100}) {
    const auto choices = choices_for(LayoutRequest::both, Choice{}, Problem{}, load_of(rows));
    ASSERT_EQ(choices.size(), 2u);
    EXPECT_EQ(choices[1].layout, Layout::swap_ab);
    EXPECT_EQ(choices[0].layout, choices[1].tile.block_m < 64 ? Layout::normal_mma : Layout::normal_wgmma);
    EXPECT_GE(choices[0].tile.block_m, 16);
    EXPECT_FALSE(choices[1].tile.automatic());
  }
}

TEST(Layouts, AGivenTileIsRaisedForTheBaselineOnly) {
  Choice given;
  given.tile = parse_tile("8x128x128");
  const auto choices = choices_for(LayoutRequest::both, given, Problem{}, load_of(3));
  EXPECT_EQ(to_string(choices[0].tile), "16x128x128");
  EXPECT_EQ(to_string(choices[1].tile), "8x128x128");
}

TEST(Layouts, ATileBeyondSharedMemoryIsRefused) {
  EXPECT_NO_THROW(validate_tile(parse_tile("128x128x128/s5")));
  EXPECT_THROW(validate_tile(parse_tile("128x128x128/s8")), BadInput);
  EXPECT_THROW(validate_tile(parse_tile("512x512x128")), BadInput);
  EXPECT_THROW(validate_tile(parse_tile("65536x65536x65536/s65536")), BadInput);
}

}  // namespace
}  // namespace moe::harness
