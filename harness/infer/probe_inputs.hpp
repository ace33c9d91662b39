// How is a probe's layer written down? A blank layer of a problem (weights zero, scales one, each token's
// slot 0 on a local expert with weight 1, the other slots with weight 0), to be filled element by element.
#pragma once
#include <cstdint>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// Numbers of a probe: the same for the same seed.
class ProbeRandom {
 public:
  explicit ProbeRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();  // splitmix64
  int below(int n) { return int(next() % std::uint64_t(n)); }
  float sign() { return next() & 1 ? -1.0f : 1.0f; }

 private:
  std::uint64_t state_;
};

/// Slot 0 of token t: local expert t mod L with weight 1; the other slots: the next experts, weight 0.
Routing plain_routing(const Problem& problem);

class ProbeInputs {
 public:
  /// `c` is the probe's case: op moe_layer, load trace (ids and weights are inputs).
  ProbeInputs(const Case& c, std::uint64_t seed);

  const Problem& problem() const { return c_.problem; }
  std::int64_t tokens() const { return problem().shape.tokens; }
  std::int64_t hidden() const { return problem().shape.hidden; }
  std::int64_t inner() const { return problem().shape.local_intermediate(); }
  /// Local experts that tokens are sent to; only these have weights.
  int experts() const;
  std::int64_t groups() const { return (hidden() + 127) / 128; }

  void set_x(std::int64_t token, std::int64_t k, float value);  // a bf16 value
  /// Row of w13 that makes up value j (j itself where there is no gate).
  std::int64_t up_row(std::int64_t j) const { return problem().shape.gated() ? inner() + j : j; }
  void set_w13(int expert, std::int64_t row, std::int64_t k, float value);  // an e4m3 value
  void set_w2(int expert, std::int64_t row, std::int64_t k, float value);
  /// The scale that covers weight (row, k): one for the block, the row or the expert.
  void set_w13_scale(int expert, std::int64_t row, std::int64_t k, float scale);
  void set_all_scales(const char* tensor, float scale);
  void set_static_scales(float a1, float a2);  // ignored where scales are not given

  /// Every expert's gate value j is w times x[k] (nothing where the activation has no gate).
  void gates_from(std::int64_t k, float w);
  /// Output column h of every expert is activation h mod I.
  void identity_w2();

  std::span<std::int32_t> ids();
  std::span<float> weights();
  ProbeRandom random;
  TensorSet tensors;

 private:
  void set_code(const char* tensor, int expert, std::int64_t row, std::int64_t k, float value);
  Case c_;
};

}  // namespace moe::harness
