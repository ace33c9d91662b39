// The rules are those of fixtures/problem/routers.cpp (sources there), here in double.
#include "reference/topk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "fixtures/problem/routing.hpp"
#include "reference/operands.hpp"
#include "reference/parallel.hpp"

namespace moe::reference {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// One token: real scores, what selection ranks by, and how far fp32 may be from either.
struct Scores {
  std::vector<double> score, selection, tolerance;
};

double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

double score_of(RouterKind kind, double logit) {
  switch (kind) {
    case RouterKind::sigmoid_bias:
    case RouterKind::sigmoid_grouped:
      return 1 / (1 + std::exp(-logit));
    case RouterKind::sqrt_softplus:
      return std::sqrt(softplus(logit));
    default:
      return logit;
  }
}

bool is_softmax(RouterKind kind) {
  return kind == RouterKind::softmax || kind == RouterKind::softmax_grouped;
}

Scores real_scores(const RouterSpec& spec, std::span<const float> logits, std::span<const float> bias) {
  Scores row;
  double largest = kLowest, sum = 0;
  for (const float x : logits) largest = std::fmax(largest, x);
  if (is_softmax(spec.kind))
    for (const float x : logits) sum += std::isnan(x) ? 0 : std::exp(x - largest);
  const bool raw = spec.kind == RouterKind::top1_sigmoid || spec.kind == RouterKind::topk_softmax;
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const double x = logits[e];
    const double score = is_softmax(spec.kind) ? std::exp(x - largest) / sum : score_of(spec.kind, x);
    const double added = raw || is_softmax(spec.kind) ? 0 : double(bias[e]);
    // fp32 exp: 2^-24 (12 + 3 |argument|), as reference/activation.cpp has it; a few sums and roundings more.
    const double argument = std::fmin(is_softmax(spec.kind) ? largest - x : std::fabs(x), 90);
    row.score.push_back(std::isnan(x) ? 0 : score);
    row.selection.push_back(std::isnan(x) || std::isnan(added) ? kLowest : score + added);
    row.tolerance.push_back(raw ? 0
                                : (24 + 3 * argument) * 0x1p-24 * std::fabs(score) +
                                      0x1p-24 * std::fabs(added) + 0x1p-24 * std::fabs(score + added) +
                                      0x1p-126);
  }
  return row;
}

// Groups that are surely kept (+1), surely dropped (-1) or tied (0).
std::vector<int> group_state(const RouterSpec& spec, const Scores& row) {
  const std::size_t groups = std::size_t(spec.groups), size = row.selection.size() / groups;
  std::vector<double> low(groups), high(groups);
  for (std::size_t g = 0; g < groups; ++g) {
    std::vector<double> lows, highs;
    for (std::size_t e = g * size; e < (g + 1) * size; ++e) {
      lows.push_back(row.selection[e] - row.tolerance[e]);
      highs.push_back(row.selection[e] + row.tolerance[e]);
    }
    std::sort(lows.rbegin(), lows.rend());
    std::sort(highs.rbegin(), highs.rend());
    const bool two = spec.kind == RouterKind::sigmoid_grouped && size > 1;
    low[g] = two ? lows[0] + lows[1] : lows[0];
    high[g] = two ? highs[0] + highs[1] : highs[0];
    const double rounding = two ? 0x1p-24 * std::fabs(high[g]) : 0;
    low[g] -= rounding, high[g] += rounding;
  }
  std::vector<int> state(groups, 0);
  for (std::size_t g = 0; g < groups; ++g) {
    int may_beat = 0, must_beat = 0;
    for (std::size_t o = 0; o < groups; ++o) {
      if (o == g) continue;
      may_beat += high[o] >= low[g];
      must_beat += low[o] > high[g];
    }
    state[g] = may_beat < spec.topk_groups ? 1 : must_beat >= spec.topk_groups ? -1 : 0;
  }
  return state;
}

std::string check_ids(const RouterSpec& spec, const Scores& row, std::span<const std::int32_t> ids) {
  const bool grouped = spec.kind == RouterKind::softmax_grouped || spec.kind == RouterKind::sigmoid_grouped;
  const std::vector<int> state = grouped ? group_state(spec, row) : std::vector<int>{1};
  const std::size_t experts = row.selection.size(), size = experts / state.size();
  std::set<std::int32_t> chosen;
  std::set<std::size_t> groups;
  double least_high = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < ids.size(); ++j) {
    const std::int32_t id = ids[j];
    if (id < 0 || std::size_t(id) >= experts) return fmt::format("slot {}: expert {} does not exist", j, id);
    if (!chosen.insert(id).second) return fmt::format("slot {}: expert {} is chosen twice", j, id);
    groups.insert(std::size_t(id) / size);
    if (state[std::size_t(id) / size] < 0)
      return fmt::format("slot {}: expert {} is of a group that is not kept", j, id);
    const double high = row.selection[std::size_t(id)] + row.tolerance[std::size_t(id)];
    const double low = row.selection[std::size_t(id)] - row.tolerance[std::size_t(id)];
    if (low > least_high)
      return fmt::format("slot {}: expert {} scores above the slot in front of it", j, id);
    least_high = std::fmin(least_high, high);
  }
  if (grouped && groups.size() > std::size_t(spec.topk_groups))
    return fmt::format("experts of {} groups are chosen, at most {} may be", groups.size(), spec.topk_groups);
  for (std::size_t e = 0; e < experts; ++e)
    if (state[e / size] > 0 && !chosen.contains(std::int32_t(e)) &&
        row.selection[e] - row.tolerance[e] > least_high)
      return fmt::format("expert {} is left out with selection score {} above the least chosen", e,
                         row.selection[e]);
  return {};
}

// Real weights of the chosen experts, in slot order.
std::vector<double> real_weights(const RouterSpec& spec, const Scores& row,
                                 std::span<const std::int32_t> ids) {
  std::vector<double> weights;
  double sum = 0;
  for (const std::int32_t id : ids) {
    double w = row.score[std::size_t(id)];
    if (spec.kind == RouterKind::topk_softmax) w = std::exp(w - row.score[std::size_t(ids[0])]);
    if (spec.kind == RouterKind::top1_sigmoid) w = 1 / (1 + std::exp(-w));
    weights.push_back(w);
    sum += w;
  }
  const bool divide =
      spec.kind == RouterKind::topk_softmax || (spec.renormalise && spec.kind != RouterKind::top1_sigmoid);
  const double guarded = !is_softmax(spec.kind) ? sum + 1e-20 : sum == 0 ? 1 : sum;  // fixtures/README.md
  const double divisor = divide ? guarded : 1;
  for (double& w : weights) w = w / divisor * spec.scale;
  return weights;
}

// NaN anywhere, or nothing finite to rank by: the fallbacks are rules of their own, and only bits can judge
// them.
bool plain(std::span<const float> logits, std::span<const float> bias) {
  const auto finite = [](float x) { return std::isfinite(x); };
  return std::all_of(logits.begin(), logits.end(), finite) && std::all_of(bias.begin(), bias.end(), finite);
}

TopkRow judge_row(const RouterSpec& spec, std::int64_t token, std::span<const float> logits,
                  std::span<const float> bias, std::span<const std::int32_t> ids,
                  std::span<const float> weights, std::span<const std::int32_t> routed,
                  std::span<const float> routed_weights) {
  TopkRow result{token, true, !std::equal(ids.begin(), ids.end(), routed.begin()), 0, {}};
  if (!plain(logits, bias)) {
    result.right =
        !result.tied && std::memcmp(weights.data(), routed_weights.data(), weights.size_bytes()) == 0;
    if (!result.right) result.wrong = "a row with logits that are not finite differs from the rule";
    return result;
  }
  const Scores row = real_scores(spec, logits, bias);
  result.wrong = check_ids(spec, row, ids);
  result.right = result.wrong.empty();
  if (!result.right) return result;
  const std::vector<double> want = real_weights(spec, row, ids);
  const double spread = std::fmin(double(*std::max_element(logits.begin(), logits.end())) -
                                      *std::min_element(logits.begin(), logits.end()),
                                  90.0) +
                        std::fmin(std::fabs(double(*std::min_element(logits.begin(), logits.end()))), 90.0);
  for (std::size_t j = 0; j < want.size(); ++j) {
    const double allowed = std::fabs(want[j]) * (96 + 6 * spread) * 0x1p-24 + 1e-30;
    const double ratio = std::fabs(weights[j] - want[j]) / allowed;
    result.worst_ratio =
        std::fmax(result.worst_ratio, std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio);
    if (ratio <= 1 || !result.right) continue;
    result.right = false;
    result.wrong =
        fmt::format("slot {}: weight {} of expert {}, should be {}", j, weights[j], ids[j], want[j]);
  }
  return result;
}

}  // namespace

std::vector<TopkRow> judge_topk(const Problem& problem, StageTensors tensors,
                                std::span<const std::int64_t> tokens, int threads) {
  const StageTruth bits = topk_truth(problem, tensors, tokens);
  const auto logits = lookup(tensors.outputs, tensors.inputs, "router_logits").as<float>();
  const auto bias = lookup(tensors.outputs, tensors.inputs, "router_bias").as<float>();
  const auto ids = tensors.outputs.at("topk_ids").as<std::int32_t>();
  const auto weights = tensors.outputs.at("topk_weights").as<float>();
  const auto routed = bits.at("topk_ids").bits.as<std::int32_t>();
  const auto routed_weights = bits.at("topk_weights").bits.as<float>();
  const std::size_t experts = std::size_t(problem.shape.experts), k = std::size_t(problem.shape.top_k);
  std::vector<TopkRow> rows(tokens.size());
  parallel_for(std::int64_t(tokens.size()), threads, [&](std::int64_t i) {
    const std::size_t token = std::size_t(tokens[std::size_t(i)]);
    rows[std::size_t(i)] =
        judge_row(problem.routing.router, tokens[std::size_t(i)], logits.subspan(token * experts, experts),
                  bias, ids.subspan(token * k, k), weights.subspan(token * k, k),
                  routed.subspan(std::size_t(i) * k, k), routed_weights.subspan(std::size_t(i) * k, k));
  });
  return rows;
}

StageTruth topk_truth(const Problem& problem, StageTensors tensors, std::span<const std::int64_t> tokens) {
  const auto logits = lookup(tensors.outputs, tensors.inputs, "router_logits").as<float>();
  const auto bias = lookup(tensors.outputs, tensors.inputs, "router_bias").as<float>();
  const std::size_t experts = std::size_t(problem.shape.experts);
  const std::int64_t k = problem.shape.top_k, count = std::int64_t(tokens.size());
  std::vector<float> chosen;
  for (const std::int64_t token : tokens) {
    const auto row = logits.subspan(std::size_t(token) * experts, experts);
    chosen.insert(chosen.end(), row.begin(), row.end());
  }
  MoeShape shape = problem.shape;
  shape.tokens = count;
  const Routing routing = route(problem.routing.router, shape, chosen, {bias.begin(), bias.end()});
  StageTruth truth{"topk",
                   {{"topk_ids",
                     DType::i32,
                     k,
                     {tokens.begin(), tokens.end()},
                     Tensor("topk_ids", DType::i32, {count, k}),
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {}},
                    {"topk_weights",
                     DType::f32,
                     k,
                     {tokens.begin(), tokens.end()},
                     Tensor("topk_weights", DType::f32, {count, k}),
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {}}}};
  std::copy(routing.ids.begin(), routing.ids.end(), truth.tensors[0].bits.as<std::int32_t>().begin());
  std::copy(routing.weights.begin(), routing.weights.end(), truth.tensors[1].bits.as<float>().begin());
  return truth;
}

}  // namespace moe::reference
