// How far may a correct kernel's accumulator be from the real sum? A bound that holds for every order of
// summation, in front of the output rounding; the equations and their derivation stand in
// reference/README.md, section "Bounds".
//
// For one output element, with p_k the scaled products, S = sum p_k, A = sum |p_k| (subnormal codes counted
// at the magnitude at which the tensor core aligns them), and for each chain c of at most `chain` products
//   E_c = max(largest aligned product, (A_c + |S_c|) / 2)        no partial sum is larger than this,
// the accumulator is within
//   B = chain_factor * sum_c E_c + fp32_factor * A + absolute.
#pragma once
#include <cstdint>

#include "fixtures/problem/quant_scheme.hpp"
#include "fixtures/problem/semantics.hpp"

namespace moe::reference {

struct AccumulationBound {
  std::int64_t chain = 0;  // products between two promotions, a multiple of 128; 0 = all of K
  bool half = true;  // (A_c + |S_c|) / 2 may be used; else A_c, where chains do not nest in blocks of 128
  double chain_factor = 0;  // per chain, of E_c
  double fp32_factor = 0;   // scale products, promotions, bias and routing weight, of A
  double absolute = 0;      // underflow of fp32 scale products, flushed or not
};

/// `semantics` null: any accumulator, any chain that the scheme permits (block scales: at most 128), any
/// promotion.
AccumulationBound accumulation_bound(const Semantics* semantics, const QuantScheme& scheme, std::int64_t k);

}  // namespace moe::reference
