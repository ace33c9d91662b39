// Is each rule of wgmma, barriers, mbarriers and threads told by name and line, in the plain order, and no
// kernel accused that keeps it?
#include "tests/device/kernels/rule_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/device/emulator_fixture.hpp"

namespace moe::test {

static void PrintTo(const RuleKernel& k, std::ostream* out) { *out << k.name; }

namespace {

using device::emulator::Emulator;
using device::emulator::LaunchResult;
using device::emulator::Options;

struct Problem {
  device::emulator::GlobalMemory memory;
  RuleParams params{};
  Problem() {
    constexpr int kColumns = 512;
    const void* a = memory.allocate(64 * kColumns, "a", true);
    const void* b = memory.allocate(16 * kColumns, "b", true);
    params.a = tensor_map(a, 64, kColumns, kColumns, 64);
    params.b = tensor_map(b, 16, kColumns, kColumns, 16);
    params.in = static_cast<const float*>(memory.allocate(4096, "in", true));
    params.out = static_cast<float*>(memory.allocate(4096, "out"));
  }
  LaunchResult run(const RuleKernel& k, Options options) {
    options.arithmetic = integer_arithmetic();
    Emulator emulator(memory);
    return emulator.launch({k.run, &params, sizeof params, 1, k.block, std::size_t(kRuleShared), k.name},
                           options);
  }
};

/// The source line that a report names.
std::string line_of(const std::string& where) {
  const std::size_t colon = where.rfind(':');
  std::ifstream file(MOE_SOURCE_DIR "/" + where.substr(0, colon));
  std::string line;
  for (int n = std::atoi(where.c_str() + colon + 1); n > 0 && std::getline(file, line); --n) {
  }
  return line;
}

std::vector<RuleKernel> kernels(bool right) {
  std::vector<RuleKernel> some;
  for (const auto all : {wgmma_rules(), barrier_rules(), thread_rules()})
    std::copy_if(all.begin(), all.end(), std::back_inserter(some),
                 [&](const RuleKernel& k) { return (k.check == nullptr) == right; });
  return some;
}

class WrongKernel : public testing::TestWithParam<RuleKernel> {};

// Would catch: a rule that is not enforced, enforced only under luck, or told of another line than the one
// that breaks it. Ends at all: a spinning thread must not hold the plain order up for ever.
TEST_P(WrongKernel, IsFoundInThePlainOrderByItsLine) {
  Problem problem;
  const LaunchResult result = problem.run(GetParam(), Options());
  const auto found = std::find_if(result.reports.begin(), result.reports.end(), [](const auto& r) {
    return r.check == GetParam().check &&
           (!GetParam().has_line || line_of(r.where).find("// here") != std::string::npos);
  });
  EXPECT_NE(found, result.reports.end()) << all_sentences(result);
}

// Would catch: a checker that ends the process over a wrong kernel, in whatever order.
TEST_P(WrongKernel, IsSurvivedInEveryOrder) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Problem problem;
    Options options = Options::adversarial(seed, integer_arithmetic());
    options.max_switches = 100'000;
    const LaunchResult result = problem.run(GetParam(), options);
    EXPECT_LE(result.reports.size(), std::size_t(options.max_reports));
  }
}

class RightKernel : public testing::TestWithParam<RuleKernel> {};

// Would catch: a false alarm, in the plain order or in one that a seed chooses.
TEST_P(RightKernel, IsCleanInEveryOrder) {
  for (int seed = -1; seed < 20; ++seed) {
    Problem problem;
    const LaunchResult result = problem.run(
        GetParam(), seed < 0 ? Options() : Options::adversarial(std::uint64_t(seed), integer_arithmetic()));
    ASSERT_TRUE(result.clean()) << "seed " << seed << "\n" << all_sentences(result);
  }
}

std::string name_of(const testing::TestParamInfo<RuleKernel>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Rules, WrongKernel, testing::ValuesIn(kernels(false)), name_of);
INSTANTIATE_TEST_SUITE_P(Rules, RightKernel, testing::ValuesIn(kernels(true)), name_of);

}  // namespace
}  // namespace moe::test
