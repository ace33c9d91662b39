// generate_weights against fixtures' generator, byte by byte.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "device/session/launches.hpp"
#include "device/session/weight_set.hpp"
#include "fixtures/problem/generated_values.hpp"
#include "kernel_bench.hpp"

namespace moe::device {
namespace {

constexpr std::uint8_t kUntouched = 0xFF;  // what outputs hold before a launch

/// Rows `stride` apart, as the host's generator would fill them; bytes between the rows stay as they were.
std::vector<std::uint8_t> expected(const GenerateWeightsParams& p, std::size_t bytes) {
  std::vector<std::uint8_t> codes(bytes, kUntouched);
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t column = 0; column < p.columns; ++column)
      codes[std::size_t(row * p.stride + column)] = element_code(
          p.data, p.seed, TensorNumber(p.tensor), p.first + std::uint64_t(row * p.columns + column));
  return codes;
}

// Catches: a place counted from the rank's instead of the model's first; a Philox block that crosses the end
// of a row and is written whole, or lost; a store into the bytes between rows or behind the last; one data
// mode's, tensor's or seed's codes in place of another's; a seed cut to 32 bits.
RC_GTEST_PROP(GenerateWeights, GivesTheHostsBytes, ()) {
  const auto draw = [](std::int64_t low, std::int64_t high) {
    return *rc::gen::inRange<std::int64_t>(low, high + 1);
  };
  GenerateWeightsParams p;
  p.rows = draw(1, 40);
  p.columns = *rc::gen::element<std::int64_t>(1, 3, 15, 16, 17, 31, 48, 127, 128, 129, 333);
  p.stride = p.columns + draw(0, 33);
  p.seed = *rc::gen::arbitrary<std::uint64_t>();
  p.first = std::uint64_t(draw(0, 1) != 0 ? draw(0, 40) : draw(0, std::int64_t{1} << 40));
  p.tensor = std::uint32_t(*rc::gen::element(TensorNumber::w13, TensorNumber::w2, TensorNumber::a_codes));
  p.data = *rc::gen::element(kNormalData, kExactData, kCodedData, kImpulseData, kNastyData);

  const auto machine = emulated_machine();
  std::vector<std::uint8_t> got(std::size_t(p.rows * p.stride + 16));
  const std::int64_t shift = draw(0, 1) * draw(1, 15);  // a tensor need not begin at a multiple of 16
  const Address room = machine->allocate(got.size() + std::size_t(shift), BufferUse::output, "codes");
  p.codes = pointer<std::uint8_t>(room + Address(shift));
  launch_generate(*machine, p, false);
  machine->download(got.data(), room + Address(shift), got.size());
  for (const std::string& report : machine->take_reports()) RC_FAIL(report);
  RC_ASSERT(got == expected(p, got.size()));
}

// The sets that `bench` rotates: all experts, drawn with their own seed into rows of whole 16 bytes. Catches:
// a set that repeats the first one's bytes (timing would then find warm weights), a wrong stride, codes that
// a kernel writes into memory declared an input.
TEST(GenerateWeights, DrawsASecondSetOfTheSameSizes) {
  for (const std::int64_t k : {128, 200, 129}) {
    const auto machine = emulated_machine();
    const QuantScheme quant{QuantKind::tensor_static};
    const Tensor codes("w13", DType::e4m3, {3, 24, k}), scale("w13_scale", DType::f32, {3});
    const WeightSet first = upload_weights(*machine, codes, scale, nullptr, quant);
    const WeightSet second = generate_weights_like(*machine, first, 78, std::uint32_t(TensorNumber::w13));
    GenerateWeightsParams p;
    p.rows = second.codes.rows, p.columns = k, p.stride = second.codes.stride, p.seed = 78;
    p.tensor = std::uint32_t(TensorNumber::w13);
    std::vector<std::uint8_t> got(std::size_t(p.rows * p.stride));
    machine->download(got.data(), second.codes.address, got.size());
    const auto want = expected(p, got.size());
    for (std::int64_t row = 0; row < p.rows; ++row)
      for (std::int64_t c = 0; c < k; ++c)
        ASSERT_EQ(got[std::size_t(row * p.stride + c)], want[std::size_t(row * p.stride + c)])
            << "k " << k << ", row " << row << ", column " << c;
    EXPECT_NE(first.codes.address, second.codes.address);
    EXPECT_EQ(second.scale, first.scale);
    for (const std::string& report : machine->take_reports()) ADD_FAILURE() << report;
  }
}

}  // namespace
}  // namespace moe::device
