// The built-in kernels on the emulated SM, judged on random cases of every op: would catch a kernel, a
// reference or an input generator that disagrees with the others on a shape, scheme, activation, router or
// contract.
#include <gtest/gtest.h>

#include "fixtures/files/hardware_file.hpp"
#include "harness/executors.hpp"
#include "harness/propose.hpp"
#include "harness/run_problem.hpp"

namespace moe::harness {
namespace {

#if MOE_HAVE_EMULATOR

class EmulatedTrials : public testing::TestWithParam<ProposalFrame> {};

TEST_P(EmulatedTrials, EveryVerdictIsPassed) {
  const auto chosen = choose_executor({"emulated", 2, 7, 3});
  ASSERT_NE(chosen.executor, nullptr) << chosen.why_not;
  const Hardware hardware = load_hardware("h200");
  RunPlan plan;
  plan.executor = chosen.executor.get();
  plan.hardware = &hardware;
  plan.repeats = 2;
  int passed = 0;
  for (int trial = 0; trial < 25; ++trial) {
    const Case c = propose_case(GetParam(), 11, trial);
    const CaseRecord r = run_problem(c.problem, {c.choice}, plan).front();
    EXPECT_TRUE(r.verdict->correctness == Correctness::passed ||
                r.verdict->correctness == Correctness::mistrusted)
        << r.verdict->reason << "\n"
        << r.verdict->replay;
    passed += r.verdict->correctness == Correctness::passed;
  }
  EXPECT_GE(passed, 23);
}

ProposalFrame frame(Op op, Contract contract = Contract::contiguous, int gemm = 1) {
  ProposalFrame f;
  f.op_given = true;
  f.op = op;
  f.contract = contract;
  f.gemm = gemm;
  return f;
}

INSTANTIATE_TEST_SUITE_P(Ops, EmulatedTrials,
                         testing::Values(frame(Op::moe_layer), frame(Op::topk), frame(Op::align),
                                         frame(Op::quantize), frame(Op::act_quant), frame(Op::combine),
                                         frame(Op::grouped_gemm), frame(Op::grouped_gemm, Contract::routed),
                                         frame(Op::grouped_gemm, Contract::masked, 2),
                                         frame(Op::grouped_gemm, Contract::offsets)),
                         [](const auto& info) {
                           return std::string(name(info.param.op)) + "_" +
                                  std::string(name(info.param.contract));
                         });

#endif

}  // namespace
}  // namespace moe::harness
