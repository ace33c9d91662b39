// Does each CTA of a kernel work on the tiles that sim says, in that order, and is every output written once,
// by the CTA that sim says? sim's list, written from the contract, beside the emulated SM's trace of boxes
// and stores.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "device/kernels/emulated_variants.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "sim/tiles.hpp"
#include "tests/agreement/shape_of_variant.hpp"
#include "tests/device/gemm_problem.hpp"

namespace moe {
namespace {

using device::emulator::BoxLoad;
using device::emulator::CtaTrace;
using device::test::draw;

/// One launch of one variant: the problem in host memory, sim's picture of it, what the emulator noted.
struct Launched {
  device::test::Gemm gemm;
  sim::GemmShape shape;
  ExpertLoad load;
  device::test::Outcome outcome;
  std::vector<CtaTrace> traces;

  std::int64_t grid() const { return std::int64_t(traces.size()); }
  /// First sorted row of a tile.
  std::int64_t row_of(const sim::Tile& tile) const {
    return gemm.row_start[std::size_t(tile.expert)] + tile.block * shape.tile.block_m;
  }
};

/// Dead experts, tails of rows, columns and k, strides and row maps that leave rows out, idle CTAs.
Launched launch_random(int variant, std::uint64_t seed) {
  const device::GemmConfig config = device::kVariants[variant].gemm;
  device::test::Random random(seed);
  std::vector<int> rows(std::size_t(draw(random, 1, 5)));
  for (int& r : rows) r = draw(random, 0, 2) == 0 ? 0 : draw(random, 0, 2 * config.block_m + 1);
  rows.back() += rows.back() == 0;
  const bool block = config.block_scales();
  const int n = block ? 128 * draw(random, 1, 3) : draw(random, 1, 300),
            k = block ? 128 * draw(random, 1, 3) : 16 * draw(random, 1, 20);
  Launched l;
  l.gemm = device::test::make_gemm(random, config.scales, rows, n, k, device::test::kExact);
  device::test::add_extras(random, l.gemm);
  l.shape = test::shape_of(config, n, k);
  l.load.rows.assign(rows.begin(), rows.end());
  const int grid = draw(random, 1, 7);
  auto options = device::emulator::Options::adversarial(seed, reference::mma_step());
  options.trace = true;
  device::EmulatedMachine machine(device::emulated_variants(), options, grid);
  l.outcome = device::test::run(machine, variant, l.gemm, grid);
  l.traces = machine.last_trace();
  return l;
}

/// What a CTA must load, in order: each k-block of each of its tiles.
struct Boxes {
  std::vector<BoxLoad> weights, tokens;
  bool operator==(const Boxes&) const = default;
};

Boxes due_boxes(const Launched& l, std::int64_t cta, std::int64_t grid) {
  Boxes due;
  for (const sim::Tile& tile : sim::tiles_of_cta(l.shape, l.load, cta, grid))
    for (std::int64_t kb = 0; kb < l.shape.kblocks(); ++kb) {
      const int x = int(kb * l.shape.tile.block_k);
      const std::int64_t weight_row = tile.expert * l.shape.n + tile.panel * l.shape.tile.block_n;
      due.weights.push_back({l.outcome.weights, x, int(weight_row)});
      due.tokens.push_back({l.outcome.tokens, x, int(l.row_of(tile))});
    }
  return due;
}

Boxes boxes_of(const Launched& l, std::int64_t cta) {
  Boxes seen;
  for (const BoxLoad& box : l.traces[std::size_t(cta)].boxes)
    (box.base == l.outcome.weights ? seen.weights : seen.tokens).push_back(box);
  return seen;
}

/// For every element of `out`, which CTAs stored it.
std::vector<std::vector<int>> writers(const Launched& l) {
  std::vector<std::vector<int>> by_element(l.outcome.out.size());
  for (std::size_t cta = 0; cta < l.traces.size(); ++cta)
    for (const auto& store : l.traces[cta].stores)
      for (std::uint32_t byte = 0; byte < store.bytes; byte += 2)
        by_element.at((store.address + byte - l.outcome.out_at) / 2).push_back(int(cta));
  return by_element;
}

/// For every element of `out`, which CTA must store it; empty = nobody.
std::vector<std::vector<int>> due_writers(const Launched& l) {
  std::vector<std::vector<int>> by_element(l.outcome.out.size());
  for (std::int64_t cta = 0; cta < l.grid(); ++cta)
    for (const sim::Tile& tile : sim::tiles_of_cta(l.shape, l.load, cta, l.grid()))
      for (std::int64_t row = l.row_of(tile); row < l.row_of(tile) + tile.rows; ++row) {
        const std::int64_t to = l.gemm.out_row.empty() ? row : l.gemm.out_row[std::size_t(row)];
        for (std::int64_t c = 0; c < tile.columns && to >= 0; ++c)
          by_element.at(std::size_t(to * l.gemm.ld_out + tile.panel * l.shape.tile.block_n + c))
              .push_back(int(cta));
      }
  return by_element;
}

// Catches what no result and no count shows: tiles in another order (block before panel, experts descending),
// a CTA that takes another's tiles, a k-block loaded twice while another is left out; an element written
// twice (the right value both times), by a CTA that has no business there, or never.
RC_GTEST_PROP(TileSequence, OfEachCtaIsSimsAndWritesEachOutputOnce, ()) {
  const int variant = *rc::gen::elementOf(test::gemm_variants());
  const Launched l = launch_random(variant, *rc::gen::inRange<std::uint64_t>(1, 1'000'000));
  for (std::int64_t cta = 0; cta < l.grid(); ++cta)
    RC_ASSERT(boxes_of(l, cta) == due_boxes(l, cta, l.grid()));
  RC_ASSERT(writers(l) == due_writers(l));
}

// The trace must be able to tell orders apart: under another grid the list of CTA 0 is another one.
TEST(TileSequence, AnotherGridIsAnotherSequence) {
  const auto found = device::find_gemm_variant(Layout::swap_ab, 8, 128, device::ScaleKind::block);
  ASSERT_TRUE(found.has_value());
  for (std::uint64_t seed = 1;; ++seed) {
    const Launched l = launch_random(*found, seed);
    if (sim::tile_count(l.shape, l.load) <= l.grid()) continue;
    EXPECT_FALSE(boxes_of(l, 0) == due_boxes(l, 0, l.grid() + 1));
    return;
  }
}

}  // namespace
}  // namespace moe
