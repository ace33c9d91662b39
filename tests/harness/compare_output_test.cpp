#include "harness/compare_output.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "fixtures/problem/number_formats.hpp"
#include "harness/fault_class.hpp"

namespace moe::harness {
namespace {

constexpr int kExperts = 3, kRows = 24, kColumns = 384;  // 8 rows an expert, 3 column blocks

/// A right output of distinct bf16 values, and the kernel's copy of it to spoil.
struct Trial {
  Tensor due{"gemm1", DType::bf16, {kRows, kColumns}}, got{"gemm1", DType::bf16, {kRows, kColumns}};
  std::vector<JudgedRow> rows;
  StagePair pair;

  Trial() {
    for (int r = 0; r < kRows; ++r) rows.push_back({r, r / 8, r % 8});
    auto codes = due.as<std::uint16_t>();
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::uint16_t(0x3000 + i + (i % 2) * 0x8000);
    restore();
    pair.stage = "gemm1";
    pair.got = &got;
    pair.columns = kColumns;
    pair.rows = rows;
    pair.bits = &due;
    pair.block_m = 4;
  }
  Trial(const Trial&) = delete;
  void restore() { std::memcpy(got.data(), due.data(), due.bytes()); }
  std::uint16_t& at(int row, int column) {
    return got.as<std::uint16_t>()[std::size_t(row * kColumns + column)];
  }
  std::string fault() { return guess_fault(pair, compare_stage(pair)); }
};

TEST(CompareOutput, EqualBytesPass) {
  Trial t;
  const StageFindings f = compare_stage(t.pair);
  EXPECT_EQ(f.checked, kRows * kColumns);
  EXPECT_EQ(f.wrong, 0);
  EXPECT_TRUE(f.could_fail);
  EXPECT_EQ(f.blocks.size(), std::size_t(kExperts * 3));
}

// Would catch a comparator that samples, rounds or forgives: one flipped bit anywhere must be found at its
// place.
RC_GTEST_PROP(CompareOutput, OneFlippedBitIsFoundAtItsPlace, ()) {
  Trial t;
  const int row = *rc::gen::inRange(0, kRows), column = *rc::gen::inRange(0, kColumns),
            bit = *rc::gen::inRange(0, 16);
  t.at(row, column) = std::uint16_t(t.at(row, column) ^ (1 << bit));
  const StageFindings f = compare_stage(t.pair);
  RC_ASSERT(f.wrong == 1);
  RC_ASSERT(f.worst->row == row);
  RC_ASSERT(f.worst->column == column);
  RC_ASSERT(f.worst->expert == row / 8);
  RC_ASSERT(f.worst->tile_row == row % 8 / 4);
  RC_ASSERT(f.worst->tile_column == column / 128);
  for (const BlockVerdict& b : f.blocks)
    RC_ASSERT(b.wrong == (b.expert == row / 8 && b.column_block == column / 128));
  RC_ASSERT(guess_fault(t.pair, f).find("one element of expert " + std::to_string(row / 8)) !=
            std::string::npos);
}

// Each planted output error must be named for what it is.
TEST(CompareOutput, SwappedRowsOfTwoExperts) {
  Trial t;
  std::swap_ranges(&t.at(1, 0), &t.at(1, 0) + kColumns, &t.at(17, 0));
  EXPECT_EQ(t.fault(), "rows of another expert in 2 rows and 384 columns");
}

TEST(CompareOutput, AZeroedTile) {
  Trial t;
  for (int row = 8; row < 12; ++row) std::memset(&t.at(row, 128), 0, 256);
  EXPECT_EQ(t.fault(), "zeros in one tile of expert 1");
}

TEST(CompareOutput, ABlockNeverWritten) {
  Trial t;
  for (int row = 16; row < 24; ++row) std::memset(&t.at(row, 256), 0xFF, 256);
  EXPECT_EQ(t.fault(), "values that were never written in one 128-column block of expert 2");
}

TEST(CompareOutput, AllZero) {
  Trial t;
  std::memset(t.got.data(), 0, t.got.bytes());
  const StageFindings f = compare_stage(t.pair);
  EXPECT_EQ(f.wrong, kRows * kColumns);
  EXPECT_EQ(t.fault(), "zeros in every row");
}

TEST(CompareOutput, AWrongBlockScale) {
  Trial t;
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 128; ++column)
      t.at(row, column) = encode_bf16(2 * decode_bf16(t.at(row, column)));
  EXPECT_EQ(t.fault(), "values off by a factor of 2 in one 128-column block of expert 0");
}

// NaN compares false with everything: a comparator written with '>' would accept it.
TEST(CompareOutput, NanAndInfinityAreWrong) {
  for (const std::uint16_t code : {0x7FC0, 0x7F80, 0xFF80}) {
    Trial t;
    t.at(3, 200) = code;
    EXPECT_EQ(compare_stage(t.pair).wrong, 1);
  }
  Trial t;
  std::vector<float> want, low, high;
  for (const std::uint16_t code : t.due.as<std::uint16_t>()) {
    want.push_back(decode_bf16(code));
    low.push_back(want.back() - 1);
    high.push_back(want.back() + 1);
  }
  t.pair.bits = nullptr, t.pair.want = want, t.pair.low = low, t.pair.high = high;
  EXPECT_EQ(compare_stage(t.pair).wrong, 0);
  t.at(3, 200) = 0x7FC0;
  t.at(4, 200) = 0x7F80;
  EXPECT_EQ(compare_stage(t.pair).wrong, 2);
}

// Where NaN is due any NaN will do, and a number will not.
TEST(CompareOutput, NanWhereItIsDue) {
  Trial t;
  t.due.as<std::uint16_t>()[0] = 0x7FFF;
  t.at(0, 0) = 0x7FC0;
  EXPECT_EQ(compare_stage(t.pair).wrong, 0);
  t.at(0, 0) = 0x3F80;
  EXPECT_EQ(compare_stage(t.pair).wrong, 1);
}

// The interval's ends belong to it; one step outside does not.
RC_GTEST_PROP(CompareOutput, IntervalsAreClosed, ()) {
  Trial t;
  std::vector<float> want, low, high;
  for (const std::uint16_t code : t.due.as<std::uint16_t>()) {
    want.push_back(decode_bf16(code));
    low.push_back(decode_bf16(std::uint16_t(code - (code & 0x8000 ? -1 : 1))));
    high.push_back(decode_bf16(std::uint16_t(code + (code & 0x8000 ? -1 : 1))));
  }
  t.pair.bits = nullptr, t.pair.want = want, t.pair.low = low, t.pair.high = high;
  const int row = *rc::gen::inRange(0, kRows), column = *rc::gen::inRange(0, kColumns),
            step = *rc::gen::inRange(-2, 3);
  t.at(row, column) = std::uint16_t(t.at(row, column) + step);
  const StageFindings f = compare_stage(t.pair);
  RC_ASSERT(f.wrong == (std::abs(step) > 1));
  if (f.wrong > 0) RC_ASSERT(std::abs(f.worst->ulp) == std::abs(step));
}

// A trial that zeros would pass must be known as such.
TEST(CompareOutput, BlindTrials) {
  Trial t;
  std::memset(t.due.data(), 0, t.due.bytes());
  t.restore();
  EXPECT_FALSE(compare_stage(t.pair).could_fail);
  t.due.as<std::uint16_t>()[77] = 0x3F80;
  EXPECT_TRUE(compare_stage(t.pair).could_fail);
  const std::vector<float> want(kRows * kColumns, 1.0f), low(kRows * kColumns, -1.0f),
      high(kRows * kColumns, 3.0f);
  t.pair.bits = nullptr, t.pair.want = want, t.pair.low = low, t.pair.high = high;
  EXPECT_FALSE(compare_stage(t.pair).could_fail);
}

TEST(CompareOutput, MissingOrMisshapenTensorsAreNamed) {
  Trial t;
  t.pair.got = nullptr;
  EXPECT_EQ(compare_stage(t.pair).shape_error, "the kernel gave no 'gemm1'");
  const Tensor narrow("gemm1", DType::bf16, {kRows, kColumns - 1}),
      shallow("gemm1", DType::bf16, {kRows - 1, kColumns});
  const Tensor floats("gemm1", DType::f32, {kRows, kColumns});
  t.pair.got = &narrow;
  EXPECT_EQ(compare_stage(t.pair).shape_error, "'gemm1' is [24, 383]: it has 383 columns where 384 are due");
  t.pair.got = &shallow;
  EXPECT_EQ(compare_stage(t.pair).shape_error, "'gemm1' is [23, 384]: it has 23 rows; row 23 is due");
  t.pair.got = &floats;
  EXPECT_EQ(compare_stage(t.pair).shape_error, "'gemm1' is f32 where bf16 is due");
}

}  // namespace
}  // namespace moe::harness
