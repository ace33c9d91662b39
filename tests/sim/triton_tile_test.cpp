// Does the model choose the instructions that Triton chose, and give them the room that Triton gave them?
#include "sim/triton_tile.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "sim/triton_moe.hpp"

namespace moe::sim {
namespace {

GemmShape shape(const std::string& layout, const std::string& tile, bool block_scales) {
  return {"gemm1", 256, 1024, parse_layout(layout), parse_tile(tile), block_scales};
}

// Every kernel of fixtures/measured/h200_triton_instructions.txt, as Triton 3.6.0 compiled it. Catches: wgmma
// where the compiler has none (8 tokens swapped), a wrong N, a buffer more or less, registers that are far
// off (they decide how many CTAs share an SM).
TEST(TritonTile, IsWhatTritonCompiled) {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_triton_instructions.txt");
  std::string line;
  std::getline(file, line);
  int kernels = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string layout, m, n, quant, instruction, word;
    std::int64_t count = 0, registers = 0, spills = 0, shared = 0;
    words >> layout >> m >> n >> quant >> instruction >> count >> word;
    words >> word >> registers >> word >> spills >> word >> shared;
    const TritonTile t = triton_tile(shape(layout, m + "x" + n + "x128/s3/w4", quant == "block128"));
    const bool wgmma = instruction.find("wgmma") != std::string::npos;
    EXPECT_EQ(t.wgmma, wgmma) << line;
    if (wgmma) {
      EXPECT_NE(instruction.find("m64n" + std::to_string(t.wgmma_n) + "k32."), std::string::npos) << line;
    }
    EXPECT_EQ(wgmma ? t.wgmma_chain : t.mma_per_warp, count) << line;
    EXPECT_NEAR(double(t.shared_bytes), double(shared), 512) << line;
    EXPECT_NEAR(double(t.registers), double(registers), 0.2 * double(registers)) << line;
    EXPECT_EQ(t.spilled > 0, spills > 0) << line;
    ++kernels;
  }
  EXPECT_EQ(kernels, 8);
}

// Catches a word of the case that overrules the tile: 64 tokens are wgmma in every layout, 32 in none but
// swap_ab.
TEST(TritonTile, TheTileDecidesNotTheWord) {
  EXPECT_TRUE(triton_tile(shape("normal_mma", "64x128x128", true)).wgmma);
  EXPECT_FALSE(triton_tile(shape("normal_wgmma", "32x128x128", true)).wgmma);
  EXPECT_FALSE(triton_tile(shape("swap_ab", "16x32x128", true)).wgmma) << "32 weight rows are no M of 64";
  EXPECT_THROW(triton_tile(shape("swap_ab", "24x128x128", true)), BadInput);
  EXPECT_THROW(triton_tile(shape("swap_ab", "128x256x256/s4", true)), BadInput);
}

// The accumulator fragment of the PTX ISA: a thread of a warpgroup holds two rows of each 64 and a quarter of
// the columns, of a 16x8 tile two and two. Catches rows and columns exchanged, which is what swapping
// changes, and scales of a tensor-wise scheme.
TEST(TritonTile, AThreadReadsTheScalesOfItsOwnSums) {
  EXPECT_EQ(triton_tile(shape("normal_wgmma", "64x128x128/s3/w4", true)).scale_loads, 2 + 32);
  EXPECT_EQ(triton_tile(shape("swap_ab", "16x128x128/s3/w4", true)).scale_loads, 4 + 4);
  EXPECT_EQ(triton_tile(shape("normal_wgmma", "128x128x128/s3/w8", true)).scale_loads, 2 + 32);
  EXPECT_EQ(triton_tile(shape("normal_mma", "16x128x128/s3/w4", true)).scale_loads, 2 + 8);
  EXPECT_EQ(triton_tile(shape("normal_wgmma", "64x128x128/s3/w4", false)).scale_loads, 0);
  EXPECT_GT(triton_tile(shape("normal_wgmma", "128x256x128/s3/w8", true)).spilled, 100);
}

// Weights that the block before has just read are not read from HBM again where both blocks run at once.
// Catches a grid of one wave whose later blocks each pay for the panel.
TEST(TritonTile, NeighboursShareTheirWeights) {
  GemmShape gemm = shape("normal_wgmma", "64x128x128/s3/w4", false);
  gemm.n = 4096, gemm.k = 14336;  // 59 MB an expert: more than L2 keeps
  const Hardware h200 = load_hardware("h200");
  const double one = schedule_triton_gemm(h200, gemm, ExpertLoad{{64}}, 64).traffic.hbm_read;
  EXPECT_EQ(schedule_triton_gemm(h200, gemm, ExpertLoad{{256}}, 256).traffic.hbm_read, one);
  gemm.n = 131072;  // 1,024 panels: the next block starts when this one has ended
  EXPECT_GT(schedule_triton_gemm(h200, gemm, ExpertLoad{{256}}, 256).traffic.hbm_read,
            2 * schedule_triton_gemm(h200, gemm, ExpertLoad{{64}}, 64).traffic.hbm_read);
}

// All multiply-adds of a tile are issued, whichever way its warps share it: catches a warp grid that computes
// a part twice or not at all.
RC_GTEST_PROP(TritonTile, TheInstructionsCoverTheTile, ()) {
  GemmShape gemm = shape(*rc::gen::element("normal_mma", "normal_wgmma", "swap_ab"), "16x128x128",
                         *rc::gen::arbitrary<bool>());
  gemm.tile.block_m = 16 << *rc::gen::inRange(0, 4);
  gemm.tile.block_n = 64 << *rc::gen::inRange(0, 2);
  gemm.tile.warps = 4 << *rc::gen::inRange(0, 2);
  gemm.tile.stages = 2;
  ExpertLoad load;
  load.rows = *rc::gen::container<std::vector<std::int64_t>>(4, rc::gen::inRange<std::int64_t>(0, 200));
  const Counts counts = triton_counts(gemm, load, load.total());
  const std::int64_t tile = std::int64_t(gemm.tile.block_m) * gemm.tile.block_n * gemm.tile.block_k;
  RC_ASSERT(counts.macs() == counts.tiles * gemm.kblocks() * tile);
  RC_ASSERT(counts.ctas >= counts.tiles);
}

}  // namespace
}  // namespace moe::sim
