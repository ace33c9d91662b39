// Which scales, codes and dequantised values may a correct quantiser give, when its input is known exactly or
// only as an interval? Decisions near a rounding tie may fall either way; the intervals hold every outcome.
#pragma once
#include "fixtures/problem/quant_scheme.hpp"
#include "fixtures/problem/semantics.hpp"
#include "reference/interval.hpp"

namespace moe::reference {

/// Scale of a group whose amax lies in `amax`. `semantics` null: amax / 448 by division or reciprocal, and
/// any floor in use: up to 1e-4 (DeepGEMM; 1e-10 elsewhere), per token up to 1/512 (vLLM: s >= 1 / (448 *
/// 512)).
Interval scale_interval(const Semantics* semantics, const QuantScheme& scheme, Interval amax);

/// Value of the code (code, not code * scale) of x under the kernel's own `scale`, whatever QuantFormula.
Interval code_interval(Interval x, float scale);

/// code * scale for any scale of the interval; `derived`: the scale follows from an amax, so nothing
/// saturates.
Interval dequantised_interval(Interval x, Interval scale, bool derived);

}  // namespace moe::reference
