// What may an expert's number, its absence or its zeros change? Nothing.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

constexpr int kNanCode = 0x7F, kMaxCode = 0x7E;
constexpr std::int32_t kStaleId = 2071690107;  // bits of a bf16 pair read as an id
const char* const kWeightTensors[] = {"w13", "w13_scale", "w13_bias", "w2", "w2_scale", "w2_bias"};
const char* const kGemmTensors[] = {"w", "w_scale", "w_bias"};

void take_experts(TensorSet& inputs, const RowMap& experts) {
  for (const char* name : kWeightTensors)
    if (inputs.has(name)) take_rows(inputs, name, experts);
  for (const char* name : kGemmTensors)
    if (inputs.has(name)) take_rows(inputs, name, experts);
}

std::string relabel_groups(Subject& s, const RowMap& experts) {
  TensorSet inputs = s.inputs();
  take_experts(inputs, experts);
  take_rows(inputs, "counts", experts);
  const std::int64_t each = inputs.at("a_codes").dim(1);
  RowMap rows;
  for (const std::int64_t e : experts)
    for (std::int64_t r = 0; r < each; ++r) rows.push_back(e * each + r);
  take_activation_rows(s.problem(), inputs, rows);
  return difference(s, inputs, s.run(inputs), s.outputs(), {{}, rows, {}, false, {}});
}

std::string relabel_experts(Subject& s) {
  const RowMap experts =
      shuffled(s.shape().local_experts(), s.problem().seed);  // new expert i was experts[i]
  if (s.op() == Op::grouped_gemm) return relabel_groups(s, experts);
  TensorSet inputs = s.inputs();
  take_experts(inputs, experts);
  own(inputs, "topk_ids");
  std::vector<std::int32_t> now(experts.size());
  for (std::size_t i = 0; i < experts.size(); ++i) now[std::size_t(experts[i])] = std::int32_t(i);
  for (std::int32_t& id : ids_of(inputs))
    if (s.is_local(id)) id = s.first_expert() + now[std::size_t(id - s.first_expert())];
  Rule rule;
  if (s.shape().top_k > 1 && !s.plan().known_arithmetic)  // it may add experts in their order
    rule.tensors = {"gemm1", "act_codes", "act_scale", "gemm2"};
  return difference(s, inputs, s.run(inputs), s.outputs(), rule);
}

/// Local experts that no row goes to.
std::vector<int> unused_experts(const Subject& s) {
  std::vector<bool> used(std::size_t(s.shape().local_experts()), false);
  if (s.op() == Op::grouped_gemm) {
    for (const OwnedRow& r : owned_rows(s.problem(), s.inputs()))
      if (r.expert >= 0) used[std::size_t(r.expert)] = true;
  }
  for (const std::int32_t id : ids_of(s.inputs()))
    if (s.is_local(id)) used[std::size_t(id - s.first_expert())] = true;
  std::vector<int> unused;
  for (std::size_t e = 0; e < used.size(); ++e)
    if (!used[e]) unused.push_back(int(e));
  return unused;
}

/// Rows of a_codes that no group owns.
std::vector<std::int64_t> padding_rows(const Subject& s) {
  if (s.op() != Op::grouped_gemm || s.problem().contract == Contract::routed) return {};
  const Tensor& codes = s.inputs().at("a_codes");
  std::vector<bool> owned(std::size_t(codes.size() / std::max<std::int64_t>(codes.shape().back(), 1)), false);
  for (const OwnedRow& r : owned_rows(s.problem(), s.inputs())) owned[std::size_t(r.row)] = true;
  std::vector<std::int64_t> rows;
  for (std::size_t r = 0; r < owned.size(); ++r)
    if (!owned[r]) rows.push_back(std::int64_t(r));
  return rows;
}

void fill_padding(const Subject& s, TensorSet& inputs, int code, float scale) {
  const std::vector<std::int64_t> rows = padding_rows(s);
  if (rows.empty()) return;
  Tensor& codes = own(inputs, "a_codes");
  const auto width = std::size_t(codes.shape().back());
  for (const std::int64_t r : rows)
    std::fill_n(codes.data() + std::size_t(r) * width, width, std::byte(code));
  const QuantScheme& quant = s.problem().quant;
  if (quant.tensor()) return;
  Tensor& scales = own(inputs, "a_scale");
  const bool mn_major = quant.block() && quant.scale_layout == ScaleLayout::mn_major;
  const std::int64_t blocks = quant.block() ? std::int64_t(width) / kScaleBlock : 1;
  for (const std::int64_t r : rows)
    for (std::int64_t b = 0; b < blocks; ++b)
      scales.as<float>()[std::size_t(mn_major ? b * scales.shape().back() + r : r * blocks + b)] = scale;
}

std::string unowned_data(Subject& s) {
  const auto unused = unused_experts(s);
  if (unused.empty() && padding_rows(s).empty())
    throw NotApplicable("every expert has rows and none is padded");
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const auto& [code, scale] : {std::pair{kNanCode, nan}, std::pair{kMaxCode, inf}}) {
    TensorSet inputs = s.inputs();
    for (const int e : unused) {
      for (const char* name : {"w13", "w2", "w"})
        if (inputs.has(name)) fill_expert(inputs, name, e, code, scale);
    }
    fill_padding(s, inputs, code, scale);
    if (std::string found = difference(s, inputs, s.run(inputs), s.outputs()); !found.empty()) return found;
  }
  return {};
}

std::string zero_expert(Subject& s) {
  const int expert = first_used_expert(s);
  TensorSet zeroed = s.inputs(), weightless = s.inputs();
  for (const char* name : {"w13", "w2"}) fill_expert(zeroed, name, expert, 0, 1);
  own(weightless, "topk_weights");
  std::vector<std::int64_t> rows;
  const auto ids = ids_of(s.inputs());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != expert + s.first_expert()) continue;
    weights_of(weightless)[i] = 0;
    rows.push_back(std::int64_t(i));
  }
  const TensorSet got = s.run(zeroed);
  if (std::string found = nonzero_row(s, got, "gemm2", rows); !found.empty()) return found;
  return difference(s, zeroed, got, s.run(weightless), {{}, {}, {}, true, {"out"}});
}

std::string expert_shards(Subject& s) {
  const int half = s.shape().experts / 2, k = s.shape().top_k;
  TensorSet shard[2];
  const TensorSet whole = s.outputs();
  for (int r = 0; r < 2; ++r) {
    Case c = s.trial();
    c.problem.shape.ep = 2;
    c.problem.rank = r;
    TensorSet inputs = s.inputs();
    RowMap experts;
    for (int e = 0; e < half; ++e) experts.push_back(r * half + e);
    take_experts(inputs, experts);
    shard[r] = s.run_as(c, inputs);
  }
  const auto ids = ids_of(s.inputs());
  const Tensor &out = whole.at("out"), &left = shard[0].at("out"), &right = shard[1].at("out");
  for (std::int64_t t = 0; t < s.shape().tokens; ++t) {
    bool in[2] = {false, false};
    for (int j = 0; j < k; ++j)
      if (const std::int32_t id = ids[std::size_t(t * k + j)]; id >= 0) in[id >= half] = true;
    const bool mixed = in[0] && in[1];
    if (mixed && (!s.plan().known_arithmetic || !whole.has("gemm2"))) continue;
    for (std::int64_t c = 0; c < out.dim(1); ++c) {
      const std::int64_t i = t * out.dim(1) + c;
      const double sum = value_at(left, i) + value_at(right, i), due = value_at(out, i);
      double bound = 0;
      if (mixed)
        bound = CombineBound(s, s.inputs(), whole)(t, c, due, 0) + bf16_half_ulp(value_at(left, i)) +
                bf16_half_ulp(value_at(right, i));
      if (std::string found = outside(s, "the sum of the shards' out", t, c, {sum, due, bound});
          !found.empty())
        return found;
    }
  }
  return {};
}

bool names_expert(const Subject& s, std::int32_t id) {
  const auto ids = ids_of(s.inputs());
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::string one_expert_more(Subject& s) {
  Case c = s.trial();
  ++c.problem.shape.experts;
  TensorSet inputs = s.inputs();
  RowMap experts = identity_map(s.shape().experts);
  experts.push_back(-1);
  take_experts(inputs, experts);
  for (const char* name : {"w13", "w2"})
    fill_expert(inputs, name, s.shape().experts, kNanCode, std::numeric_limits<float>::quiet_NaN());
  const TensorSet whole = s.outputs();
  return difference(s, inputs, s.run_as(c, inputs), whole);
}

std::string no_expert(Subject& s) {
  const int k = s.shape().top_k;
  TensorSet weightless = s.inputs();
  own(weightless, "topk_weights");
  std::vector<std::size_t> slots;
  for (std::size_t t = 0; t < std::size_t(s.shape().tokens); t += 2)
    slots.push_back(t * std::size_t(k) + std::size_t(k) - 1);
  for (const std::size_t i : slots) weights_of(weightless)[i] = 0;
  const TensorSet due = s.run(weightless);
  for (const std::int32_t id : {std::int32_t(-1), kStaleId, std::int32_t(s.shape().experts)}) {
    if (id != -1 && s.plan().foreign) break;  // the contract knows -1 only
    TensorSet inputs = s.inputs();
    own(inputs, "topk_ids");
    for (const std::size_t i : slots) ids_of(inputs)[i] = id;
    std::string found = difference(s, inputs, s.run(inputs), due, {{}, {}, {}, true, {"out"}});
    if (!found.empty()) return fmt::format("id {}: {}", id, found);
  }
  return {};
}

std::string twice_the_same(Subject& s) {
  const int k = s.shape().top_k;
  TensorSet halves = s.inputs();
  own(halves, "topk_ids"), own(halves, "topk_weights");
  const auto ids = ids_of(halves);
  const auto weights = weights_of(halves);
  for (std::size_t i = 0; i < ids.size(); i += std::size_t(k)) {
    ids[i + 1] = ids[i];
    for (int j = 0; j < k; ++j) weights[i + std::size_t(j)] = j < 2 ? 0.5f : 0.0f;
  }
  TensorSet once = halves;
  own(once, "topk_weights");
  const auto single = weights_of(once);
  for (std::size_t i = 0; i < single.size(); ++i) single[i] = i % std::size_t(k) == 0 ? 1.0f : 0.0f;
  const TensorSet got = s.run(halves);
  RowMap second(std::size_t(s.shape().pairs()), -1);
  for (std::size_t i = 0; i < second.size(); i += std::size_t(k)) second[i + 1] = std::int64_t(i);
  Rule rows{{}, second, {}, false, {"gemm1", "act_codes", "act_scale", "gemm2"}};
  if (std::string found = difference(s, halves, got, got, rows); !found.empty()) return found;
  return difference(s, halves, got, s.run(once), {{}, {}, {}, true, {"out"}});
}

const Property kTable[] = {
    {"P2", PropertyClass::exact, "Experts may be numbered in any order.",
     "two local experts; the sum where top_k is 1 or the arithmetic is known",
     "weights, scales or biases of another expert, a prefix sum that is off",
     [](const Subject& s) {
       if (s.op() == Op::grouped_gemm && s.problem().contract != Contract::masked)
         return std::string("its groups stand in the order of the experts");
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1),
                        s.shape().local_experts() < 2 ? "it needs two experts" : ""});
     },
     relabel_experts},
    {"P6", PropertyClass::exact,
     "Padding rows, their scales and the weights of experts without rows never matter.",
     "an expert without rows, or padding",
     "NaN of padding that leaks over a tile, an expert that is run for nothing",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1)});
     },
     unowned_data},
    {"P22", PropertyClass::exact, "An expert of zeros adds nothing.",
     "no bias, a token that goes there, scales of their own",
     "0/0 in a requantisation, a stale row in the sum",
     [](const Subject& s) {
       return first_of(
           {only_for(s, {Op::moe_layer}), needs_tokens(s, 1), own_scales(s), no_bias(s), some_local_pair(s)});
     },
     zero_expert},
    {"P24", PropertyClass::bounded, "The expert-parallel shards add up to the whole.",
     "ep 1, an even number of experts, a known order of sums; exact where a token's experts share a shard",
     "an offset that is applied twice, a remote expert's stale row, a part that every rank adds",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), needs_tokens(s, 1), known_order(s), own_scales(s),
                        s.shape().ep != 1 || s.shape().experts % 2 != 0
                            ? "it needs ep 1 and an even number of experts"
                            : ""});
     },
     expert_shards},
    {"P30", PropertyClass::exact, "One more expert that no token goes to changes nothing.",
     "ep 1, a known order of sums", "a loop over all experts, a table that is sized for a power of two",
     [](const Subject& s) {
       return first_of(
           {only_for(s, {Op::moe_layer}), needs_tokens(s, 1), known_order(s),
            s.shape().ep != 1 ? "it needs ep 1" : "", no_bias(s),
            names_expert(s, s.shape().experts) ? "a stale id names the expert that would come" : ""});
     },
     one_expert_more},
    {"P40", PropertyClass::exact,
     "A slot without an expert (-1; built-in kernels: any id that is none) adds nothing.",
     "weights on the output, scales of their own",
     "-1 as an index, a test of negative ids only, a stale row in the sum",
     [](const Subject& s) {
       return first_of(
           {only_for(s, {Op::moe_layer}), needs_tokens(s, 1), own_scales(s), weights_on_output(s)});
     },
     no_expert},
    {"P44d", PropertyClass::contract, "An expert that a token names twice counts twice.",
     "top_k 2, built-in kernels: the contract of others has no such case",
     "one row for both slots, a counter that misses the second",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer}), built_in(s, "the contract has no expert twice"),
                        needs_tokens(s, 1), needs_slots(s, 2), some_local_pair(s)});
     },
     twice_the_same},
};

}  // namespace

std::span<const Property> expert_properties() { return kTable; }

}  // namespace moe::harness
