// What may a router's answer not depend on? A constant in the logits, a bias behind the choice, ties, NaN.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"

namespace moe::harness {
namespace {

std::string equal_logits(Subject& s) {
  TensorSet inputs = s.inputs();
  const auto logits = own(inputs, "router_logits").as<float>();
  std::fill(logits.begin(), logits.end(), 0.5f);
  const auto bias = own(inputs, "router_bias").as<float>();
  std::fill(bias.begin(), bias.end(), 0.0f);
  const TensorSet got = s.run(inputs);
  const auto ids = got.at("topk_ids").as<std::int32_t>();
  const int k = s.shape().top_k;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    s.note(1, 1);
    if (ids[i] != std::int32_t(i % std::size_t(k)))
      return fmt::format("token {} slot {} goes to expert {}; of equals the lower index comes first: {}",
                         i / std::size_t(k), i % std::size_t(k), ids[i], i % std::size_t(k));
  }
  return {};
}

/// Logits of a token that lie apart, so that no shift makes two of them equal.
bool lie_apart(std::span<const float> logits, float least) {
  std::vector<float> sorted(logits.begin(), logits.end());
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (!(sorted[i] - sorted[i - 1] > least)) return false;
  return true;
}

std::string ids_stay(Subject& s, const TensorSet& got, const TensorSet& before,
                     const std::vector<bool>& asked) {
  const auto a = got.at("topk_ids").as<std::int32_t>(), b = before.at("topk_ids").as<std::int32_t>();
  const auto k = std::size_t(s.shape().top_k);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!asked[i / k]) continue;
    s.note(1, 1);
    if (a[i] != b[i])
      return fmt::format("token {} slot {} goes to expert {}, {} is due", i / k, i % k, a[i], b[i]);
  }
  return {};
}

std::string shifted_logits(Subject& s) {
  const Tensor& before = s.inputs().at("router_logits");
  const auto experts = std::size_t(s.shape().experts);
  std::vector<bool> asked;
  float largest = 0;
  for (std::size_t t = 0; t < std::size_t(s.shape().tokens); ++t) {
    const auto row = before.as<float>().subspan(t * experts, experts);
    for (const float x : row) largest = std::max(largest, std::isfinite(x) ? std::fabs(x) : 0.0f);
    asked.push_back(lie_apart(row, 1e-4f));
  }
  for (const float shift : {4.0f, -(largest + 1.0f)}) {  // the second makes all logits negative
    TensorSet inputs = s.inputs();
    for (float& x : own(inputs, "router_logits").as<float>()) x += shift;
    if (std::string found = ids_stay(s, s.run(inputs), s.outputs(), asked); !found.empty())
      return fmt::format("logits {:+}: {}", shift, found);
  }
  return {};
}

std::string shifted_bias(Subject& s) {
  TensorSet inputs = s.inputs();
  for (float& b : own(inputs, "router_bias").as<float>()) b += 1.0f;
  const TensorSet got = s.run(inputs);
  const Tensor &ids = got.at("topk_ids"), &before = s.outputs().at("topk_ids");
  RowMap same(std::size_t(s.shape().tokens), -1);
  const auto k = std::size_t(s.shape().top_k);
  for (std::size_t t = 0; t < same.size(); ++t) {  // a sum with the bias may have made a tie
    const auto a = ids.as<std::int32_t>().subspan(t * k, k), b = before.as<std::int32_t>().subspan(t * k, k);
    if (std::equal(a.begin(), a.end(), b.begin())) same[t] = std::int64_t(t);
  }
  return difference(s, inputs, got, s.outputs(), {same, {}, {}, false, {"topk_weights"}});
}

std::string nan_logits(Subject& s) {
  const auto experts = std::size_t(s.shape().experts), k = std::size_t(s.shape().top_k);
  const std::int64_t spoiled = std::min<std::int64_t>(2, s.shape().tokens);
  TensorSet inputs = s.inputs();
  const auto logits = own(inputs, "router_logits").as<float>();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(logits.begin(), experts, nan);  // token 0: all
  if (spoiled > 1) logits[experts] = nan;     // token 1: one
  const TensorSet got = s.run(inputs);
  const auto ids = got.at("topk_ids").as<std::int32_t>();
  for (std::size_t t = 0; t < std::size_t(spoiled); ++t) {
    std::set<std::int32_t> seen;
    for (std::size_t j = 0; j < k; ++j) {
      const std::int32_t id = ids[t * k + j];
      s.note(1, 1);
      if (id < 0 || id >= std::int32_t(experts))
        return fmt::format("token {} goes to expert {}, which is none", t, id);
      if (!seen.insert(id).second) return fmt::format("token {} goes to expert {} twice", t, id);
    }
  }
  RowMap others = identity_map(s.shape().tokens);
  for (std::int64_t t = 0; t < spoiled; ++t) others[std::size_t(t)] = -1;
  return difference(s, inputs, got, s.outputs(), {others, {}, {}, false, {}});
}

std::string monotone(const Subject& s) {
  switch (s.problem().routing.router.kind) {
    case RouterKind::softmax:
    case RouterKind::softmax_grouped:
    case RouterKind::topk_softmax:
    case RouterKind::top1_sigmoid:
      return {};
    default:
      return "its scores saturate or have a bias";
  }
}

std::string has_bias(const Subject& s) {
  switch (s.problem().routing.router.kind) {
    case RouterKind::sigmoid_bias:
    case RouterKind::sigmoid_grouped:
    case RouterKind::sqrt_softplus:
      return {};
    default:
      return "its router has no bias";
  }
}

const Property kTable[] = {
    {"P37", PropertyClass::contract, "Of experts with equal scores the lower index comes first.",
     "op topk, one group", "an order that follows threads, a race",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::topk}), needs_tokens(s, 1),
                        s.problem().routing.router.groups > 1 ? "its groups tie as well" : ""});
     },
     equal_logits},
    {"P38", PropertyClass::exact, "A constant added to all logits, below zero too, changes no choice.",
     "op topk, a score that is monotone in the logit, logits that lie apart",
     "a masked score of 0 instead of minus infinity, a start value of 0",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::topk}), needs_tokens(s, 1), monotone(s)});
     },
     shifted_logits},
    {"P38b", PropertyClass::exact, "A routing weight does not depend on the bias that chose its expert.",
     "op topk, a router with a bias", "a weight taken from the biased score",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::topk}), needs_tokens(s, 1), has_bias(s)});
     },
     shifted_bias},
    {"P39", PropertyClass::contract,
     "NaN logits give ids that exist, each once, and leave other tokens alone.", "op topk",
     "comparisons that NaN makes false, an id that is none",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::topk}), needs_tokens(s, 1)});
     },
     nan_logits},
};

}  // namespace

std::span<const Property> router_properties() { return kTable; }

}  // namespace moe::harness
