// What may act_quant give where nobody says how its exp is made, only how far off it may be? Everything
// behind exp is known, so that an element is one value but where a rounding lies inside the error; then both
// sides of it are right. Documented errors (CUDA C++ Programming Guide, "Mathematical Functions"; PTX ISA,
// div.full), in ulp of fp32 from the correctly rounded result:
//
//   expf 2 (what IEEE libraries keep, too), division correctly rounded
//   __expf(x) 2 + floor(1.173 |x|) (ex2.approx behind a product with log2 e: Triton's tl.exp, fast math)
//   __fdividef(x, y), div.full.f32 2; y above 2^126 gives 0
#pragma once
#include <cstdint>
#include <span>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/semantics.hpp"
#include "fixtures/problem/tensor.hpp"
#include "reference/stage_bits.hpp"

namespace moe::reference {

/// fp32 numbers; both NaN where the activation is.
struct FloatRange {
  float low = 0, high = 0;
};

/// Whether the stage's bits are left open by the Semantics' exp.
bool leaves_exp_open(const MoeShape& shape, const Semantics& semantics);

/// What the activation of a pair may be in front of the quantiser: g / (1 + exp(-x)) as a quotient or as g
/// times a reciprocal, then the declared roundings. gelu_tanh_mul: the error that activation.hpp grants.
FloatRange activation_range(const MoeShape& shape, const Semantics& semantics, float g, float u);

/// The first and the last code and scale that are right, rows as in `pairs`. `experts`: of all pairs, -1 =
/// none here (tensor_dynamic takes its amax from the others). Codes are those under the kernel's own scale
/// where it shows one (`own_scale`, canonical), and under `given_scale` where the scheme gives it.
struct OpenBits {
  QuantisedBits least, most;
};
OpenBits open_act_quant(const Problem& problem, const Semantics& semantics, const Tensor& gemm1,
                        std::span<const std::int64_t> pairs, std::span<const std::int32_t> experts,
                        const Tensor* own_scale, float given_scale, int threads);

}  // namespace moe::reference
