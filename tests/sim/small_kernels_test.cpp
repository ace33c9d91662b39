// What bounds a kernel beside the GEMMs: its bytes, the start of its CTAs, or reads that wait for each other?
#include <gtest/gtest.h>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/case.hpp"
#include "sim/layer.hpp"

namespace moe::sim {
namespace {

Elementwise kernel_named(const char* name, std::int64_t tokens) {
  const Problem p = parse_case("op=moe_layer tokens=" + std::to_string(tokens) +
                               " hidden=7168 inter=2048 experts=256 top_k=8 tp=8 load=uniform quant=block128 "
                               "seed=1 kernel=moeproof layout=swap_ab tile=auto")
                        .problem;
  auto kernels = kernels_before(p, p.shape.pairs());
  for (const auto& more : {kernels_between(p, p.shape.pairs()), kernels_behind(p, p.shape.pairs())})
    kernels.insert(kernels.end(), more.begin(), more.end());
  for (const Elementwise& kernel : kernels)
    if (kernel.name == std::string(name)) return kernel;
  return {};
}

// Fault: a scan whose steps are lost, or shared out by another rule than the kernel's: one warp up to 2048
// ids, eight above, 128 ids a step, the ids gone through twice.
TEST(SmallKernels, TheScanOfIdsWaitsForEachStep) {
  const Hardware hw = load_hardware("h200");
  EXPECT_EQ(kernel_named("place_rows", 256).steps, 2 * 16);
  EXPECT_EQ(kernel_named("count_rows", 256).steps, 16);
  EXPECT_EQ(kernel_named("place_rows", 1024).steps, 2 * 8);
  EXPECT_EQ(kernel_named("place_rows", 16).steps, 0);
  EXPECT_DOUBLE_EQ(elementwise_seconds(hw, kernel_named("place_rows", 256)),
                   hw.small_kernel_s + 32 * hw.l2_latency_s);
}

// Fault: CTAs that start for nothing, or a kernel that is bound by bytes and pays for both.
TEST(SmallKernels, ManySmallCtasStartOneAfterAnother) {
  const Hardware hw = load_hardware("h200");
  const Elementwise many = kernel_named("act_quant", 4096);
  EXPECT_EQ(many.ctas, 4096 * 8);
  EXPECT_DOUBLE_EQ(elementwise_seconds(hw, many), hw.small_kernel_s + many.ctas / hw.sms * hw.cta_turnover_s);
  Elementwise wide = many;
  wide.read *= 100;
  EXPECT_DOUBLE_EQ(elementwise_seconds(hw, wide),
                   hw.small_kernel_s + (wide.read + wide.written) / hw.copy_bytes_per_s);
  EXPECT_EQ(kernel_named("quantize", 4096).ctas, 4096 * 7);
}

}  // namespace
}  // namespace moe::sim
