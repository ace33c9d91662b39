// emulator_speed [THREADS [KERNEL]]: how many products a second the emulated SM executes, padding included,
// for tiles of 16 tokens and K = 7168 in the three layouts: one line a layout and way of running, by the
// clock and per second of processor time (which a busy machine does not change).
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "device/emulator/emulated_machine.hpp"
#include "device/kernels/emulated_variants.hpp"
#include "device/session/kernel_catalog.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/device/gemm_problem.hpp"

namespace moe::device {
namespace {

double processor_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return double(use.ru_utime.tv_sec) + 1e-6 * double(use.ru_utime.tv_usec);
}

struct Way {
  const char* name;
  emulator::Options options;
};

void measure(int variant, const test::Gemm& g, const Way& way, int threads) {
  emulator::Options options = way.options;
  options.arithmetic = reference::mma_step();
  options.threads = threads;
  EmulatedMachine machine(emulated_variants(), options, threads);
  double best_wall = 1e9, best_processor = 1e9;
  std::int64_t products = 0;
  for (int run = 0; run < 5; ++run) {
    const double before = processor_seconds();
    const auto start = std::chrono::steady_clock::now();
    const test::Outcome outcome = test::run(machine, variant, g, threads);
    best_wall =
        std::min(best_wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    best_processor = std::min(best_processor, processor_seconds() - before);
    products = outcome.counts.macs();
    for (const std::string& report : outcome.reports) std::printf("%s\n", report.c_str());
  }
  std::printf("%-24s %-22s %2d thread(s)  %6.2f G products/s  %6.2f per processor second\n",
              kVariants[variant].name, way.name, threads, double(products) / best_wall * 1e-9,
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
  for (const std::string_view name :
       {"swap_ab_m16_block", "normal_wgmma_m64_block", "normal_mma_m16_block"}) {
    if (argc > 2 && name != argv[2]) continue;
    test::Random random(1);
    const int variant = variant_named(name);
    const test::Gemm g =
        test::make_gemm(random, moe::device::ScaleKind::block, {16}, 128 * 4 * threads, 7168, test::kExact);
    for (const Way& way : {plain, unchecked, seeded}) measure(variant, g, way, threads);
  }
}
