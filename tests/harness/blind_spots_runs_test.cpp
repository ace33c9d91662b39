// Which wrong kernels pass because of what is run, not of how it is compared? Tame data, tame shapes, memory
// that holds the right answer already, eager runs only, one process for all, a repeat that repeats something
// else, and a tolerance below one unit in the last place. As in blind_spots_test.cpp the usual practice
// passes and moeproof fails; the last two show the converse, too: a right kernel that the usual practice
// fails.
#include <gtest/gtest.h>

#include <random>

#if MOE_HAVE_EMULATOR
#  include "device/emulator/emulated_machine.hpp"
#endif
#include "fixtures/problem/errors.hpp"
#include "harness/isolated_executor.hpp"
#include "harness/propose.hpp"
#include "reference/truth.hpp"
#include "tests/harness/faulty_executor.hpp"
#include "tests/harness/planted_executor.hpp"

namespace moe::harness {
namespace {

using namespace metrics;

std::vector<std::int64_t> numbers(std::int64_t count) {
  std::vector<std::int64_t> rows(std::size_t(count), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::int64_t(i);
  return rows;
}

/// `c` of a grouped GEMM under other roundings than the kernel declares.
TensorSet gemm_under(const Semantics& s, const Case& c, const TensorSet& inputs) {
  const auto rows = numbers(c.problem.shape.pairs());
  const auto truth = reference::grouped_gemm_truth(c.problem, inputs, rows, {&s, true, false, 2});
  Tensor out("c", DType::bf16, {c.problem.shape.pairs(), truth.at("c").columns});
  std::memcpy(out.data(), truth.at("c").bits.data(), out.bytes());
  TensorSet set;
  set.add(std::move(out));
  return set;
}

/// No promotion: one wgmma chain over all of K, where the kernel declares one every 128.
TensorSet unpromoted(const Case& c, const TensorSet& inputs) {
  Semantics s = semantics_preset("moeproof", {.kind = QuantKind::tensor_dynamic});
  s.promote_k = 0;
  return gemm_under(s, c, inputs);
}

// Codes of -1, 0 and 1 (the fill of CUTLASS's testbeds for 8-bit floats) are exact on an accumulator of 14
// bits: with them not even an exact comparison sees that a kernel never promotes.
TEST(BlindSpots, TameDataUnderAnExactComparison) {
  const std::string line =
      "op=grouped_gemm contract=offsets tokens=24 hidden=7168 inter=64 experts=2 top_k=1 quant=token_channel "
      "layout=swap_ab tile=16x128x128";
  const PlantedKernel kernel = [](const Case& c, const TensorSet& in, device::RunMode, int) {
    return unpromoted(c, in);
  };
  const Trial t = try_kernel(line, kernel);
  TensorSet tame = own_copy(t.inputs);
  std::mt19937 random(3);
  for (const char* name : {"a_codes", "w"})
    for (std::uint8_t& code : tame.at(name).as<std::uint8_t>())
      code = encode_e4m3(float(int(random() % 3) - 1));
  for (const char* name : {"a_scale", "w_scale"})
    for (float& s : tame.at(name).as<float>()) s = 1;
  const Values got = values(unpromoted(t.c, tame).at("c")), due = values(right_outputs(t.c, tame).at("c"));
  expect_blind("no promotion over K = 7168, data of -1, 0, 1", close(got, due, 0, 0), t.verdict);
  EXPECT_NE(got, Values(got.size(), 0.0f));
}

// Token counts that are multiples of the tile, loads that are balanced: the last rows of a partial tile are
// lost.
TEST(BlindSpots, TameShapes) {
  const PlantedKernel kernel = [](const Case& c, const TensorSet& inputs, device::RunMode, int) {
    TensorSet out = right_outputs(c, inputs);
    if (!out.has("c")) return out;
    const auto offsets = inputs.at("offsets").as<std::int32_t>();
    const int tile = c.choice.tile.block_m;
    Tensor& t = out.at("c");
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e)
      for (int row = offsets[e] + (offsets[e + 1] - offsets[e]) / tile * tile; row < offsets[e + 1]; ++row)
        std::fill_n(t.as<std::uint16_t>().data() + row * t.dim(1), t.dim(1), std::uint16_t{0});
    return out;
  };
  const Case tame = parse_case(
      "op=grouped_gemm contract=offsets tokens=64 hidden=256 inter=128 experts=4 top_k=2 load=balanced "
      "layout=swap_ab "
      "tile=16x128x128");
  const TensorSet inputs = make_inputs(tame.problem, tame.choice, routing_of(tame.problem), 2);
  const Metric m = close(values(kernel(tame, inputs, device::RunMode::eager, 0).at("c")),
                         values(right_outputs(tame, inputs).at("c")), 0, 0);
  ProposalFrame frame;
  frame.op = Op::grouped_gemm;
  frame.contract = Contract::offsets;
  Verdict v;
  int trial = 0;
  for (; trial < 20 && v.correctness != Correctness::failed; ++trial)
    v = verdict_on(propose_case(frame, 1, trial), kernel);
  expect_blind("partial tiles lost; 64 tokens, balanced", m, v);
  EXPECT_LT(trial, 10) << "random cases should meet a partial tile at once";
}

#if MOE_HAVE_EMULATOR
// Memory from a caching allocator that still holds the last run's right answer: a tile that is never written.
// Sessions take their outputs from a Machine, whose memory starts poisoned however often it is given back and
// taken again.
TEST(BlindSpots, StaleMemory) {
  device::EmulatedMachine machine({}, {}, 1);
  const auto taken = [&machine](const Tensor& due, const Tensor* last_run) {
    machine.release_all();
    Tensor memory(due.name(), due.dtype(), due.shape());
    const device::Address at = machine.allocate(memory.bytes(), device::BufferUse::output, "c");
    if (last_run != nullptr) machine.upload(at, last_run->data(), last_run->bytes());
    machine.download(memory.data(), at, memory.bytes());
    return memory;
  };
  const auto without_a_tile = [](const Tensor& due, Tensor memory) {
    const auto from = due.as<std::uint16_t>();
    const auto to = memory.as<std::uint16_t>();
    for (std::size_t i = 0; i < from.size(); ++i)
      if (i / 256 / 16 != 1 || i % 256 < 128) to[i] = from[i];
    return memory;
  };
  const Trial t = try_kernel(
      "op=grouped_gemm contract=offsets tokens=64 hidden=256 inter=128 experts=2 top_k=1 load=balanced "
      "layout=swap_ab "
      "tile=16x128x128",
      [&](const Case& c, const TensorSet& in, device::RunMode, int) {
        const TensorSet due = right_outputs(c, in);
        taken(due.at("c"), &due.at("c"));  // the warm-up run left the right answer behind
        TensorSet out;
        out.add(without_a_tile(due.at("c"), taken(due.at("c"), nullptr)));
        return out;
      });
  const Tensor& due = t.due.at("c");
  expect_blind("a tile never written, over the last run's memory",
               close(values(without_a_tile(due, taken(due, &due))), values(due), 0, 0), t.verdict);
  EXPECT_NE(t.verdict.fault_class.find("never written in one tile"), std::string::npos)
      << t.verdict.fault_class;
}
#endif

// Right when launched, wrong when replayed: the graph holds the tensor map of the weights it was captured
// with.
TEST(BlindSpots, EagerOnly) {
  const Case c = parse_case(
      "op=moe_layer tokens=8 hidden=256 inter=128 experts=4 top_k=2 layout=swap_ab tile=8x128x128");
  const PlantedKernel kernel = [](const Case& c, const TensorSet& inputs, device::RunMode mode, int) {
    if (mode == device::RunMode::eager) return right_outputs(c, inputs);
    TensorSet captured = own_copy(inputs);
    Problem before = c.problem;
    before.seed += 1;
    captured.at("w2") = make_inputs(before, c.choice, routing_of(c.problem), 2).at("w2");
    return right_outputs(c, captured);
  };
  const TensorSet inputs = make_inputs(c.problem, c.choice, routing_of(c.problem), 2);
  const Metric m = vllm_close(values(kernel(c, inputs, device::RunMode::eager, 0).at("out")),
                              values(right_outputs(c, inputs).at("out")));
  EXPECT_EQ(verdict_on(c, kernel, false).correctness, Correctness::passed);
  expect_blind("right when launched, stale when replayed", m, verdict_on(c, kernel, true));
}

// One process for all tests: the culprit's fault is asynchronous, the next case reports it. Isolated, the
// culprit is named with its own replay line, and the next case gets a new process.
TEST(BlindSpots, TheVictimIsNotTheCulprit) {
  IsolatedExecutor executor(std::make_unique<FaultyExecutor>(), {MOE_FAULTY_WORKER, {}, 60});
  Hardware hardware;
  RunPlan plan;
  plan.executor = &executor;
  plan.hardware = &hardware;
  Case culprit = parse_case(
      "op=moe_layer tokens=4 hidden=256 inter=128 experts=4 top_k=2 layout=swap_ab tile=8x128x128");
  Case victim = culprit;
  culprit.problem.seed = seeds::kCrash;
  victim.problem.seed = seeds::kEcho;
  const Verdict first = *run_problem(culprit.problem, {culprit.choice}, plan).front().verdict;
  const Verdict second = *run_problem(victim.problem, {victim.choice}, plan).front().verdict;
  std::printf("  a kernel that crashes, then another\n    moeproof: %s: %s; the next: %s by its own report\n",
              std::string(name(first.correctness)).c_str(), first.reason.c_str(),
              std::string(name(second.correctness)).c_str());
  EXPECT_EQ(first.correctness, Correctness::crashed);
  EXPECT_NE(first.replay.find(to_line(culprit)), std::string::npos);
  EXPECT_EQ(second.correctness,
            Correctness::failed);  // by its own report, which a dead process could not give
  EXPECT_NE(second.reason.find("report"), std::string::npos) << second.reason;
}

// A repeat that quietly runs something else passes (RapidCheck's reproduce skips what it does not know). A
// replay line gives the same verdict at the same place, and a damaged one is an error, not a pass.
TEST(BlindSpots, AReplayRepeats) {
  const auto kernel = misreading([](TensorSet& in) { in.at("w2_scale").as<float>()[1] *= 1.01f; });
  const Case c = parse_case(
      "op=moe_layer tokens=9 hidden=256 inter=256 experts=2 top_k=1 seed=77 layout=swap_ab tile=8x128x128");
  const Verdict first = verdict_on(c, kernel);
  ASSERT_EQ(first.correctness, Correctness::failed);
  const std::size_t quote = first.replay.find('\'');
  const std::string line = first.replay.substr(quote + 1, first.replay.rfind('\'') - quote - 1);
  const Verdict again = verdict_on(parse_case(line), kernel);
  EXPECT_EQ(again.correctness, Correctness::failed);
  EXPECT_EQ(again.reason, first.reason);
  EXPECT_EQ(again.worst->row, first.worst->row);
  EXPECT_EQ(again.worst->column, first.worst->column);
  EXPECT_THROW(parse_case(line + " seeed=77"), BadInput);
  EXPECT_THROW(parse_case("op=moe_layer tokens=nine"), BadInput);
}

// A tolerance below one unit in the last place fails right kernels now and then (sgl-project/sglang PR 35795:
// 0.06 at values of 16 to 32); the usual remedy, a wider one, lets a kernel pass that cuts where it should
// round.
TEST(BlindSpots, AToleranceBelowOneUnitInTheLastPlace) {
  const std::string line =
      "op=moe_layer tokens=32 hidden=512 inter=256 experts=8 top_k=2 scale=24 layout=swap_ab tile=8x128x128";
  const auto real_sums = [](const Trial& t) {  // what combine would give without its last rounding
    const auto weights = t.due.at("topk_weights").as<float>();
    const Values rows = values(t.due.at("gemm2"));
    Values sums(32 * 512);
    for (std::size_t i = 0; i < sums.size(); ++i)
      for (std::size_t slot = 0; slot < 2; ++slot)
        sums[i] += weights[i / 512 * 2 + slot] * rows[(i / 512 * 2 + slot) * 512 + i % 512];
    return sums;
  };
  const auto cut = [&](const Trial& t) {
    TensorSet out = own_copy(t.due);
    const Values sums = real_sums(t);
    for (std::size_t i = 0; i < sums.size(); ++i)
      out.at("out").as<std::uint16_t>()[i] = std::uint16_t(float_bits(sums[i]) >> 16);
    return out;
  };
  const Trial right = try_kernel(
      line, [](const Case& c, const TensorSet& in, device::RunMode, int) { return right_outputs(c, in); });
  const Metric narrow = close(values(right.due.at("out")), real_sums(right), 0.06, 0);
  std::printf("  a right kernel\n    %s: %.6g: %s\n    moeproof: %s\n", narrow.name.c_str(), narrow.value,
              narrow.passes ? "passes" : "fails", std::string(name(right.verdict.correctness)).c_str());
  EXPECT_FALSE(narrow.passes);
  EXPECT_EQ(right.verdict.correctness, Correctness::passed);
  const TensorSet spoilt = cut(right);
  const Verdict v = verdict_on(right.c, [&](const auto&, const auto&, auto, int) { return spoilt; });
  expect_blind("cut to bf16 instead of rounded",
               close(values(spoilt.at("out")), real_sums(right), 0.06, 0.016), v);
}

// Catches: a kernel that is wrong and differs from run to run told only that it is wrong; a layer that no
// bound can pass never run twice.
TEST(BlindSpots, ASecondRunIsComparedWhateverTheFirstIsTold) {
  const PlantedKernel racing = [](const Case& c, const TensorSet& inputs, device::RunMode, int run) {
    TensorSet out = own_copy(right_outputs(c, inputs));
    out.at("out").as<std::uint16_t>()[5] = std::uint16_t(0x4500 + run);
    return out;
  };
  const Case c = parse_case(
      "op=combine tokens=8 hidden=256 inter=128 experts=4 top_k=2 tp=1 load=uniform quant=block128 seed=1 "
      "kernel=moeproof layout=swap_ab tile=8x128x128");
  const Verdict wrong = verdict_on(c, racing, false, 2);
  EXPECT_EQ(wrong.correctness, Correctness::failed);
  EXPECT_NE(wrong.reason.find("of out are wrong"), std::string::npos) << wrong.reason;
  EXPECT_NE(wrong.reason.find("; a second run gave different bytes"), std::string::npos) << wrong.reason;
  EXPECT_EQ(verdict_on(c, racing).reason.find("second run"), std::string::npos);  // one run: nothing is known
}

}  // namespace
}  // namespace moe::harness
