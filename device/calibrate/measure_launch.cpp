// Launches, graphs, dependent launches, small kernels, and what surrounds the main loop of each family.
#include <vector>

#include "device/calibrate/calibration_bench.hpp"
#include "device/kernels/variants.hpp"

namespace moe::device {
namespace {

constexpr std::size_t kLarge = 204800;  // shared memory of a kernel that has the SM to itself

/// Seconds from node to node less the body's own time: two bodies, whose difference gives the clock.
double node_overhead(CalibrationBench& bench, bool dependent, std::size_t shared, int grid) {
  CalibrateLaunch launch{CalibrateKernel::spin, {unsigned(grid), 128, shared, dependent}, bench.params()};
  launch.params.cycles = 8'000;
  constexpr int kNodes = 300;  // what is sought is the small difference of large times
  const double brief = bench.seconds_a_node(launch, kNodes);
  launch.params.cycles = 20'000;
  const double longer = bench.seconds_a_node(launch, kNodes);
  return brief - (longer - brief) * 8 / 12;
}

void launches(CalibrationBench& bench, MeasuredRows& rows) {
  const CalibrateLaunch nothing{CalibrateKernel::empty, {unsigned(bench.sms()), 128}, bench.params()};
  constexpr int kCalls = 250, kRuns = 60;
  rows.add("empty", {{"stream", 1}},
           bench.least_seconds(
               [&] {
                 for (int i = 0; i < kCalls; ++i) bench.launch(nothing);
               },
               kRuns) /
               kCalls,
           "s");
  for (const bool dependent : {false, true})
    for (const std::size_t shared : {std::size_t(0), kLarge}) {
      const MeasuredRows::Parameters at = {{"dependent", double(dependent)},
                                           {"shared_bytes", double(shared)}};
      rows.add("spin", at, node_overhead(bench, dependent, shared, bench.sms()), "s");
      CalibrateLaunch floor = nothing;
      floor.config.dependent = dependent;
      floor.config.shared_bytes = shared;
      rows.add("empty", at, bench.seconds_a_node(floor), "s");
    }
  CalibrateLaunch node{CalibrateKernel::spin, {unsigned(bench.sms()), 128}, bench.params()};
  node.params.cycles = 4'000;  // 2 us: a layer's small kernel
  for (const int nodes : {1, 5, 10, 50})
    rows.add("spin", {{"replay", 1}, {"nodes", double(nodes)}}, bench.seconds_a_replay(node, nodes), "s");
  for (const std::size_t shared : {std::size_t(0), std::size_t(100'000), kLarge}) {
    CalibrateLaunch turnover = nothing;
    turnover.config.shared_bytes = shared;
    const auto waves = [&](unsigned count) {
      turnover.config.grid = unsigned(bench.sms()) * count;
      return bench.seconds_a_node(turnover, 50);
    };
    const double few = waves(32), many = waves(128);
    rows.add("empty", {{"turnover", 1}, {"shared_bytes", double(shared)}}, (many - few) / 96, "s");
  }
  CalibrateLaunch barrier{
      CalibrateKernel::grid_barrier, {unsigned(bench.sms()), 256, 0, false, true}, bench.params()};
  barrier.params.iterations = 1000;
  rows.add("grid_barrier", {}, bench.slowest(barrier, 1) / 1000 * 1e-9, "s");
}

void small_kernels(CalibrationBench& bench, MeasuredRows& rows) {
  for (const bool dependent : {true, false})
    for (const int grid : {1, 16, bench.sms()})
      for (const int steps : {1, 2, 3}) {  // a row; an index and a row; and a maximum over the CTA
        CalibrateLaunch launch{
            CalibrateKernel::small_kernel, {unsigned(grid), 256, 128, dependent}, bench.params()};
        launch.params.loads = steps > 1;
        launch.params.share = steps > 2;
        rows.add("small_kernel",
                 {{"dependent", double(dependent)}, {"ctas", double(grid)}, {"steps", double(steps)}},
                 bench.seconds_a_node(launch), "s");
      }
}

/// Lists of a launch: expert 0 of 256 has a block of rows, the others none; a panel of weights a CTA.
class StructureLists {
 public:
  explicit StructureLists(CalibrationBench& bench) : bench_(bench) {}
  static constexpr int kExperts = 256, kRows = 128;
  static_assert((4 * kExperts + 1) * 4 <= CalibrationBench::kListBytes);

  /// A launch of a tile a CTA, or of none, with one k-block.
  CalibrateLaunch launch(CalibrateKernel kernel, int grid, bool tile) const {
    const Variant& v = kVariants[kCalibrateKernels[std::size_t(kernel)].variant];
    std::vector<std::int32_t> lists(3 * kExperts + 1 + kExperts, 0);
    if (tile) {
      lists[kExperts] = v.gemm.block_m;                                              // rows
      for (int e = 1; e <= kExperts; ++e) lists[std::size_t(2 * kExperts + e)] = 1;  // block_start
    }
    bench_.machine().upload(bench_.lists(), lists.data(), lists.size() * 4);
    CalibrateLaunch launch{
        kernel, {unsigned(grid), unsigned(v.threads), std::size_t(v.shared_bytes), true}, bench_.params()};
    GroupedGemmParams& g = launch.params.gemm;
    g.tokens = bench_.machine().tensor_map(bench_.data(), kRows, 128, 128, unsigned(v.gemm.block_m));
    g.weights = bench_.machine().tensor_map(bench_.data(), std::uint64_t(128 * grid), 128, 128, 128);
    const auto* list = reinterpret_cast<const std::int32_t*>(bench_.lists());
    g.row_start = list;
    g.rows = list + kExperts;
    g.block_start = list + 2 * kExperts;
    g.a_scale = g.w_scale = reinterpret_cast<const float*>(bench_.data());
    g.out = reinterpret_cast<std::uint16_t*>(bench_.target());
    g.n = 128 * grid;
    g.ld_out = g.n;
    g.k = 128;
    g.experts = kExperts;
    g.a_scale_ld = kRows;
    return launch;
  }

 private:
  CalibrationBench& bench_;
};

void structure_of(CalibrationBench& bench, MeasuredRows& rows, const StructureLists& lists,
                  CalibrateKernel kernel) {
  constexpr int kEpilogues = 200;
  const CalibrateEntry& entry = kCalibrateKernels[std::size_t(kernel)];
  const GemmConfig& c = kVariants[entry.variant].gemm;
  const double outputs = double(c.block_m) * c.block_n / (32.0 * c.math_warps());
  for (const int grid : {1, 16, bench.sms()})
    for (const bool tile : {false, true})
      rows.add(entry.name, {{"ctas", double(grid)}, {"tiles", double(tile ? grid : 0)}},
               bench.seconds_a_node(lists.launch(kernel, grid, tile)), "s");
  for (const int grid : {1, bench.sms()}) {
    CalibrateLaunch many = lists.launch(kernel, grid, true);
    many.params.iterations = kEpilogues;
    rows.add(entry.name, {{"ctas", double(grid)}, {"outputs", outputs}}, bench.mean(many, 0) / kEpilogues,
             "cycles");
  }
}

}  // namespace

void measure_launch(CalibrationBench& bench, MeasuredRows& rows) {
  launches(bench, rows);
  small_kernels(bench, rows);
}

void measure_structure(CalibrationBench& bench, MeasuredRows& rows) {
  const StructureLists lists(bench);
  for (int k = int(CalibrateKernel::structure_swap_ab_8); k <= int(CalibrateKernel::structure_mma_32); ++k)
    structure_of(bench, rows, lists, CalibrateKernel(k));
}

}  // namespace moe::device
