// combine against a plain loop.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "device/session/pipeline.hpp"
#include "kernel_bench.hpp"

namespace moe::device {
namespace {

// Would catch: slots added in another order, a foreign expert's row added, a row tail left out, a second
// rounding, weights applied although they multiplied the input.
RC_GTEST_PROP(Combine, EqualsALoop, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  Case c;
  MoeShape& s = c.problem.shape;
  s.tokens = 1 + noise(seed, 1) % 5;
  s.top_k = 1 + int(noise(seed, 2) % 22);
  s.hidden = 1 + noise(seed, 3) % 1500;
  s.experts = 32;
  s.ep = 1 << noise(seed, 4) % 3;
  s.weight_on_input = s.top_k == 1 && noise(seed, 5) % 2;
  c.problem.rank = int(noise(seed, 6) % std::uint32_t(s.ep));
  const std::vector<std::uint16_t> rows = noise_bf16(seed, s.pairs() * s.hidden);
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  for (std::int64_t p = 0; p < s.pairs(); ++p) {
    ids.push_back(std::int32_t(noise(seed + 1, std::uint64_t(p)) % 33) - 1);
    weights.push_back(noise_float(seed + 2, std::uint64_t(p)));
  }
  TensorSet inputs;
  inputs.add(Tensor("gemm2", DType::bf16, {s.pairs(), s.hidden}));
  inputs.add(Tensor("topk_ids", DType::i32, {s.tokens, s.top_k}));
  inputs.add(Tensor("topk_weights", DType::f32, {s.tokens, s.top_k}));
  std::memcpy(inputs.at("gemm2").data(), rows.data(), 2 * rows.size());
  std::memcpy(inputs.at("topk_ids").data(), ids.data(), 4 * ids.size());
  std::memcpy(inputs.at("topk_weights").data(), weights.data(), 4 * weights.size());

  const auto machine = emulated_machine();
  const Pipeline pipeline = build_combine(*machine, c, inputs);
  for (const Stage& stage : pipeline.stages) stage.launch({}, false);
  machine->synchronize();
  TensorSet out;
  pipeline.collect(out);

  std::vector<std::uint16_t> want;
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t i = 0; i < s.hidden; ++i) {
      float sum = 0;
      for (std::int64_t p = t * s.top_k; p < (t + 1) * s.top_k; ++p) {
        const int local = ids[std::size_t(p)] - c.problem.rank * s.local_experts();
        if (local < 0 || local >= s.local_experts()) continue;
        const float weight = s.weight_on_input ? 1.0f : weights[std::size_t(p)];
        sum = std::fmaf(weight, decode_bf16(rows[std::size_t(p * s.hidden + i)]), sum);
      }
      want.push_back(encode_bf16(sum));
    }
  }
  const auto got = std::as_const(out.at("out")).as<std::uint16_t>();
  RC_ASSERT(std::equal(got.begin(), got.end(), want.begin(), want.end()));
  RC_ASSERT(machine->take_reports().empty());
}

}  // namespace
}  // namespace moe::device
