// Which shapes and tiles compute the same? Slices, zero blocks, permuted blocks, every layout and tile.
#include <fmt/format.h>

#include <algorithm>

#include "fixtures/problem/exact_layer.hpp"
#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kBlock = kScaleBlock;

/// 0..n-1 and `more` times -1 (zeros).
RowMap longer(std::int64_t n, std::int64_t more) {
  RowMap map = identity_map(n);
  map.insert(map.end(), std::size_t(more), -1);
  return map;
}

void take_columns_if(TensorSet& set, const char* name, const RowMap& columns) {
  if (set.has(name)) take_columns(set, name, columns);
}
RowMap range(std::int64_t first, std::int64_t count) {
  RowMap map;
  for (std::int64_t i = 0; i < count; ++i) map.push_back(first + i);
  return map;
}
RowMap joined(RowMap a, const RowMap& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A scale more, the first once again: zeros need one that is legal.
RowMap with_first(std::int64_t n) { return joined(identity_map(n), {0}); }

/// GEMM 1's rows and GEMM 2's columns of half h of the intermediate size.
TensorSet tensor_shard(const Subject& s, const TensorSet& whole, int h) {
  const std::int64_t inner = s.shape().intermediate, half = inner / 2;
  TensorSet inputs = whole;
  const auto rows = [&](std::int64_t unit) {
    const RowMap gate = range(h * half / unit, half / unit);
    return s.shape().gated() ? joined(gate, range((inner + h * half) / unit, half / unit)) : gate;
  };
  take_middle(inputs, "w13", rows(1));
  take_middle(inputs, "w13_scale", rows(kBlock));
  take_columns(inputs, "w2", range(h * half, half));
  take_columns(inputs, "w2_scale", range(h * half / kBlock, half / kBlock));
  return inputs;
}

std::string tensor_shards(Subject& s) {
  Case c = s.case_of(DataMode::exact);
  const TensorSet exact = s.inputs_of(DataMode::exact), whole = s.run_as(c, exact);
  if (!whole.has("gemm2")) throw NotApplicable("the kernel does not show gemm2");
  c.problem.shape.tp = 2;
  const TensorSet first = s.run_as(c, tensor_shard(s, exact, 0)),
                  second = s.run_as(c, tensor_shard(s, exact, 1));
  const Tensor &a = first.at("gemm2"), &b = second.at("gemm2"), &sum = whole.at("gemm2");
  const auto ids = ids_of(exact);
  for (std::int64_t i = 0; i < sum.size(); ++i) {
    if (!s.is_local(ids[std::size_t(i / sum.dim(1))])) continue;
    const double left = value_at(a, i), right = value_at(b, i), due = value_at(sum, i);
    const double bound = bf16_half_ulp(left) + bf16_half_ulp(right) + bf16_half_ulp(due);
    std::string found = outside(s, "the sum of the shards' gemm2", i / sum.dim(1), i % sum.dim(1),
                                {left + right, due, bound});
    if (!found.empty()) return found;
  }
  return {};
}

std::string half_of_the_columns(Subject& s) {
  Case c = s.trial();
  const TensorSet whole = s.outputs();
  TensorSet inputs = s.inputs();
  const std::int64_t n = inputs.at("w").dim(1), half = n / 2;
  (s.problem().gemm == 1 ? c.problem.shape.intermediate : c.problem.shape.hidden) /= 2;
  take_middle(inputs, "w", range(0, half));
  take_columns_if(inputs, "w_bias", range(0, half));
  if (s.problem().quant.block()) take_middle(inputs, "w_scale", range(0, half / kBlock));
  if (s.problem().quant.kind == QuantKind::token_channel) take_columns(inputs, "w_scale", range(0, half));
  TensorSet due = whole;
  take_columns(due, "c", range(0, half));
  return difference(s, s.inputs(), s.run_as(c, inputs), due);
}

/// Columns of the activation codes and of the weights, and blocks of their scales, in another order or with
/// zeros behind.
void take_k(const Problem& p, TensorSet& inputs, const RowMap& columns, const RowMap& blocks) {
  take_columns(inputs, "a_codes", columns);
  take_columns(inputs, "w", columns);
  if (!p.quant.block()) return;
  take_columns(inputs, "w_scale", blocks);
  if (p.quant.scale_layout == ScaleLayout::mn_major)
    take_rows(inputs, "a_scale", blocks);
  else
    take_columns(inputs, "a_scale", blocks);
}

std::string permuted_blocks(Subject& s) {
  const Case c = s.case_of(DataMode::exact);
  const TensorSet exact = s.inputs_of(DataMode::exact), due = s.run_as(c, exact);
  const std::int64_t k = exact.at("w").dim(2);
  const RowMap blocks = shuffled(k / kBlock, s.problem().seed);
  RowMap columns;
  for (const std::int64_t b : blocks) columns = joined(columns, range(b * kBlock, kBlock));
  TensorSet inputs = exact;
  take_k(s.problem(), inputs, columns, blocks);
  return difference(s, inputs, s.run_as(c, inputs), due);
}

std::string zero_block_of_gemm(Subject& s) {
  Case c = s.trial();
  const TensorSet due = s.outputs();
  TensorSet inputs = s.inputs();
  const std::int64_t k = inputs.at("w").dim(2);
  (s.problem().gemm == 1 ? c.problem.shape.hidden : c.problem.shape.intermediate) += kBlock;
  take_k(s.problem(), inputs, longer(k, kBlock), with_first(k / kBlock));
  return difference(s, s.inputs(), s.run_as(c, inputs), due);
}

/// hidden is K of GEMM 1 and N of GEMM 2: zeros in front, unread columns behind.
std::string zero_block_of_layer(Subject& s) {
  Case c = s.trial();
  const TensorSet whole = s.outputs();
  TensorSet inputs = s.inputs();
  const std::int64_t hidden = s.shape().hidden;
  c.problem.shape.hidden += kBlock;
  take_columns(inputs, "hidden", longer(hidden, kBlock));
  take_columns(inputs, "w13", longer(hidden, kBlock));
  take_middle(inputs, "w2", longer(hidden, kBlock));
  take_columns_if(inputs, "w2_bias", longer(hidden, kBlock));
  if (s.problem().quant.block()) {
    take_columns(inputs, "w13_scale", with_first(hidden / kBlock));
    take_middle(inputs, "w2_scale", with_first(hidden / kBlock));
  }
  if (s.problem().quant.kind == QuantKind::token_channel)
    take_columns(inputs, "w2_scale", joined(identity_map(hidden), range(0, kBlock)));
  TensorSet got = s.run_as(c, inputs);
  for (const char* name : {"gemm2", "out"})
    if (got.has(name)) take_columns(got, name, range(0, hidden));
  return difference(s, s.inputs(), got, whole,
                    {{}, {}, {}, false, {"gemm1", "act_codes", "act_scale", "gemm2", "out"}});
}

std::string zero_block_of_k(Subject& s) {
  return s.op() == Op::moe_layer ? zero_block_of_layer(s) : zero_block_of_gemm(s);
}

/// 128 more columns of the activation that are zero (up rows of zeros; gates where up alone is not enough).
std::string zero_channels(Subject& s) {
  Case c = s.trial();
  const TensorSet whole = s.outputs();
  TensorSet inputs = s.inputs();
  const std::int64_t inner = s.shape().intermediate;
  c.problem.shape.intermediate += kBlock;
  const bool gated = s.shape().gated(), open = s.shape().activation == Activation::silu_mul_clamped;
  const auto rows = [&](std::int64_t unit, bool scales) {
    const RowMap first = range(0, kBlock / unit),
                 zeros = scales ? first : RowMap(std::size_t(kBlock / unit), -1);
    if (!gated) return joined(identity_map(inner / unit), zeros);
    const RowMap gates = open ? zeros : first;
    return joined(joined(joined(range(0, inner / unit), gates), range(inner / unit, inner / unit)), zeros);
  };
  const QuantScheme& quant = s.problem().quant;
  take_middle(inputs, "w13", rows(1, false));
  if (quant.block()) take_middle(inputs, "w13_scale", rows(kBlock, true));
  if (quant.kind == QuantKind::token_channel) take_columns(inputs, "w13_scale", rows(1, true));
  take_columns_if(inputs, "w13_bias", rows(1, false));
  take_columns(inputs, "w2", joined(identity_map(inner), range(0, kBlock)));
  if (quant.block()) take_columns(inputs, "w2_scale", with_first(inner / kBlock));
  return difference(s, s.inputs(), s.run_as(c, inputs), whole, {{}, {}, {}, false, {"gemm2", "out"}});
}

std::string choice_agrees(Subject& s, const Case& base, const TensorSet& inputs, const TensorSet& due,
                          Layout layout, int block_m) {
  Case c = base;
  c.choice.layout = layout;
  c.choice.tile = {.block_m = block_m, .block_n = 128};
  c.choice.tile_down = c.choice.tile;
  std::string found = difference(s, inputs, s.run_as(c, inputs), due);
  return found.empty() ? found : fmt::format("{} {}: {}", moe::name(layout), block_m, found);
}

std::string swapped(Subject& s) {
  const TensorSet due = s.outputs();
  const bool swap = s.trial().choice.layout == Layout::swap_ab;
  return choice_agrees(s, s.trial(), s.inputs(), due, swap ? Layout::normal_wgmma : Layout::swap_ab,
                       swap ? 64 : 16);
}

std::string every_tile(Subject& s) {
  const Case c = s.case_of(DataMode::exact);
  const TensorSet exact = s.inputs_of(DataMode::exact), due = s.run_as(c, exact);
  constexpr std::pair<Layout, int> kTiles[] = {{Layout::normal_mma, 16},   {Layout::normal_mma, 32},
                                               {Layout::normal_wgmma, 64}, {Layout::normal_wgmma, 128},
                                               {Layout::swap_ab, 8},       {Layout::swap_ab, 32},
                                               {Layout::swap_ab, 128}};
  for (const auto& [layout, block_m] : kTiles)
    if (std::string found = choice_agrees(s, c, exact, due, layout, block_m); !found.empty()) return found;
  return {};
}

std::string other_scale_layout(Subject& s) {
  Case c = s.trial();
  const TensorSet due = s.outputs();
  TensorSet inputs = s.inputs();
  const Tensor old = inputs.at("a_scale");
  const bool mn_major = s.problem().quant.scale_layout == ScaleLayout::mn_major;
  const Tensor& codes = inputs.at("a_codes");
  const std::int64_t blocks = codes.shape().back() / kBlock, rows = codes.size() / codes.shape().back();
  const std::int64_t padded = (rows + 3) / 4 * 4;
  Tensor turned("a_scale", DType::f32, mn_major ? std::vector{rows, blocks} : std::vector{blocks, padded});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t mn = b * padded + r, row = r * blocks + b;
      turned.as<float>()[std::size_t(mn_major ? row : mn)] =
          old.as<float>()[std::size_t(mn_major ? mn : row)];
    }
  replace(inputs, turned);
  c.problem.quant.scale_layout = mn_major ? ScaleLayout::row : ScaleLayout::mn_major;
  return difference(s, s.inputs(), s.run_as(c, inputs), due);
}

std::string divides(std::int64_t value, std::int64_t unit, const char* what) {
  return value % unit == 0 ? "" : fmt::format("{} {} is no multiple of {}", what, value, unit);
}

std::string exact_twin_is_exact(const Subject& s) {
  Problem p = s.problem();
  p.data = DataMode::exact;
  return exact_layer_data(p) ? "" : "no exact data exist for its activation and sizes";
}

const Property kTable[] = {
    {"P5", PropertyClass::exact, "Swapped operands give the bits of unswapped ones.",
     "built-in kernels, wgmma layouts",
     "rows written for columns, scales of the other operand, a tail of the other side",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1),
                        built_in(s, "the layout is the kernel's own"),
                        s.trial().choice.layout == Layout::normal_mma ? "normal_mma rounds otherwise" : "",
                        s.op() == Op::grouped_gemm && s.problem().contract == Contract::routed
                            ? "its blocks follow the tile"
                            : ""});
     },
     swapped},
    {"P25", PropertyClass::bounded, "The tensor-parallel shards add up to the whole.",
     "exact data, block scales, tp 1, intermediate a multiple of 256, no bias, gemm2 shown",
     "a shard's weights or scales at a wrong offset",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1), no_bias(s),
                        s.problem().quant.block() ? "" : "its scales are not blocks of 128",
                        s.shape().tp == 1 ? "" : "it needs tp 1",
                        divides(s.shape().intermediate, 256, "intermediate"), exact_twin_is_exact(s)});
     },
     tensor_shards},
    {"P26", PropertyClass::exact, "Half of the weight rows give half of the columns.",
     "grouped_gemm, tp 1, a known order of sums",
     "a column tile that reads its neighbour's weights or scales",
     [](const Subject& s) {
       const bool first = s.problem().gemm == 1;
       return first_of({only_for(s, {Op::grouped_gemm}), needs_tokens(s, 1), known_order(s),
                        s.shape().tp == 1 ? "" : "it needs tp 1",
                        divides(first ? s.shape().intermediate : s.shape().hidden,
                                s.problem().quant.block() ? 256 : 32, first ? "intermediate" : "hidden")});
     },
     half_of_the_columns},
    {"P27", PropertyClass::exact, "The blocks of K may stand in any order.",
     "grouped_gemm, exact data, K of 256 or more",
     "a scale that does not follow its block, a stage that is read twice",
     [](const Subject& s) {
       const std::int64_t k = s.problem().gemm == 1 ? s.shape().hidden : s.shape().local_intermediate();
       return first_of({only_for(s, {Op::grouped_gemm}), needs_tokens(s, 1), divides(k, kBlock, "K"),
                        k < 256 ? "K has one block" : ""});
     },
     permuted_blocks},
    {"P28", PropertyClass::exact, "A block of zeros behind K changes nothing.", "tp 1, a known order of sums",
     "a k loop that ends early or late, a scale of the block behind",
     [](const Subject& s) {
       const std::int64_t k = s.op() == Op::grouped_gemm && s.problem().gemm == 2
                                  ? s.shape().local_intermediate()
                                  : s.shape().hidden;
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1), known_order(s),
                        s.shape().tp == 1 ? "" : "it needs tp 1", divides(k, kBlock, "K")});
     },
     zero_block_of_k},
    {"P29", PropertyClass::exact, "128 more activation channels of zeros change nothing.",
     "tp 1, intermediate a multiple of 128, a known order of sums",
     "0/0 in a requantisation, a block that reads its neighbour",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1), known_order(s),
                        s.shape().tp == 1 ? "" : "it needs tp 1",
                        divides(s.shape().intermediate, kBlock, "intermediate")});
     },
     zero_channels},
    {"P31", PropertyClass::exact, "Every layout and tile gives the same.", "built-in kernels, exact data",
     "a tile with a wrong tail, stage count or schedule",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1),
                        built_in(s, "the tile is the kernel's own"),
                        s.op() == Op::moe_layer                    ? exact_twin_is_exact(s)
                        : s.problem().contract == Contract::routed ? "its blocks follow the tile"
                                                                   : ""});
     },
     every_tile},
    {"P44", PropertyClass::exact, "Activation scales may lie in rows or columns.",
     "grouped_gemm, block scales",
     "a scale tensor that is read transposed, a stride that is taken for a width",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::grouped_gemm}), needs_tokens(s, 1),
                        s.problem().quant.block() ? "" : "its scales are not blocks of 128"});
     },
     other_scale_layout},
};

}  // namespace

std::span<const Property> shape_properties() { return kTable; }

}  // namespace moe::harness
