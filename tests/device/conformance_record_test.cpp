// Does the emulated SM give the bytes that a card gave? The conformance cases against
// fixtures/golden/conformance_h200.txt.
#include <gtest/gtest.h>

#include <fstream>

#include "device/emulator/emulated_machine.hpp"
#include "device/hopper/conformance/conformance_kernels.hpp"
#include "tests/device/conformance_cases.hpp"
#include "tests/device/emulator_fixture.hpp"

namespace moe::test {
namespace {

std::vector<std::string> recorded() {
  std::ifstream in(MOE_SOURCE_DIR "/fixtures/golden/conformance_h200.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Catches: an emulator body that does something else than the instruction: fragments, swizzle, zero fill,
// conversions of every kind of number (NaN, infinity, subnormals, ties), exchanges, reductions.
TEST(ConformanceRecord, EmulatedBytesAreThoseOfTheCard) {
  std::vector<device::EmulatedKernel> kernels;
  for (int i = 0; i < conformance::kKernelCount; ++i)
    kernels.push_back(
        {conformance::emulated_kernels()[i], sizeof(conformance::Params), conformance::kKernels[i].name});
  const std::vector<std::string> want = recorded();
  ASSERT_GE(want.size(), 100u);
  for (int seed = -1; seed < 3; ++seed) {
    device::emulator::Options o;
    if (seed >= 0) o = device::emulator::Options::adversarial(std::uint64_t(seed), integer_arithmetic());
    o.arithmetic = integer_arithmetic();
    device::EmulatedMachine machine(kernels, o, 1);
    EXPECT_EQ(ConformanceRun(machine).lines(), want) << "seed " << seed;
    EXPECT_TRUE(machine.take_reports().empty());
  }
}

}  // namespace
}  // namespace moe::test
