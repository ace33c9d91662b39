// What may one token's row depend on? Not on its place, nor on the other tokens.
#include <algorithm>

#include "fixtures/problem/number_formats.hpp"
#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

constexpr std::uint16_t kNanBf16 = 0x7FC0;

/// Row maps in which only rows `from` are asked for.
RowMap only_rows(std::int64_t n, std::int64_t first, std::int64_t count) {
  RowMap map(std::size_t(n), -1);
  for (std::int64_t i = first; i < first + count; ++i) map[std::size_t(i)] = i;
  return map;
}

Rule permuted(const Subject& s, const RowMap& tokens) {
  return {tokens, pairs_of(tokens, s.shape().top_k), {}, false, {}};
}

/// Rows of each group in another order; padding stays.
RowMap shuffled_groups(const Subject& s, std::int64_t rows) {
  std::map<std::int32_t, RowMap> groups;
  for (const OwnedRow& r : owned_rows(s.problem(), s.inputs())) groups[r.expert].push_back(r.row);
  RowMap map = identity_map(rows);
  for (const auto& [expert, own_rows] : groups) {
    const RowMap order = shuffled(std::int64_t(own_rows.size()), s.problem().seed + std::uint64_t(expert));
    for (std::size_t i = 0; i < order.size(); ++i)
      map[std::size_t(own_rows[i])] = own_rows[std::size_t(order[i])];
  }
  return map;
}

/// contract=routed names its rows: the order inside an expert means nothing.
std::string reordered_ids(Subject& s) {
  TensorSet inputs = s.inputs();
  const auto sorted = own(inputs, "sorted_token_ids").as<std::int32_t>();
  const auto experts = inputs.at("expert_ids").as<std::int32_t>();
  const std::size_t block = experts.empty() ? 1 : sorted.size() / experts.size();
  std::map<std::int32_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] < s.shape().pairs() && experts[i / block] >= 0) places[experts[i / block]].push_back(i);
  for (const auto& [expert, at] : places) {
    const RowMap order = shuffled(std::int64_t(at.size()), s.problem().seed);
    std::vector<std::int32_t> values;
    for (const std::int64_t i : order) values.push_back(sorted[at[std::size_t(i)]]);
    for (std::size_t i = 0; i < at.size(); ++i) sorted[at[i]] = values[i];
  }
  return difference(s, inputs, s.run(inputs), s.outputs());
}

std::string permute_tokens(Subject& s) {
  if (s.op() == Op::grouped_gemm) {
    if (s.problem().contract == Contract::routed) return reordered_ids(s);
    TensorSet inputs = s.inputs();
    const Tensor& codes = inputs.at("a_codes");
    const RowMap map = shuffled_groups(s, codes.size() / std::max<std::int64_t>(codes.shape().back(), 1));
    take_activation_rows(s.problem(), inputs, map);
    return difference(s, inputs, s.run(inputs), s.outputs(), {{}, map, {}, false, {}});
  }
  const RowMap tokens = shuffled(s.shape().tokens, s.problem().seed);
  TensorSet inputs = s.inputs();
  take_tokens(s.problem(), inputs, tokens);
  return difference(s, inputs, s.run(inputs), s.outputs(), permuted(s, tokens));
}

RowMap reversed_slots(const Subject& s) {
  const int k = s.shape().top_k;
  RowMap map;
  for (std::int64_t pair = 0; pair < s.shape().pairs(); ++pair)
    map.push_back(pair / k * k + k - 1 - pair % k);
  return map;
}

std::string permute_slots(Subject& s) {
  const RowMap map = reversed_slots(s);
  TensorSet inputs = s.inputs();
  const auto ids = ids_of(s.inputs());
  const auto weights = s.inputs().at("topk_weights").as<float>();
  own(inputs, "topk_ids"), own(inputs, "topk_weights");
  for (std::size_t i = 0; i < map.size(); ++i) {
    ids_of(inputs)[i] = ids[std::size_t(map[i])];
    weights_of(inputs)[i] = weights[std::size_t(map[i])];
  }
  if (s.op() == Op::combine) take_rows(inputs, "gemm2", map);
  const TensorSet got = s.run(inputs);
  Rule rows{{}, map, {}, false, {"x_codes", "x_scale", "gemm1", "act_codes", "act_scale", "gemm2"}};
  if (std::string found = difference(s, inputs, got, s.outputs(), rows); !found.empty()) return found;
  if (!s.plan().known_arithmetic) return {};  // it may sum in bf16
  const CombineBound bound(s, inputs, got);
  const Tensor &a = got.at("out"), &b = s.outputs().at("out");
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::int64_t row = i / a.dim(1), column = i % a.dim(1);
    const double is = value_at(a, i), due = value_at(b, i);
    if (std::string found = outside(s, "out", row, column, {is, due, bound(row, column, is, due)});
        !found.empty())
      return found;
  }
  return {};
}

std::string split_batch(Subject& s) {
  const std::int64_t tokens = s.shape().tokens, half = tokens / 2;
  for (const auto& [first, count] : {std::pair{std::int64_t(0), half}, std::pair{half, tokens - half}}) {
    RowMap rows;
    for (std::int64_t i = first; i < first + count; ++i) rows.push_back(i);
    const TensorSet whole = s.outputs();
    const Resized part = resized(s, rows);
    if (std::string found =
            difference(s, part.inputs, s.run_as(part.c, part.inputs), whole, permuted(s, rows));
        !found.empty())
      return found;
  }
  return {};
}

std::string equal_tokens(Subject& s) {
  const std::int64_t tokens = s.shape().tokens;
  RowMap copies = identity_map(tokens), asked(std::size_t(tokens), -1);
  for (const std::int64_t t : {tokens / 2, tokens - 1}) copies[std::size_t(t)] = asked[std::size_t(t)] = 0;
  TensorSet inputs = s.inputs();
  take_tokens(s.problem(), inputs, copies);
  const TensorSet got = s.run(inputs);
  return difference(s, inputs, got, got, permuted(s, asked));
}

std::string nan_in_a_token(Subject& s) {
  TensorSet inputs = s.inputs();
  const auto values = own(inputs, "hidden").as<std::uint16_t>();
  std::fill_n(values.begin(), s.shape().hidden, kNanBf16);
  return difference(s, inputs, s.run(inputs), s.outputs(),
                    permuted(s, only_rows(s.shape().tokens, 1, s.shape().tokens - 1)));
}

std::string nan_in_an_expert(Subject& s) {
  const int expert = first_used_expert(s);
  TensorSet inputs = s.inputs();
  Tensor& scales = own(inputs, "w13_scale");
  const std::int64_t each = scales.size() / scales.dim(0);
  const auto values = scales.as<float>().subspan(std::size_t(expert * each), std::size_t(each));
  std::fill(values.begin(), values.end(), bits_float(0x7FC00000u));
  Rule rule{identity_map(s.shape().tokens), identity_map(s.shape().pairs()), {}, false, {}};
  const auto ids = ids_of(inputs);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != expert + s.first_expert()) continue;
    rule.pairs[i] = -1;
    rule.tokens[i / std::size_t(s.shape().top_k)] = -1;
  }
  rule.tensors = {"gemm1", "act_codes", "act_scale", "gemm2", "out"};
  return difference(s, inputs, s.run(inputs), s.outputs(), rule);
}

std::string zero_token(Subject& s) {
  TensorSet inputs = s.inputs();
  if (s.op() == Op::grouped_gemm) {
    const auto rows = owned_rows(s.problem(), inputs);
    if (rows.empty()) throw NotApplicable("no group owns a row");
    const std::int64_t zeroed = rows.front().activation;
    Tensor& codes = own(inputs, "a_codes");
    const auto width = std::size_t(codes.shape().back());
    std::fill_n(codes.data() + std::size_t(zeroed) * width, width, std::byte{0});
    std::vector<std::int64_t> zeros;
    for (const OwnedRow& r : rows)
      if (r.activation == zeroed) zeros.push_back(r.row);
    return nonzero_row(s, s.run(inputs), "c", zeros);
  }
  fill_row(own(inputs, "hidden"), 0, 0);
  const TensorSet got = s.run(inputs);
  return s.op() == Op::quantize ? nonzero_row(s, got, "x_codes", {0}) : nonzero_row(s, got, "out", {0});
}

std::string no_token_and_one(Subject& s) {
  const TensorSet whole = s.outputs();
  const Resized none = resized(s, {});
  s.run_as(none.c, none.inputs);
  const Resized one = resized(s, {0});
  const TensorSet got = s.run_as(one.c, one.inputs);
  s.note(1, 1);
  if (!s.plan().known_arithmetic || s.op() == Op::grouped_gemm || s.op() == Op::align ||
      s.problem().quant.kind == QuantKind::tensor_dynamic)
    return {};
  return difference(s, one.inputs, got, whole, permuted(s, {0}));
}

std::string other_tokens_crowd(Subject& s) {
  const int k = s.shape().top_k;
  TensorSet inputs = s.inputs();
  own(inputs, "topk_ids");
  const auto ids = ids_of(inputs);
  for (std::size_t i = std::size_t(k); i < ids.size(); ++i) ids[i] = ids[i % std::size_t(k)];
  return difference(s, inputs, s.run(inputs), s.outputs(), permuted(s, only_rows(s.shape().tokens, 0, 1)));
}

const Property kTable[] = {
    {"P1", PropertyClass::exact, "Permuted tokens give permuted rows.",
     "two tokens; grouped_gemm: inside each group",
     "a row that depends on its place in a tile: an unmasked tail, a scale of another row, an accumulator "
     "that is not "
     "cleared",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::quantize, Op::act_quant, Op::combine, Op::topk,
                                     Op::grouped_gemm}),
                        needs_tokens(s, 2)});
     },
     permute_tokens},
    {"P3", PropertyClass::bounded,
     "The order of a token's slots changes no expert's row and its sum by roundings only.",
     "top_k 2; the sum where gemm2 is shown and the arithmetic is known",
     "a slot that is dropped or counted twice, weights of another slot",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::combine}), needs_tokens(s, 1), needs_slots(s, 2)});
     },
     permute_slots},
    {"P7", PropertyClass::exact, "The halves of a batch give the rows of the whole.",
     "two tokens, scales of their own, a known order of sums",
     "arithmetic or tiles that follow the number of tokens",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::quantize, Op::act_quant, Op::combine, Op::topk}),
                        needs_tokens(s, 2), own_scales(s), known_order(s)});
     },
     split_batch},
    {"P8", PropertyClass::exact, "Equal tokens give equal rows, wherever they are.", "two tokens",
     "a row that depends on its place, a race between tiles",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::quantize, Op::act_quant, Op::combine, Op::topk}),
                        needs_tokens(s, 2)});
     },
     equal_tokens},
    {"P19", PropertyClass::exact, "NaN in one token's input stays in its row.",
     "two tokens, scales of their own", "rows that leak over a tile, an epilogue or amax across rows",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::quantize}), needs_tokens(s, 2), own_scales(s)});
     },
     nan_in_a_token},
    {"P19b", PropertyClass::exact, "NaN in one expert's scales stays in the tokens that go there.",
     "a token that does not go there, scales of their own",
     "weights or scales of another expert, a leak over its tile",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1), own_scales(s), some_local_pair(s)});
     },
     nan_in_an_expert},
    {"P21", PropertyClass::exact, "A token of zeros gives a row of zeros.", "no bias",
     "a division by an amax of zero, a row that is not its own",
     [](const Subject& s) {
       return first_of(
           {only_for(s, {Op::moe_layer, Op::quantize, Op::grouped_gemm}), needs_tokens(s, 1), no_bias(s)});
     },
     zero_token},
    {"P41", PropertyClass::contract, "No token at all is taken, and one gives the row it gives among others.",
     "the row: a known order of sums",
     "a launch of an empty grid, a null pointer, a power-of-two test of zero",
     [](const Subject& s) { return needs_tokens(s, 1); }, no_token_and_one},
    {"P42", PropertyClass::exact, "A token's row does not depend on how many others go to its experts.",
     "two tokens, scales of their own",
     "an unmasked tail, a tile count that is off, an expert's rows of another",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 2), own_scales(s), some_local_pair(s)});
     },
     other_tokens_crowd},
};

}  // namespace

std::span<const Property> token_properties() { return kTable; }

}  // namespace moe::harness
