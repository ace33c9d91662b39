// Does the reference give the bits that an H200 gave (fixtures/golden/tensor_core.*), at every level of this
// CPU, and do the forms of an instruction agree on the card?
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "fixtures/problem/parallel.hpp"
#include "tests/reference/golden/arithmetic.hpp"

namespace moe::test {
namespace {

struct Records {
  std::string seed, inputs;
  std::map<std::string, std::vector<std::string>> forms;  // name -> hash of each kind
  std::vector<std::uint8_t> kept;
};

Records read_records() {
  const std::string base = MOE_SOURCE_DIR "/fixtures/golden/tensor_core";
  Records r;
  std::ifstream text(base + ".txt"), bytes(base + ".bin", std::ios::binary);
  std::string line;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    std::string first, word;
    words >> first;
    std::vector<std::string> rest;
    while (words >> word) rest.push_back(word);
    if (first == "seed")
      r.seed = rest.at(0);
    else if (first == "inputs")
      r.inputs = rest.at(0);
    else if (first != "form")
      r.forms[first] = rest;
  }
  std::ostringstream all;
  all << bytes.rdbuf();
  const std::string data = all.str();
  r.kept.assign(data.begin(), data.end());
  return r;
}
const Records& records() {
  static const Records r = read_records();
  return r;
}

constexpr int kWidths[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};
std::string wgmma_form(int arithmetic_number, bool registers, int n) {
  return "wgmma_m64n" + std::to_string(n) + "k32_" + (registers ? "rs_" : "ss_") +
         name(arithmetic(arithmetic_number));
}
/// All recorded forms of an arithmetic, with the columns that each covers.
std::vector<std::pair<std::string, int>> recorded_forms(int number) {
  const Arithmetic x = arithmetic(number);
  if (x.unit == Unit::mma_fp8) return {{"mma_m16n8k32_" + name(x), kColumns}};
  if (x.unit == Unit::mma_f16) return {{"mma_m16n8k16_" + name(x), kColumns}};
  std::vector<std::pair<std::string, int>> list;
  for (bool registers : {false, true})
    for (int n : kWidths) list.emplace_back(wgmma_form(number, registers, n), covered(n));
  return list;
}

/// Where the kept outputs of an arithmetic and kind start in tensor_core.bin.
std::size_t kept_offset(int number, int kind) {
  const std::size_t outputs = std::size_t(kKeptRows) * kKeptColumns;
  std::size_t offset = 0;
  for (int i = 0; i < number; ++i) offset += outputs * kKinds * std::size_t(result_bytes(arithmetic(i)));
  return offset + outputs * std::size_t(kind) * std::size_t(result_bytes(arithmetic(number)));
}

// Catches a file cut short or of another making, and operands drawn differently than for the card: then no
// other test here means anything.
TEST(Golden, RecordsAreWholeAndTheirOperandsAreDrawnAgain) {
  EXPECT_EQ(records().seed, std::to_string(kGoldenSeed));
  EXPECT_EQ(records().inputs, text(hash_inputs()));
  EXPECT_EQ(records().kept.size(), kept_offset(kArithmetics - 1, kKinds));
  EXPECT_EQ(records().forms.size(), 8u * 2 * 10 + 8 + 2);
  for (const auto& [form, hashes] : records().forms) EXPECT_EQ(hashes.size(), std::size_t(kKinds)) << form;
}

// Catches a silicon whose arithmetic depends on where A comes from or on N (no model takes part).
TEST(Golden, OnTheCardNeitherNNorTheSourceOfAChangesABit) {
  for (int i = 0; i < 8; ++i)
    for (int n : kWidths) {
      const int same_columns = covered(n) == 256 ? 8 : covered(n) == 240 ? 24 : 96;
      const auto& one = records().forms.at(wgmma_form(i, false, same_columns));
      EXPECT_EQ(records().forms.at(wgmma_form(i, false, n)), one) << name(arithmetic(i)) << " N " << n;
      EXPECT_EQ(records().forms.at(wgmma_form(i, true, n)), one) << name(arithmetic(i)) << " N " << n;
    }
}

class GoldenLevel : public testing::TestWithParam<Level> {};
INSTANTIATE_TEST_SUITE_P(All, GoldenLevel, testing::Values(Level::plain, Level::avx2, Level::avx512),
                         [](const auto& level) { return std::string(name(level.param)); });

struct Outcome {
  int checked = 0, kept_differ = 0;
  std::string first;  // difference
};

Outcome replay(int number, int kind, Level level) {
  const Arithmetic x = arithmetic(number);
  Outcome outcome;
  const auto want = records().kept.data() + kept_offset(number, kind);
  const auto d = as_stored(x, outputs(x, draw_tile(kGoldenSeed, tile_format(number), Kind(kind), 0), level));
  const auto note = [&](const std::string& what) {
    if (outcome.first.empty()) outcome.first = name(x) + " " + std::string(kKindNames[kind]) + ": " + what;
  };
  for (int m = 0; m < kKeptRows; ++m)
    for (int n = 0; n < kKeptColumns; ++n) {
      const std::uint32_t got = stored(x, d.data(), std::size_t(m * kColumns + n));
      const std::uint32_t card = stored(x, want, std::size_t(m * kKeptColumns + n));
      if (got == card) continue;
      ++outcome.kept_differ;
      std::ostringstream s;
      s << "row " << m << " column " << n << std::hex << ": card " << card << ", reference " << got;
      note(s.str());
    }
  for (const auto& [form, columns] : recorded_forms(number)) {
    ++outcome.checked;
    if (text(hash_outputs(x, d.data(), columns)) != records().forms.at(form).at(std::size_t(kind)))
      note("hash of " + form);
  }
  return outcome;
}

// Catches any deviation from the H200, in every instruction, type, kind of data and level: alignment,
// truncation, subnormals, NaN, signs of zero, a wrong lane, a special case that the fast code forgot.
TEST_P(GoldenLevel, GivesTheBitsOfTheCard) {
  if (!reference::available(GetParam())) GTEST_SKIP() << "this CPU has no " << name(GetParam());
  std::vector<Outcome> all(std::size_t(kArithmetics) * kKinds);
  parallel(std::int64_t(all.size()), 0, [&](std::int64_t i) {
    const int number = int(i) / kKinds;
    if (has_level(arithmetic(number), GetParam()))
      all[std::size_t(i)] = replay(number, int(i) % kKinds, GetParam());
  });
  int checked = 0;
  for (const Outcome& o : all) {
    checked += o.checked;
    EXPECT_EQ(o.first, "") << o.kept_differ << " of " << kKeptRows * kKeptColumns << " kept outputs differ";
  }
  // f16 results of mma.sync on f16 are computed by plain code alone
  EXPECT_EQ(checked, kKinds * (160 + (GetParam() == Level::plain ? 10 : 9)));
}

}  // namespace
}  // namespace moe::test
