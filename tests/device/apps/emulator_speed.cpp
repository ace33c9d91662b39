// emulator_speed [THREADS [KERNEL]]: how many products a second the emulated SM executes, padding included,
// for tiles of 16 tokens and K = 7168: one tile of 64 weight rows a thread, and the three layouts with their
// own tiles. One line a kernel and way of running, by the clock and per second of processor time (which a
// busy machine does not change); best of some runs.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "device/emulator/emulated_machine.hpp"
#include "device/kernels/emulated_variants.hpp"
#include "device/session/kernel_catalog.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/device/gemm_problem.hpp"
#include "tests/device/kernels/narrow_tile.hpp"

namespace moe::device {
namespace {

/// Of all threads, the kernel's share included.
double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct Way {
  const char* name;
  emulator::Options options;
};

/// All variants, and behind them the tile of 64 x 16.
std::vector<EmulatedKernel> kernels() {
  std::vector<EmulatedKernel> all(emulated_variants().begin(), emulated_variants().end());
  all.push_back({moe::test::run_narrow_tile, sizeof(GroupedGemmParams), "tile_64x16x7168"});
  return all;
}

struct Subject {
  int variant;
  GemmConfig config;
  int tiles;  // of a thread
};

void measure(const Subject& s, const test::Gemm& g, const Way& way, int threads) {
  constexpr int kRuns = 12;
  emulator::Options options = way.options;
  options.arithmetic = reference::mma_step();
  options.threads = threads;
  const std::vector<EmulatedKernel> all = kernels();
  EmulatedMachine machine(all, options, threads);
  double best_wall = 1e9, best_processor = 1e9;
  std::int64_t products = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double before = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    const test::Outcome outcome = test::run(machine, s.variant, s.config, g, threads);
    best_wall =
        std::min(best_wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    best_processor = std::min(best_processor, processor_seconds() - before);
    products = outcome.counts.macs();
    for (const std::string& report : outcome.reports) std::printf("%s\n", report.c_str());
  }
  std::printf("%-24s %-22s %2d thread(s)  %6.2f G products/s  %6.2f per processor second\n",
              all[std::size_t(s.variant)].name, way.name, threads, double(products) / best_wall * 1e-9,
              double(products) / best_processor * 1e-9);
}

}  // namespace
}  // namespace moe::device

int main(int argc, char** argv) {
  using namespace moe::device;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  Way plain{"deterministic, checked", {}}, unchecked{"deterministic", {}},
      seeded{"seeded, checked", emulator::Options::adversarial(1, moe::reference::mma_step())};
  unchecked.options.check = false;
  seeded.options.wgmma_in_pieces = true;
  std::vector<Subject> subjects{{kVariantCount, moe::test::kNarrowTile, 1}};
  for (const char* name : {"swap_ab_m16_block", "normal_wgmma_m64_block", "normal_mma_m16_block"}) {
    const int variant = variant_named(name);
    subjects.push_back({variant, kVariants[variant].gemm, 4});
  }
  for (const Subject& s : subjects) {
    if (argc > 2 && kernels()[std::size_t(s.variant)].name != std::string_view(argv[2])) continue;
    test::Random random(1);
    const test::Gemm g = test::make_gemm(random, ScaleKind::block, {16}, s.config.block_n * s.tiles * threads,
                                         7168, test::kExact);
    for (const Way& way : {plain, unchecked, seeded}) measure(s, g, way, threads);
  }
}
