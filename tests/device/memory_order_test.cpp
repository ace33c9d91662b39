// Is every access judged by what is ordered before it, byte by byte, reader by reader and CTA by CTA? Wrong
// kernels are found in the plain order with the line that is wrong, right ones are clean in every order.
#include "tests/device/kernels/memory_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <string>

#include "tests/device/emulator_fixture.hpp"

namespace moe::test {

void PrintTo(const MemoryOrderKernel& k, std::ostream* out) { *out << k.name; }

namespace {

using namespace device::emulator;

constexpr const char* kSource = "tests/device/kernels/memory_order.cpp";

class MemoryOrder : public testing::TestWithParam<MemoryOrderKernel> {
 protected:
  MemoryOrder() {
    constexpr std::size_t kElements = 1024;
    auto* in = static_cast<float*>(memory_.allocate(4 * kElements, "in", true));
    params_ = {in,
               static_cast<float*>(memory_.allocate(4 * kElements, "out")),
               static_cast<float*>(memory_.allocate(4 * kElements, "middle")),
               static_cast<std::uint16_t*>(memory_.allocate(2 * kElements, "halves")),
               static_cast<std::uint8_t*>(memory_.allocate(kElements, "bytes")),
               static_cast<std::uint32_t*>(memory_.allocate(32, "counters"))};
  }
  LaunchResult run(int seed) {
    Options o = seed < 0 ? Options{} : Options::adversarial(std::uint64_t(seed), integer_arithmetic());
    o.arithmetic = integer_arithmetic();
    Emulator emulator(memory_);
    std::fill_n(params_.counters, 8, 0u);
    const MemoryOrderKernel& k = GetParam();
    bool dependent = false;
    for (auto* kernel : {k.in_front, k.behind_in_front}) {
      if (!kernel) continue;
      const LaunchResult r = emulator.launch(launch(kernel, 1, false, dependent), o);
      EXPECT_TRUE(r.clean()) << all_sentences(r);
      dependent = true;
    }
    return emulator.launch(launch(k.run, k.grid, k.cooperative, dependent), o);
  }

 private:
  Launch launch(void (*kernel)(const void*), unsigned grid, bool cooperative, bool dependent) const {
    Launch l{kernel, &params_, sizeof params_, grid, kMemoryOrderThreads, std::size_t(kMemoryOrderShared)};
    l.cooperative = cooperative;
    l.dependent = dependent;
    return l;
  }
  GlobalMemory memory_;
  MemoryOrderParams params_{};
};

/// "file:line" of the line of the kernels' source that names the kernel.
std::string marked_line(const std::string& name) {
  std::ifstream source(std::string(MOE_SOURCE_DIR) + "/" + kSource);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number)
    if (line.ends_with("// found: " + name)) return kSource + (":" + std::to_string(number));
  return "no line says found: " + name;
}

// Catches: a race of 16-bit elements that a neighbour's access hides, a bulk store that another's wait ends,
// a fence that covers another space, an order between CTAs that only the schedule made; and for the right
// kernels a false alarm of each of these checks.
TEST_P(MemoryOrder, IsJudgedInThePlainOrder) {
  const MemoryOrderKernel& k = GetParam();
  const LaunchResult r = run(-1);
  if (!k.check) {
    EXPECT_TRUE(r.clean()) << all_sentences(r);
    return;
  }
  ASSERT_FALSE(r.reports.empty());
  EXPECT_EQ(r.reports[0].check, k.check) << all_sentences(r);
  EXPECT_EQ(r.reports[0].where, marked_line(k.name)) << all_sentences(r);
}

// Catches: a false alarm that only some order of asynchronous work brings.
TEST_P(MemoryOrder, RightKernelsAreCleanInEveryOrder) {
  if (GetParam().check) return;
  for (int seed = 0; seed < 20; ++seed) {
    const LaunchResult r = run(seed);
    ASSERT_TRUE(r.clean()) << "seed " << seed << "\n" << all_sentences(r);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, MemoryOrder, testing::ValuesIn(memory_order_kernels()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moe::test
