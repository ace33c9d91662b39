// inv_rope_quant on the emulated SM against the contract's bits.
#include "reference/inv_rope.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "device/session/launches.hpp"
#include "device/session/moe_session.hpp"
#include "device/session/pipeline.hpp"
#include "fixtures/problem/rope_inputs.hpp"
#include "kernel_bench.hpp"

namespace moe::device {
namespace {

Case case_of(std::int64_t tokens, HeadShape heads, ScaleFormat format, DataMode data, std::uint64_t seed) {
  Case c;
  c.problem.op = Op::inv_rope_quant;
  c.problem.shape.tokens = tokens;
  c.problem.heads = heads;
  c.problem.quant.scale_format = format;
  c.problem.data = data;
  c.problem.seed = seed;
  return c;
}

/// Runs on `machine`; empty when codes and scales are those of the contract.
std::string difference(Machine& machine, const Case& c, const TensorSet& inputs) {
  TensorSet out;
  const Pipeline pipeline = build_inv_rope_quant(machine, c, inputs);
  for (const Stage& stage : pipeline.stages) stage.launch({}, false);
  machine.synchronize();
  pipeline.collect(out);
  const Semantics any;
  const reference::StageTruth due =
      reference::inv_rope_truth(c.problem, {inputs, {}}, {&any, true, false, 1});
  for (const char* name : {"o_codes", "o_scale"})
    if (out.at(name).bytes() > 0 &&
        std::memcmp(out.at(name).data(), due.at(name).bits.data(), out.at(name).bytes()) != 0)
      return name;
  for (const std::string& report : machine.take_reports()) return report;
  return "";
}

std::string difference(Machine& machine, const Case& c) {
  TensorSet inputs;
  add_rope_inputs(c.problem, 1, inputs);
  return difference(machine, c, inputs);
}

Case drawn_case() {
  const int groups = *rc::gen::inRange(1, 4), per_group = *rc::gen::inRange(1, 5);
  return case_of(*rc::gen::inRange<std::int64_t>(0, 10), {groups * per_group, groups},
                 *rc::gen::element(ScaleFormat::f32, ScaleFormat::ue8m0),
                 *rc::gen::element(DataMode::normal, DataMode::exact, DataMode::nasty),
                 *rc::gen::inRange<std::uint64_t>(1, 1'000'000));
}

// Would catch: a rotation of other columns, pairs, sign or position, an amax over other lanes, a scale or
// code of another head, token or group, padding that is not zero or is written over, a store beyond an
// output; any number of tokens and heads.
RC_GTEST_PROP(InvRopeQuant, EqualsTheContract, ()) {
  const auto machine = emulated_machine();
  const Case c = drawn_case();
  RC_ASSERT(difference(*machine, c) == "");
}

// Would catch a race on the scales' shared memory, a missing barrier, what only another order of warps shows.
TEST(InvRopeQuant, IsOrderedUnderEverySchedule) {
  auto machine = std::make_shared<EmulatedMachine>(emulated_variants(), emulator::Options{}, 4);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    emulator::Options options = emulator::Options::adversarial(seed, plain_arithmetic());
    if (seed == 0) options = {.arithmetic = plain_arithmetic()};
    machine->set_options(options);
    for (const ScaleFormat format : {ScaleFormat::f32, ScaleFormat::ue8m0})
      EXPECT_EQ(difference(*machine, case_of(5, {6, 2}, format, DataMode::normal, 3)), "") << seed;
    machine->release_all();
  }
}

// Would catch another order of roundings (both products rounded, or the other one), which random data show
// once in a million values: sums within two units of where a scale doubles, so that the order decides the
// exponent of many tokens.
TEST(InvRopeQuant, RoundsInTheOrderOfTheContract) {
  const Case c = case_of(64, {1, 1}, ScaleFormat::ue8m0, DataMode::normal, 9);
  TensorSet inputs;
  add_rope_inputs(c.problem, 1, inputs);
  const auto o = inputs.at("o").as<std::uint16_t>();
  std::fill(o.begin(), o.end(), std::uint16_t(0));
  int others = 0, twice = 0;  // tokens that another order gives another exponent
  for (std::int64_t t = 0; t < 64; ++t) {
    inputs.at("positions").as<std::int64_t>()[std::size_t(t)] = t;
    o[std::size_t(t * 512 + 448)] = o[std::size_t(t * 512 + 449)] = encode_bf16(1.4921875f);
    const float x = 1.4921875f, sine = 0.3f + 0.01f * float(t), cosine = (448.0f - x * sine) / x;
    inputs.at("cos_sin").as<float>()[std::size_t(t * 64)] = cosine;
    inputs.at("cos_sin").as<float>()[std::size_t(t * 64 + 32)] = sine;
    const int due = reference::inv_rope_exponent(__builtin_fmaf(x, cosine, x * sine));
    others += due != reference::inv_rope_exponent(__builtin_fmaf(x, sine, x * cosine));
    twice += due != reference::inv_rope_exponent(x * cosine + x * sine);
  }
  EXPECT_GT(others, 3);
  EXPECT_GT(twice, 3);
  const auto machine = emulated_machine();
  EXPECT_EQ(difference(*machine, c, inputs), "");
}

/// Address space without pages.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes)
      : bytes_(bytes),
        p_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  }
  ~Sparse() { munmap(p_, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  bool there() const { return p_ != MAP_FAILED; }
  template <class T>
  T* as() {
    return static_cast<T*>(p_);
  }

 private:
  std::size_t bytes_;
  void* p_;
};

// Would catch a 32-bit product of a row and its stride: every stride passes 2^31 elements, as in a large
// prefill.
TEST(InvRopeQuant, StridesPass32Bits) {
  constexpr std::int64_t kFar = (std::int64_t(1) << 31) + 1024, kTokens = 2, kHeads = 2;
  const std::size_t span = std::size_t(2 * kFar + 4096);
  Sparse o(2 * span), codes(span), scales(4 * 8 * std::size_t(kFar));
  if (!o.there() || !codes.there() || !scales.there()) GTEST_SKIP() << "no address space for sparse tensors";
  const Case c = case_of(kTokens, {kHeads, kHeads}, ScaleFormat::f32, DataMode::normal, 5);
  TensorSet inputs;
  add_rope_inputs(c.problem, 1, inputs);
  const auto packed = inputs.at("o").as<std::uint16_t>();
  for (std::int64_t t = 0; t < kTokens; ++t)  // token t, head h at t * far + h * 512
    std::memcpy(o.as<std::uint16_t>() + t * kFar, packed.data() + t * kHeads * 512, kHeads * 1024);
  auto machine = std::make_shared<EmulatedMachine>(emulated_variants(), emulator::Options{}, 4);
  machine->memory().adopt(o.as<void>(), 2 * span, "o", true);
  machine->memory().adopt(codes.as<void>(), span, "o_codes", false);
  machine->memory().adopt(scales.as<void>(), 4 * 8 * std::size_t(kFar), "o_scale", false);
  InvRopeQuantParams p;
  p.o = o.as<std::uint16_t>(), p.o_token = kFar, p.o_head = 512;
  p.positions = pointer<std::int64_t>(upload_tensor(*machine, inputs.at("positions")));
  p.cos_sin = pointer<float>(upload_tensor(*machine, inputs.at("cos_sin"))), p.cos_sin_row = 64;
  p.codes = codes.as<std::uint8_t>(), p.codes_token = 512, p.codes_group = kFar;
  p.scales = scales.as<std::uint32_t>(), p.scale_row = kFar, p.scale_group = 4 * kFar;
  p.tokens = kTokens, p.groups = kHeads, p.heads_per_group = 1;
  launch_inv_rope_quant(*machine, p, false);
  machine->synchronize();
  EXPECT_TRUE(machine->take_reports().empty());
  const Semantics any;
  const reference::StageTruth due =
      reference::inv_rope_truth(c.problem, {inputs, {}}, {&any, true, false, 1});
  for (std::int64_t g = 0; g < kHeads; ++g) {
    EXPECT_EQ(std::memcmp(codes.as<std::uint8_t>() + g * kFar,
                          due.at("o_codes").bits.data() + g * kTokens * 512, kTokens * 512),
              0)
        << g;
    for (std::int64_t q = 0; q < 4; ++q)
      EXPECT_EQ(std::memcmp(scales.as<float>() + (g * 4 + q) * kFar,
                            due.at("o_scale").bits.data() + (g * 4 + q) * 16, 16),
                0)
          << g << q;
  }
}

// Would catch an idle rank that launches, and sizes that no kernel of the op has.
TEST(InvRopeQuant, TakesNoTokensAndRefusesOtherSchemes) {
  const auto machine = emulated_machine();
  EXPECT_EQ(difference(*machine, case_of(0, {64, 8}, ScaleFormat::f32, DataMode::normal, 1)), "");
  EXPECT_EQ(refuse_case(case_of(3, {64, 8}, ScaleFormat::f32, DataMode::normal, 1)), "");
}

}  // namespace
}  // namespace moe::device
