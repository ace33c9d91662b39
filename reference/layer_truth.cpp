// The whole layer from its inputs alone: as real numbers (ideal_layer) and as intervals (layer_truth). An
// activation that may have been quantised either way is an interval; a GEMM turns the radii into sum |w| r
// and adds its own bound.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fixtures/problem/number_formats.hpp"
#include "reference/activation.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/judged_pairs.hpp"
#include "reference/layer.hpp"
#include "reference/parallel.hpp"
#include "reference/quant_bound.hpp"
#include "reference/sparse_sum.hpp"
#include "reference/stage_rows.hpp"

namespace moe::reference {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Interval kAnything{-std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::infinity()};

using Intervals = std::vector<Interval>;  // row-major

struct Walk {
  const Problem& problem;
  const TensorSet& inputs;
  const TensorSet& routing;
  const TruthOptions& options;
  bool probable = false;  // carry the probable intervals instead of the hard ones
  StageTensors tensors() const { return {inputs, routing}; }
  bool dynamic() const { return problem.quant.kind == QuantKind::tensor_dynamic; }
  const Semantics* roundings() const { return options.semantics ? options.semantics : options.roundings; }
  SumOptions sums_over(std::int64_t k) const;
};

// Sums that one output depends on: their failures add up. A tensor-wide scale depends on every sum of GEMM 1.
double sums_behind_an_output(const Walk& walk) {
  const MoeShape& shape = walk.problem.shape;
  const double pairs = walk.dynamic() ? double(shape.pairs()) : double(shape.top_k);
  return pairs * double(shape.up_rows()) + shape.top_k;
}

SumOptions Walk::sums_over(std::int64_t k) const {
  return {
      accumulation_bound(options.semantics, problem.quant, k, probable ? sums_behind_an_output(*this) : 0),
      options.threads};
}

Interval amax_of_row(std::span<const Interval> row) {
  Interval amax{0, 0};
  for (const Interval& x : row) {
    amax.low = std::fmax(amax.low, x.mignitude());
    amax.high = std::fmax(amax.high, x.magnitude());
  }
  return amax;
}

// Whether a rule without floor may meet a group of zeros here, and then gives NaN, or not: nothing can be
// said.
bool may_divide_by_zero(const Walk& walk, Interval scale) {
  return walk.options.semantics && scale.low == 0 && scale.high > 0;
}

// Quantises and dequantises rows of intervals. `given`: the static scale; `whole`: the amax of all rows
// (dynamic).
// `open` (one a row, or null) is set where nothing can be said of the row.
RealActivations requantised(const Walk& walk, const Intervals& x, std::int64_t columns, float given,
                            Interval whole, std::vector<char>* open = nullptr) {
  const QuantScheme& scheme = walk.problem.quant;
  const std::int64_t rows = columns ? std::int64_t(x.size()) / columns : 0, blocks = (columns + 127) / 128;
  RealActivations real{columns, std::vector<double>(x.size()), std::vector<double>(x.size()),
                       std::vector<double>(std::size_t(rows * blocks))};
  const bool derived = scheme.kind != QuantKind::tensor_static;
  parallel_for(rows, walk.options.threads, [&](std::int64_t r) {
    for (std::int64_t g = 0; g < scale_groups(scheme.kind, columns); ++g) {
      const ColumnRange range = group_columns(scheme.kind, columns, g);
      const auto group =
          std::span(x).subspan(std::size_t(r * columns + range.first), std::size_t(range.count));
      const Interval amax = scheme.kind == QuantKind::tensor_dynamic ? whole : amax_of_row(group);
      const Interval scale =
          derived ? scale_interval(walk.options.semantics, scheme, amax) : Interval{given, given};
      if (open && may_divide_by_zero(walk, scale)) (*open)[std::size_t(r)] = 1;
      for (std::int64_t i = 0; i < range.count; ++i) {
        Interval value = dequantised_interval(group[std::size_t(i)], scale, derived);
        if (scale.high == 0 && walk.options.semantics) value = {kNan, kNan};  // 0 / 0: a rule without floor
        const std::size_t at = std::size_t(r * columns + range.first + i);
        real.center[at] = value.middle();
        real.radius[at] = value.radius();
        real.aligned[std::size_t(r * blocks + (range.first + i) / 128)] = 0x1p-6 * scale.high;
      }
    }
  });
  return real;
}

float given_scale(const Walk& walk, const char* name) {
  return walk.problem.quant.kind == QuantKind::tensor_static ? walk.inputs.at(name).as<float>()[0] : 0.0f;
}

// The sums of a GEMM as the layer's next stage reads them.
Intervals sums(const Walk& walk, const GroupedGemm& gemm, std::span<const GemmRow> rows,
               const RealActivations& real, bool wide) {
  const TruthOptions& options = walk.options;
  const GroupedSum sum = options.sparse_weights ? sparse_sum(gemm, rows, &real, options.threads)
                                                 : grouped_sum(gemm, rows, &real, walk.sums_over(gemm.w.k));
  Intervals out(sum.value.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = sum.below.empty() ? around(sum.value[i], sum.bound[i])
                               : Interval{sum.value[i] - sum.below[i], sum.value[i] + sum.above[i]};
    if (!wide) out[i] = round_to(DType::bf16, out[i]);
  }
  return out;
}

Intervals activated(const Walk& walk, const Intervals& gemm1) {
  const std::int64_t columns = walk.problem.shape.local_intermediate(), up = walk.problem.shape.up_rows();
  const std::int64_t rows = std::int64_t(gemm1.size()) / up;
  Intervals out(std::size_t(rows * columns));
  parallel_for(rows, walk.options.threads, [&](std::int64_t r) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const Interval g = gemm1[std::size_t(r * up + i)];
      const Interval u =
          walk.problem.shape.gated() ? gemm1[std::size_t(r * up + columns + i)] : Interval{0, 0};
      out[std::size_t(r * columns + i)] =
          activate(walk.problem.shape, walk.roundings(), g, u, !walk.options.semantics);
    }
  });
  return out;
}

// hidden -> activation of the judged pairs.
Intervals first_half(const Walk& walk, const JudgedPairs& pairs, std::span<const std::int64_t> tokens,
                     Interval hidden_amax) {
  Intervals x;
  for (const std::int64_t token : tokens)
    for (const float value : hidden_row(walk.problem, walk.tensors(), token)) x.push_back({value, value});
  const RealActivations real =
      requantised(walk, x, walk.problem.shape.hidden, given_scale(walk, "a1_scale"), hidden_amax);
  const GroupedGemm gemm = layer_weights(walk.problem, 1, walk.inputs);
  return activated(walk, sums(walk, gemm, pairs.first, real, walk.options.wide_gemm1));
}

Interval amax_of_hidden(const Walk& walk) {
  if (!walk.dynamic()) return {};
  const double amax = hidden_amax(walk.problem, walk.tensors(), walk.options.threads);
  return {amax, amax};
}

// A tensor-wide scale follows from every pair of the rank, judged or not.
Interval amax_of_activations(const Walk& walk, Interval hidden) {
  Interval amax{0, 0};
  if (!walk.dynamic()) return amax;
  const std::vector<std::int64_t> all = all_rows(walk.problem.shape.tokens);
  for (std::size_t first = 0; first < all.size(); first += 256) {
    const auto tokens = std::span(all).subspan(first, std::min<std::size_t>(256, all.size() - first));
    const JudgedPairs pairs = judged_pairs(walk.problem, walk.routing.at("topk_ids"), tokens);
    const Interval here = amax_of_row(first_half(walk, pairs, tokens, hidden));
    amax = {std::fmax(amax.low, here.low), std::fmax(amax.high, here.high)};
  }
  return amax;
}

Intervals combined(const Walk& walk, const JudgedPairs& pairs, std::size_t tokens, const Intervals& gemm2) {
  const std::int64_t hidden = walk.problem.shape.hidden;
  const auto weights = walk.routing.at("topk_weights").as<float>();
  const WeightPlace place = weight_place(walk.problem, walk.roundings());
  const double terms = walk.problem.shape.top_k, relative = 2 * terms * 0x1p-24 * (1 + 0x1p-10);
  Intervals out(tokens * std::size_t(hidden), Interval{0, 0});
  std::vector<double> size(out.size(), 0.0);
  for (std::size_t p = 0; p < pairs.second.size(); ++p) {
    const double weight = combine_weight(place, weights[std::size_t(pairs.second[p].out)]);
    for (std::int64_t h = 0; h < hidden; ++h) {
      const std::size_t to = std::size_t(pairs.token[p] * hidden + h);
      const Interval y = multiply({weight, weight}, gemm2[p * std::size_t(hidden) + std::size_t(h)]);
      out[to] = add(out[to], y);
      size[to] += y.magnitude();
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = round_to(DType::bf16, widen(out[i], 0, relative * size[i] + terms * 0x1p-126));
  return out;
}

Intervals layer_intervals(const Walk& walk, std::span<const std::int64_t> tokens) {
  const Problem& problem = walk.problem;
  const Interval hidden = amax_of_hidden(walk), middle = amax_of_activations(walk, hidden);
  const JudgedPairs pairs = judged_pairs(problem, walk.routing.at("topk_ids"), tokens);
  const Intervals h = first_half(walk, pairs, tokens, hidden);
  std::vector<char> open(pairs.second.size(), 0);
  const RealActivations real =
      requantised(walk, h, problem.shape.local_intermediate(), given_scale(walk, "a2_scale"), middle, &open);
  GroupedGemm gemm = layer_weights(problem, 2, walk.inputs);
  if (weight_place(problem, walk.roundings()) == WeightPlace::gemm2)
    gemm.row_weight = walk.routing.at("topk_weights").as<float>().data();
  Intervals out =
      combined(walk, pairs, tokens.size(), sums(walk, gemm, pairs.second, real, walk.options.wide_gemm2));
  for (std::size_t p = 0; p < open.size(); ++p)
    if (open[p])
      std::fill_n(out.begin() + pairs.token[p] * problem.shape.hidden, problem.shape.hidden, kAnything);
  return out;
}

// An output's typical size is here the rms of its row.
void note_weak(TensorTruth& truth) {
  const std::size_t columns = std::size_t(truth.columns);
  for (std::size_t first = 0; first < truth.want.size(); first += columns) {
    double square = 0;
    for (std::size_t i = first; i < first + columns; ++i) square += double(truth.want[i]) * truth.want[i];
    for (std::size_t i = first; i < first + columns; ++i)
      truth.weak.push_back(
          is_weak(half_width(truth, i), truth.want[i], std::sqrt(square / double(truth.columns))));
  }
}

}  // namespace

StageTruth layer_truth(const Problem& problem, const TensorSet& inputs, std::span<const std::int64_t> tokens,
                       const TruthOptions& options) {
  const TensorSet routing = routed(problem, inputs);
  StageTruth stage{"moe_layer",
                   {{"out",
                     DType::bf16,
                     problem.shape.hidden,
                     {tokens.begin(), tokens.end()},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {},
                     {}}}};
  if (!options.bounds) return stage;
  TensorTruth& truth = stage.tensors[0];
  Intervals best = layer_intervals({problem, inputs, routing, options}, tokens);
  for (const Interval& x : best) {
    truth.low.push_back(float(x.low));
    truth.high.push_back(float(x.high));
  }
  if (options.probable) best = layer_intervals({problem, inputs, routing, options, true}, tokens);
  for (std::size_t i = 0; i < best.size(); ++i) {
    const Interval x = best[i];
    truth.want.push_back(std::isinf(x.low) && std::isinf(x.high) ? 0.0f : float(round_bf16(x.middle())));
    if (!options.probable) continue;
    truth.probable_low.push_back(std::fmax(float(x.low), truth.low[i]));
    truth.probable_high.push_back(std::fmin(float(x.high), truth.high[i]));
  }
  if (options.probable) note_weak(truth);
  return stage;
}

std::vector<double> ideal_layer(const Problem& problem, const TensorSet& inputs,
                                std::span<const std::int64_t> tokens, int threads) {
  const TensorSet routing = routed(problem, inputs);
  const auto weights = routing.at("topk_weights").as<float>();
  const JudgedPairs pairs = judged_pairs(problem, routing.at("topk_ids"), tokens);
  RealActivations x{problem.shape.hidden, {}, {}, {}};
  for (const std::int64_t token : tokens)
    for (const float value : bf16_row(inputs.at("hidden"), token))
      x.center.push_back(problem.shape.weight_on_input
                             ? double(value) * weights[std::size_t(token * problem.shape.top_k)]
                             : double(value));
  const SumOptions options{std::nullopt, threads};
  const GroupedSum up = grouped_sum(layer_weights(problem, 1, inputs), pairs.first, &x, options);
  const std::int64_t columns = problem.shape.local_intermediate();
  RealActivations h{columns, {}, {}, {}};
  for (std::int64_t r = 0; r < up.rows; ++r)
    for (std::int64_t i = 0; i < columns; ++i) {
      const double* row = up.value.data() + r * up.columns;
      h.center.push_back(activate(problem.shape, row[i], problem.shape.gated() ? row[columns + i] : 0.0));
    }
  const GroupedSum down = grouped_sum(layer_weights(problem, 2, inputs), pairs.second, &h, options);
  std::vector<double> out(tokens.size() * std::size_t(problem.shape.hidden), 0.0);
  for (std::size_t p = 0; p < pairs.second.size(); ++p) {
    const double weight =
        problem.shape.weight_on_input ? 1.0 : double(weights[std::size_t(pairs.second[p].out)]);
    for (std::int64_t i = 0; i < problem.shape.hidden; ++i)
      out[std::size_t(pairs.token[p] * problem.shape.hidden + i)] +=
          weight * down.value[p * std::size_t(problem.shape.hidden) + std::size_t(i)];
  }
  return out;
}

}  // namespace moe::reference
