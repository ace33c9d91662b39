// Is a fault that stays inside the bounds of every wide sum, at the case's own size alone, found by the
// case's twin with exact data? And is a right kernel of any rounding left in peace there?
#include <gtest/gtest.h>

#include "fixtures/files/hardware_file.hpp"
#include "harness/infer/finder.hpp"
#include "harness/reporters.hpp"
#include "harness/run_problem.hpp"
#include "harness/worker_protocol.hpp"
#include "tests/harness/strange_sums.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kTokens = 72;  // rows that no probe has

Case gemm_case(Contract contract, QuantScheme quant = {}) {
  Case c;
  c.problem.op = Op::grouped_gemm;
  c.problem.contract = contract;
  c.problem.shape = {.tokens = kTokens, .hidden = 512, .intermediate = 128, .experts = 4, .top_k = 2};
  c.problem.quant = quant;
  c.choice.tile = c.choice.tile_down = parse_tile("16x128x128");
  return c;
}

CaseRecord check(LayerFunction compute, const Case& c) {
  static const Hardware hardware = load_hardware("h200");
  RoundingExecutor executor(std::move(compute));
  SemanticsFinder finder(executor, 2);
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  plan.finder = &finder;
  plan.threads = 2;
  return run_problem(c.problem, {c.choice}, plan)[0];
}

/// `few` for small problems, `many` for those above 64 tokens.
LayerFunction by_tokens(LayerFunction few, LayerFunction many) {
  return [=](const Problem& p, const TensorSet& in) { return (p.shape.tokens > 64 ? many : few)(p, in); };
}

LayerFunction scaled(LayerFunction kernel, float factor) {
  return [=](const Problem& p, const TensorSet& in) {
    TensorSet out = kernel(p, in);
    for (std::uint16_t& y : out.at("c").as<std::uint16_t>()) y = encode_bf16(decode_bf16(y) * factor);
    return out;
  };
}

// Catches: a kernel whose rounding nobody knows and that is half a per cent too large, or cuts its results,
// from 64 rows on: far inside the bounds, and in no probe.
TEST(ExactTwin, SmallFaultsOfTheCasesOwnSizeFail) {
  const LayerFunction right = sums_by(fp32_chain), cuts = sums_by(fp32_chain, true);
  const QuantScheme block, tensor{QuantKind::tensor_static};
  const std::pair<LayerFunction, Case> kernels[] = {
      {scaled(right, 1.005f), gemm_case(Contract::masked, tensor)},
      {cuts, gemm_case(Contract::contiguous, block)}};
  for (const auto& [many, c] : kernels) {
    const CaseRecord r = check(by_tokens(right, many), c);
    EXPECT_EQ(r.verdict->correctness, Correctness::failed) << r.verdict->reason;
    EXPECT_EQ(r.verdict->reason.find("within bounds on its own data, wrong in the same case with exact data"),
              0u)
        << r.verdict->reason;
    EXPECT_NE(r.verdict->replay.find(to_line(r.trial)), std::string::npos) << r.verdict->replay;
    EXPECT_EQ(r.trial.problem.data, DataMode::normal);
  }
}

/// One block's part of a sum, products from both ends, and the parts added in pairs.
float in_pairs(const std::uint8_t* a, const std::uint8_t* w, const std::vector<float>& scales) {
  std::vector<float> parts;
  for (std::size_t b = 0; b < scales.size(); ++b) {
    float part = 0;
    for (std::size_t i = 0; i < 64; ++i)
      part += decode_e4m3(a[b * 128 + i]) * decode_e4m3(w[b * 128 + i]) +
              decode_e4m3(a[b * 128 + 127 - i]) * decode_e4m3(w[b * 128 + 127 - i]);
    parts.push_back(part * scales[b]);
  }
  while (parts.size() > 1) {
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) parts[i / 2] = parts[i] + parts[i + 1];
    if (parts.size() % 2 == 1) parts[parts.size() / 2] = parts.back();
    parts.resize((parts.size() + 1) / 2);
  }
  return parts[0];
}

/// No promotion at all: one fma chain of scaled products.
float one_chain(const std::uint8_t* a, const std::uint8_t* w, const std::vector<float>& scales) {
  float acc = 0;
  for (std::size_t i = 0; i < 128 * scales.size(); ++i)
    acc = __builtin_fmaf(decode_e4m3(a[i]) * scales[i / 128], decode_e4m3(w[i]), acc);
  return acc;
}

float in_double(const std::uint8_t* a, const std::uint8_t* w, const std::vector<float>& scales) {
  double acc = 0;
  for (std::size_t i = 0; i < 128 * scales.size(); ++i)
    acc += double(decode_e4m3(a[i])) * double(decode_e4m3(w[i])) * double(scales[i / 128]);
  return float(acc);
}

// Catches: a right kernel of another order, with or without promotion and fma, failed by its twin.
TEST(ExactTwin, RightKernelsOfAnyOrderPass) {
  int turn = 0;
  for (SumOfBlocks many : {fp32_chain, last_block_first, in_pairs, one_chain, in_double}) {
    const Contract contract = Contract(turn++ % 4);
    const CaseRecord r = check(by_tokens(sums_by(fp32_chain), sums_by(many)), gemm_case(contract));
    EXPECT_EQ(r.verdict->correctness, Correctness::passed) << r.verdict->reason;
    EXPECT_EQ(verdict_word(*r.verdict), "passed (bounds)");
    EXPECT_NE(r.verdict->reason.find(
                  "its sums on exact data of this size, whose scales are powers of two: to the bit"),
              std::string::npos)
        << r.verdict->reason;
  }
}

// Catches: a pass by bounds that does not say how bits would judge it, and a pass by bits that does.
TEST(ExactTwin, APassByBoundsNamesTheDataThatJudgeToTheBit) {
  Report report;
  report.cases = {check(sums_by(fp32_chain), gemm_case(Contract::masked))};
  EXPECT_NE(notes_text(report).find("--data exact,coded"), std::string::npos) << notes_text(report);
  Case c = gemm_case(Contract::masked);
  c.problem.data = DataMode::exact;
  report.cases = {check(sums_by(fp32_chain), c)};
  EXPECT_EQ(verdict_word(*report.cases[0].verdict), "passed");
  EXPECT_EQ(notes_text(report).find("--data"), std::string::npos) << notes_text(report);
}

// Catches: a kernel that refuses numbers it may refuse, or the twin's whole case, failed for it; and a pass
// that says nothing of it.
TEST(ExactTwin, ARefusalOfTheTwinIsNoFault) {
  const LayerFunction picky = [](const Problem& p, const TensorSet& in) {
    if (p.data == DataMode::exact) throw WorkerRefused("no such numbers");
    return sums_by(fp32_chain)(p, in);
  };
  const CaseRecord r = check(picky, gemm_case(Contract::masked));
  EXPECT_EQ(r.verdict->correctness, Correctness::passed) << r.verdict->reason;
  EXPECT_NE(r.verdict->reason.find("(no run on exact data: the kernel refuses it: no such numbers)"),
            std::string::npos)
      << r.verdict->reason;
}

}  // namespace
}  // namespace moe::harness
