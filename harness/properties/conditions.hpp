// When may a property be asked of a case? Small conditions that give the reason why not, or nothing; and
// helpers that several properties share.
#pragma once
#include <initializer_list>
#include <string>

#include "harness/properties/output_rules.hpp"

namespace moe::harness {

/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> reasons);
std::string only_for(const Subject& s, std::initializer_list<Op> ops);
std::string needs_tokens(const Subject& s, std::int64_t least);
std::string needs_slots(const Subject& s, int least);
/// One scale for all tokens (tensor_dynamic): each depends on the others.
std::string own_scales(const Subject& s);
/// Another shape may be summed in another order; only a kernel whose order is known is held to equal bits.
std::string known_order(const Subject& s);
std::string built_in(const Subject& s, const char* why);
std::string no_bias(const Subject& s);
std::string weights_on_output(const Subject& s);
std::string not_nasty(const Subject& s);
std::string some_local_pair(const Subject& s);

std::span<std::int32_t> ids_of(TensorSet& set);  // of a set that owns them
std::span<float> weights_of(TensorSet& set);
std::span<const std::int32_t> ids_of(const TensorSet& set);
/// Local index of the expert of the first pair on this rank.
int first_used_expert(const Subject& s);

/// out of a token is a sum of top_k products in fp32 and one rounding to bf16, in any order: how far two such
/// sums may lie apart. `gemm2` and weights are those of `inputs`; throws NotApplicable where gemm2 is not
/// shown.
struct CombineBound {
  CombineBound(const Subject& s, const TensorSet& inputs, const TensorSet& outputs);
  /// Sum of |weight * y| over the local slots.
  double magnitude(std::int64_t token, std::int64_t column) const;
  double operator()(std::int64_t token, std::int64_t column, double a, double b) const;

 private:
  const Tensor* gemm2_;
  std::vector<double> weights_;  // 0 where the pair is not of this rank
  int top_k_;
};
/// Half a unit in the last place of a bf16 result, relative; smallest steps added.
double bf16_half_ulp(double value);

/// The op's inputs for the tokens in `map` (of this case's), and its case.
struct Resized {
  Case c;
  TensorSet inputs;
};
Resized resized(const Subject& s, const RowMap& tokens);

}  // namespace moe::harness
