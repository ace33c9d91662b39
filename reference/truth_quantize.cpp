// Truth of the stages that quantise: hidden -> x_codes, x_scale and gemm1 -> act_codes, act_scale.
#include <algorithm>
#include <cmath>

#include "fixtures/problem/number_formats.hpp"
#include "reference/activation.hpp"
#include "reference/exact/exact_stages.hpp"
#include "reference/open_activation.hpp"
#include "reference/operands.hpp"
#include "reference/parallel.hpp"
#include "reference/quant_bound.hpp"
#include "reference/stage_bits.hpp"
#include "reference/stage_rows.hpp"
#include "reference/truth.hpp"

namespace moe::reference {
namespace {

// A row in front of the quantiser: what spec has and what an fp32 evaluation may have.
struct Row {
  std::vector<float> spec;
  std::vector<Interval> allowed;
};

struct Stage {
  const Problem& problem;
  const TruthOptions& options;
  QuantRule rule;                     // of Semantics, or of the default one where none is declared
  std::string codes, scales;          // tensor names
  const Tensor* own_scale = nullptr;  // the kernel's
  float given_scale = 0;              // tensor_static
  float spec_amax = 0;                // tensor_dynamic: of all rows
  Interval amax{};
  std::int64_t columns = 0;
};

Interval amax_interval(std::span<const Interval> row) {
  Interval amax{0, 0};
  for (const Interval& x : row) {
    amax.low = std::fmax(amax.low, x.mignitude());
    amax.high = std::fmax(amax.high, x.magnitude());
  }
  return amax;
}

struct ScaleTruth {
  float want = 0, low = 0, high = 0, spec_amax = 0;
};

ScaleTruth scale_truth(const Stage& stage, float spec_amax, Interval amax) {
  if (stage.problem.quant.kind == QuantKind::tensor_static)
    return {stage.given_scale, stage.given_scale, stage.given_scale, 0};
  const Interval s = scale_interval(stage.options.semantics, stage.problem.quant, amax);
  const float want = scale_of_amax(stage.rule, spec_amax);
  return {std::clamp(want, float(s.low), float(s.high)), float(s.low), float(s.high), spec_amax};
}

// Scale under which the kernel made its codes, else the one it should have made.
float scale_in_use(const Stage& stage, std::int64_t row, std::int64_t group, float want) {
  if (!stage.own_scale) return want;
  const std::int64_t groups = scale_groups(stage.problem.quant.kind, stage.columns);
  const std::size_t at = stage.problem.quant.tensor() ? 0 : std::size_t(row * groups + group);
  return stage.own_scale->as<float>()[at];
}

void set_codes(const Stage& stage, TensorTruth& truth, std::size_t at, float spec, Interval allowed,
               float scale) {
  Interval code = code_interval(allowed, scale);
  if (scale == 0 && stage.options.semantics) {  // a group of zeros under a rule without floor: 0 / 0
    const double zero = decode_e4m3(quantize_static(stage.rule, 0, 0));
    code = {zero, zero};
  }
  truth.low[at] = float(code.low);
  truth.high[at] = float(code.high);
  truth.want[at] =
      std::fmin(std::fmax(float(round_e4m3(double(spec) / scale)), truth.low[at]), truth.high[at]);
}

void judge_row(const Stage& stage, std::size_t position, std::int64_t row, const Row& values,
               TensorTruth& codes, TensorTruth& scales) {
  const QuantKind kind = stage.problem.quant.kind;
  const std::int64_t groups = scale_groups(kind, stage.columns);
  for (std::int64_t g = 0; g < groups; ++g) {
    const ColumnRange range = group_columns(kind, stage.columns, g);
    const auto spec = std::span(values.spec).subspan(std::size_t(range.first), std::size_t(range.count));
    const auto allowed =
        std::span(values.allowed).subspan(std::size_t(range.first), std::size_t(range.count));
    const bool whole = stage.problem.quant.tensor();
    const ScaleTruth scale = whole ? scale_truth(stage, stage.spec_amax, stage.amax)
                                   : scale_truth(stage, amax_of(spec), amax_interval(allowed));
    if (!whole) {
      const std::size_t at = position * std::size_t(groups) + std::size_t(g);
      scales.want[at] = scale.want, scales.low[at] = scale.low, scales.high[at] = scale.high;
    }
    const float used = scale_in_use(stage, row, g, scale.want);
    for (std::size_t i = 0; i < spec.size(); ++i)
      set_codes(stage, codes, position * std::size_t(stage.columns) + std::size_t(range.first) + i, spec[i],
                allowed[i], used);
  }
}

TensorTruth sized(std::string tensor, DType type, std::int64_t columns, std::vector<std::int64_t> rows,
                  bool bounds) {
  TensorTruth truth{std::move(tensor), type, columns, std::move(rows), {}, {}, {}, {}, {}, {}, {}, {}, {}};
  if (bounds)
    for (auto* v : {&truth.want, &truth.low, &truth.high})
      v->resize(truth.rows.size() * std::size_t(columns));
  return truth;
}

// `make(row)` gives the row in front of the quantiser.
template <class MakeRow>
StageTruth quantiser_truth(std::string name, const Stage& stage, std::vector<std::int64_t> rows,
                           MakeRow make) {
  const bool whole = stage.problem.quant.tensor(), bounds = stage.options.bounds;
  StageTruth truth{
      std::move(name),
      {sized(stage.codes, DType::e4m3, stage.columns, rows, bounds),
       sized(stage.scales, DType::f32, whole ? 1 : scale_groups(stage.problem.quant.kind, stage.columns),
             whole ? std::vector<std::int64_t>{0} : rows, bounds)}};
  if (!bounds) return truth;
  if (whole) {
    const ScaleTruth scale = scale_truth(stage, stage.spec_amax, stage.amax);
    truth.tensors[1].want[0] = scale.want, truth.tensors[1].low[0] = scale.low,
    truth.tensors[1].high[0] = scale.high;
  }
  parallel_for(std::int64_t(rows.size()), stage.options.threads, [&](std::int64_t i) {
    judge_row(stage, std::size_t(i), rows[std::size_t(i)], make(rows[std::size_t(i)]), truth.tensors[0],
              truth.tensors[1]);
  });
  return truth;
}

Stage make_stage(const Problem& problem, StageTensors tensors, const TruthOptions& options, const char* codes,
                 const char* scales, const char* given) {
  const Semantics semantics = options.semantics ? *options.semantics : Semantics{};
  Stage stage{problem, options, quant_rule(semantics, problem.quant), codes, scales};
  stage.own_scale = tensors.outputs.find(scales);
  if (problem.quant.kind == QuantKind::tensor_static)
    stage.given_scale = lookup(tensors.outputs, tensors.inputs, given).as<float>()[0];
  return stage;
}

Row activation_row(const Problem& problem, const TruthOptions& options, const Tensor& gemm1,
                   std::int64_t pair) {
  const std::vector<float> in = bf16_row(gemm1, pair);
  const std::int64_t columns = problem.shape.local_intermediate();
  const Semantics semantics = options.semantics ? *options.semantics : Semantics{};
  Row row;
  for (std::int64_t i = 0; i < columns; ++i) {
    const double g = in[std::size_t(i)],
                 u = problem.shape.gated() ? double(in[std::size_t(columns + i)]) : 0.0;
    row.spec.push_back(float(activate(problem.shape, semantics, g, u)));
    row.allowed.push_back(activate(problem.shape, options.semantics, Interval{g, g}, Interval{u, u}));
  }
  return row;
}

TensorScale whole_scale(const Stage& stage, float amax) {
  if (stage.problem.quant.kind == QuantKind::tensor_static) return {0, stage.given_scale};
  return exact_tensor_scale(*stage.options.semantics, stage.problem.quant, amax);
}

template <class QuantiseRow>
void add_bits(const Stage& stage, StageTruth& truth, const TensorScale& whole, QuantiseRow quantise) {
  QuantisedBits bits = quantised_bits(stage.problem.quant, stage.columns, truth.tensors[0].rows, whole,
                                      stage.options.threads, quantise);
  truth.tensors[0].bits = bits.codes.renamed(stage.codes);
  truth.tensors[1].bits = bits.scales.renamed(stage.scales);
}

float exact_amax(const Problem& problem, const TruthOptions& options, const Tensor& gemm1,
                 std::span<const std::int32_t> experts) {
  std::vector<float> amax(experts.size(), 0.0f);
  parallel_for(std::int64_t(experts.size()), options.threads, [&](std::int64_t pair) {
    if (experts[std::size_t(pair)] < 0) return;
    std::vector<float> row(std::size_t(problem.shape.local_intermediate()));
    exact_activation_row(problem.shape, *options.semantics, bf16_codes(gemm1, pair), row);
    amax[std::size_t(pair)] = amax_of(row);
  });
  return amax_of(amax);
}

}  // namespace

StageTruth quantize_truth(const Problem& problem, StageTensors tensors, std::span<const std::int64_t> tokens,
                          const TruthOptions& options) {
  Stage stage = make_stage(problem, tensors, options, "x_codes", "x_scale", "a1_scale");
  stage.columns = problem.shape.hidden;
  if (problem.quant.kind == QuantKind::tensor_dynamic) {
    stage.spec_amax = hidden_amax(problem, tensors, options.threads);
    stage.amax = {stage.spec_amax, stage.spec_amax};
  }
  StageTruth truth =
      quantiser_truth("quantize", stage, {tokens.begin(), tokens.end()}, [&](std::int64_t token) {
        Row row{hidden_row(problem, tensors, token), {}};
        for (const float x : row.spec) row.allowed.push_back({x, x});
        return row;
      });
  if (options.bits && options.semantics) {
    const Tensor& hidden = lookup(tensors.outputs, tensors.inputs, "hidden");
    const float* weights = input_weights(problem, tensors);
    const TensorScale whole = whole_scale(stage, stage.spec_amax);
    add_bits(stage, truth, whole, [&](std::int64_t token, std::uint8_t* codes, float* scales) {
      exact_quantize_row(*options.semantics, problem.quant, bf16_codes(hidden, token),
                         weights ? weights + token * problem.shape.top_k : nullptr, whole, codes, scales);
    });
  }
  return truth;
}

StageTruth act_quant_truth(const Problem& problem, StageTensors tensors, std::span<const std::int64_t> pairs,
                           const TruthOptions& options) {
  Stage stage = make_stage(problem, tensors, options, "act_codes", "act_scale", "a2_scale");
  stage.columns = problem.shape.local_intermediate();
  const Tensor& gemm1 = lookup(tensors.outputs, tensors.inputs, "gemm1");
  const Tensor* ids = tensors.outputs.find("topk_ids");
  if (!ids) ids = tensors.inputs.find("topk_ids");
  std::vector<std::int32_t> experts(std::size_t(problem.shape.pairs()), 0);
  if (ids) experts = local_experts(problem, *ids);
  if (problem.quant.kind == QuantKind::tensor_dynamic && options.bounds) {
    std::vector<Row> ends(experts.size());  // of each row only its amax is kept
    parallel_for(std::int64_t(experts.size()), options.threads, [&](std::int64_t p) {
      if (experts[std::size_t(p)] < 0) return;
      const Row row = activation_row(problem, options, gemm1, p);
      ends[std::size_t(p)] = {{amax_of(row.spec)}, {amax_interval(row.allowed)}};
    });
    for (const Row& end : ends) {
      if (end.spec.empty()) continue;
      stage.spec_amax = std::fmax(stage.spec_amax, end.spec[0]);
      stage.amax.low = std::fmax(stage.amax.low, end.allowed[0].low);
      stage.amax.high = std::fmax(stage.amax.high, end.allowed[0].high);
    }
  }
  std::vector<std::int64_t> rows;
  for (const std::int64_t p : pairs)
    if (experts[std::size_t(p)] >= 0) rows.push_back(p);
  StageTruth truth = quantiser_truth("act_quant", stage, std::move(rows), [&](std::int64_t pair) {
    return activation_row(problem, options, gemm1, pair);
  });
  if (options.bits && options.semantics) {
    const bool dynamic = problem.quant.kind == QuantKind::tensor_dynamic;
    const TensorScale whole =
        whole_scale(stage, dynamic ? exact_amax(problem, options, gemm1, experts) : 0.0f);
    add_bits(stage, truth, whole, [&](std::int64_t pair, std::uint8_t* codes, float* scales) {
      exact_act_quant_row(problem.shape, *options.semantics, problem.quant, bf16_codes(gemm1, pair), whole,
                          codes, scales);
    });
    if (leaves_exp_open(problem.shape, *options.semantics)) {
      OpenBits open = open_act_quant(problem, *options.semantics, gemm1, truth.tensors[0].rows, experts,
                                     stage.own_scale, stage.given_scale, options.threads);
      truth.tensors[0].least = std::move(open.least.codes),
      truth.tensors[0].most = std::move(open.most.codes);
      truth.tensors[1].least = std::move(open.least.scales),
      truth.tensors[1].most = std::move(open.most.scales);
    }
  }
  return truth;
}

}  // namespace moe::reference
