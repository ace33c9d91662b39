// What one scale for a whole tensor does to numbers, said beside the verdict.
#include "harness/tensor_notes.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "fixtures/problem/number_formats.hpp"

namespace moe::harness {
namespace {

Case layer(QuantKind kind) {
  Case c;
  c.problem.quant.kind = kind;
  return c;
}

Tensor codes(const char* name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  Tensor t(name, DType::e4m3, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    reinterpret_cast<std::uint8_t*>(t.data())[i] = encode_e4m3(values[i]);
  return t;
}

TensorSet input(const std::vector<float>& hidden, float scale) {
  TensorSet set;
  Tensor h("hidden", DType::bf16, {1, std::int64_t(hidden.size())}), s("a1_scale", DType::f32, {1});
  for (std::size_t i = 0; i < hidden.size(); ++i) h.as<std::uint16_t>()[i] = encode_bf16(hidden[i]);
  s.as<float>()[0] = scale;
  set.add(std::move(h));
  set.add(std::move(s));
  return set;
}

// Would catch: values that round to 448 counted as cut, a scale that is turned round, a note under another
// scheme.
TEST(TensorNotes, ValuesThatAStaticScaleCuts) {
  const TensorSet set = input({1, 440, 460, -470, 4000}, 1.0f);
  EXPECT_EQ(tensor_notes(layer(QuantKind::tensor_static), set, {}),
            "40 % of the input saturate under a1_scale");
  EXPECT_EQ(tensor_notes(layer(QuantKind::tensor_static), input({1, 440, 460}, 1.0f), {}), "");
  EXPECT_EQ(tensor_notes(layer(QuantKind::block128), set, {}), "");
}

TEST(TensorNotes, ActivationsAtTheLargestCode) {
  TensorSet out;
  out.add(codes("act_codes", {1, 4}, {1, 448, -448, 2}));
  EXPECT_NE(tensor_notes(layer(QuantKind::tensor_static), {}, out).find("50 % of act_codes are +-448"),
            std::string::npos);
}

// Would catch: an amax over padding that passes unseen, and a right one that is accused; NaN taken for 448.
TEST(TensorNotes, ADynamicScaleThatNoRowNeeds) {
  TensorSet out, right;
  out.add(codes("x_codes", {1, 3}, {1, -208, std::nanf("")}));
  const std::string note = tensor_notes(layer(QuantKind::tensor_dynamic), {}, out);
  EXPECT_EQ(
      note,
      "x_scale is larger than any row needs, the largest of x_codes is 208 of 448: an amax over padding?");
  right.add(codes("x_codes", {1, 3}, {1, -448, 3}));
  EXPECT_EQ(tensor_notes(layer(QuantKind::tensor_dynamic), {}, right), "");
}

// Would catch: halves of different experts compared, gate and up turned round, ungated layers accused.
TEST(TensorNotes, GateAndUpThatShareAScale) {
  TensorSet set;
  set.add(codes("w13", {2, 2, 2}, {448, 1, 1, 300, 448, 2, 1, 96}));
  Case c = layer(QuantKind::tensor_static);
  EXPECT_EQ(tensor_notes(c, set, {}),
            "gate and up of expert 1 share a scale that fits gate: up reaches 96 of 448");
  c.problem.shape.activation = Activation::relu2;
  EXPECT_EQ(tensor_notes(c, set, {}), "");
}

}  // namespace
}  // namespace moe::harness
