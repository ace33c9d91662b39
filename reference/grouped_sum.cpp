// A task is up to 256 rows of one expert times a block of weight rows. It walks K in panels that are decoded
// into doubles with their scales applied and multiplied by Eigen; with a bound the same panels are multiplied
// once more as magnitudes, with a probable bound once more as signs.
#include "reference/grouped_sum.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "reference/chain_walk.hpp"
#include "reference/parallel.hpp"

namespace moe::reference {
namespace {

constexpr std::int64_t kBlock = kScaleBlock, kTaskRows = 256;
constexpr std::int64_t kWalkRows = 128, kWalkColumns = 128;  // what a ChainWalk keeps of them fits a cache

// rms over mean magnitude of the product of two normal numbers.
constexpr double kTypical = 1.5707963267948966;

struct Task {
  std::int32_t expert = -1;
  std::vector<std::int64_t> rows;  // positions in the caller's list
  std::int64_t first_column = 0, columns = 0;
};

// One operand's panel in doubles: values, magnitudes, radii (activations; of the probable bound also
// squares), signs, and what E needs of each row.
struct Panel {
  std::vector<double> value, magnitude, radius, sign;
  std::vector<double> square;  // of radii, or of the magnitudes they meet
  std::vector<double> largest,
      raised;  // per row: largest magnitude; largest that stands above its own |value|
};

struct Buffers {
  Panel a, w;
  std::vector<double> sum, size, spread;                          // of the task: S, A, R
  std::vector<double> chain_sum, chain_size, chain_spread, peak;  // of the current chain; peak = sum of E
  std::vector<double> grain_sum, grain_size, signs, chain_square, spread_square;
  std::int64_t grains = 0, products = 0;  // of the current chain
  ChainWalk walk;
};

struct Job {
  const GroupedGemm& gemm;
  std::span<const GemmRow> rows;
  const RealActivations* real;
  const SumOptions& options;
  const DgemmKernels& kernels;
  GroupedSum& result;
  bool bounded() const { return options.bound.has_value(); }
  bool probable() const { return bounded() && options.bound->log_odds > 0; }
  bool spread() const { return bounded() && real && !real->radius.empty(); }
};

// One row of a panel: at most 128 codes under one scale.
void decode_row(const Job& job, const std::uint8_t* codes, std::int64_t width, double scale, double* value,
                double* magnitude) {
  job.kernels.decode(codes, width, scale, value);
  if (magnitude) job.kernels.decode_raised(codes, width, std::fabs(scale), magnitude);
}

void note_extremes(Panel& panel, std::int64_t row, std::int64_t width) {
  double largest = 0, raised = 0;
  const double *value = panel.value.data() + row * width, *magnitude = panel.magnitude.data() + row * width;
  for (std::int64_t k = 0; k < width; ++k) {
    largest = std::max(largest, magnitude[k]);
    if (magnitude[k] > std::fabs(value[k])) raised = std::max(raised, magnitude[k]);
  }
  panel.largest[std::size_t(row)] = std::max(panel.largest[std::size_t(row)], largest);
  panel.raised[std::size_t(row)] = std::max(panel.raised[std::size_t(row)], raised);
}

// Signs and, with radii, squares: what the probable bound multiplies.
void note_signs(const Job& job, Panel& panel, const std::vector<double>& size) {
  for (std::size_t i = 0; i < panel.value.size(); ++i)
    panel.sign[i] = panel.value[i] == 0 ? 0.0 : std::copysign(1.0, panel.value[i]);
  if (job.spread())
    for (std::size_t i = 0; i < size.size(); ++i) panel.square[i] = size[i] * size[i];
}

void copy_real_row(const Job& job, std::int64_t act, std::int64_t k0, std::int64_t width, std::int64_t at,
                   Panel& a) {
  const RealActivations& real = *job.real;
  const std::int64_t blocks = (real.k + kBlock - 1) / kBlock;
  for (std::int64_t k = 0; k < width; ++k) {
    const std::size_t from = std::size_t(act * real.k + k0 + k);
    a.value[std::size_t(at + k)] = real.center[from];
    if (!job.bounded()) continue;
    const double radius = job.spread() ? real.radius[from] : 0;
    const double least =
        real.aligned.empty() ? 0 : real.aligned[std::size_t(act * blocks + (k0 + k) / kBlock)];
    const double size = std::fabs(real.center[from]) + radius;
    a.magnitude[std::size_t(at + k)] = size == 0 ? 0 : std::max(size, least);
    if (job.spread()) a.radius[std::size_t(at + k)] = radius;
  }
}

void fill_activations(const Job& job, const Task& task, std::int64_t k0, std::int64_t width, Panel& a) {
  for (std::size_t i = 0; i < task.rows.size(); ++i) {
    const std::int64_t act = job.rows[std::size_t(task.rows[i])].act, at = std::int64_t(i) * width;
    if (job.real) {
      copy_real_row(job, act, k0, width, at, a);
    } else {
      decode_row(job, job.gemm.a.codes + act * job.gemm.a.k + k0, width, job.gemm.a.scale(act, k0),
                 a.value.data() + at, job.bounded() ? a.magnitude.data() + at : nullptr);
    }
    if (job.bounded()) note_extremes(a, std::int64_t(i), width);
  }
  if (job.probable()) note_signs(job, a, a.radius);
}

void fill_weights(const Job& job, const Task& task, std::int64_t k0, std::int64_t width, Panel& w) {
  for (std::int64_t j = 0; j < task.columns; ++j) {
    const std::int64_t column = task.first_column + j;
    decode_row(job, job.gemm.w.row(task.expert, column) + k0, width,
               job.gemm.w.scale(task.expert, column, k0), w.value.data() + j * width,
               job.bounded() ? w.magnitude.data() + j * width : nullptr);
    if (job.bounded()) note_extremes(w, j, width);
  }
  if (job.probable()) note_signs(job, w, w.magnitude);
}

// Closes a chain: its sums join the task's, its E joins the peak.
void fold_chain(const Job& job, const Task& task, Buffers& b) {
  const std::int64_t n = task.columns;
  for (std::size_t i = 0; i < task.rows.size(); ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const std::size_t at = i * std::size_t(n) + std::size_t(j);
      const double s = b.chain_sum[at], size = b.chain_size[at], r = job.spread() ? b.chain_spread[at] : 0;
      const double partial = job.options.bound->half ? std::min(size, 0.5 * (size + std::fabs(s) + r)) : size;
      const double aligned =
          std::max(b.a.raised[i] * b.w.largest[std::size_t(j)], b.a.largest[i] * b.w.raised[std::size_t(j)]);
      b.peak[at] += std::max(partial, aligned);
      b.sum[at] += s;
      b.size[at] += size;
      if (job.spread()) b.spread[at] += r;
    }
  if (b.walk.on()) {
    for (double& square : b.chain_square) square = std::sqrt(2 * job.options.bound->log_odds * square);
    b.walk.close(b.products, b.grains, job.spread() ? b.chain_square.data() : nullptr);
    for (std::size_t i = 0; i < b.chain_square.size(); ++i)
      b.spread_square[i] += b.chain_square[i] * b.chain_square[i];
    b.grains = b.products = 0;
  }
  for (auto* v : {&b.chain_sum, &b.chain_size, &b.chain_spread, &b.chain_square, &b.a.largest, &b.a.raised,
                  &b.w.largest, &b.w.raised})
    std::fill(v->begin(), v->end(), 0.0);
}

using Operand = std::vector<double> Panel::*;

// c += a * w^T over `depth` of the panel's k's from `first` on.
void multiply(const Job& job, const Task& task, const Buffers& b, Operand a, Operand w, std::int64_t width,
              std::int64_t first, std::int64_t depth, std::vector<double>& c) {
  const std::int64_t m = std::int64_t(task.rows.size()), n = task.columns;
  job.kernels.multiply((b.a.*a).data() + first, width, (b.w.*w).data() + first, width, c.data(), n, m, n,
                       depth);
}

// The panel in grains, each of which the walk sees.
void walk_panel(const Job& job, const Task& task, std::int64_t width, Buffers& b) {
  const std::size_t n = std::size_t(task.columns);
  for (std::int64_t first = 0; first < width; first += kGrain) {
    const std::int64_t depth = std::min(kGrain, width - first);
    for (auto* v : {&b.grain_sum, &b.grain_size}) std::fill(v->begin(), v->end(), 0.0);
    multiply(job, task, b, &Panel::value, &Panel::value, width, first, depth, b.grain_sum);
    multiply(job, task, b, &Panel::magnitude, &Panel::magnitude, width, first, depth, b.grain_size);
    for (std::size_t i = 0; i < task.rows.size(); ++i)
      b.walk.step(std::int64_t(i), &b.grain_sum[i * n], &b.grain_size[i * n], b.a.largest[i],
                  b.w.largest.data());
    for (std::size_t i = 0; i < b.chain_sum.size(); ++i)
      b.chain_sum[i] += b.grain_sum[i], b.chain_size[i] += b.grain_size[i];
    ++b.grains, b.products += depth;
  }
  std::fill(b.signs.begin(), b.signs.end(), 0.0);
  multiply(job, task, b, &Panel::sign, &Panel::sign, width, 0, width, b.signs);
  b.walk.count_signs(b.signs.data());
}

void multiply_panel(const Job& job, const Task& task, std::int64_t width, Buffers& b) {
  const auto whole = [&](Operand a, Operand w, std::vector<double>& c) {
    multiply(job, task, b, a, w, width, 0, width, c);
  };
  if (!job.bounded()) return whole(&Panel::value, &Panel::value, b.sum);
  if (job.spread()) whole(&Panel::radius, &Panel::magnitude, b.chain_spread);
  if (job.probable()) {
    if (job.spread()) whole(&Panel::square, &Panel::square, b.chain_square);
    return walk_panel(job, task, width, b);
  }
  whole(&Panel::value, &Panel::value, b.chain_sum);
  whole(&Panel::magnitude, &Panel::magnitude, b.chain_size);
}

// One output: its sum, the hard bound and, inside it, the probable one.
void store_one(const Job& job, const Buffers& b, std::size_t at, std::size_t to, double bias, double weight) {
  job.result.value[to] = (b.sum[at] + bias) * weight;
  if (!job.bounded()) return;
  const AccumulationBound& rule = *job.options.bound;
  const double size = std::fabs(weight);
  const double fp32 =
      rule.fp32_factor * (b.size[at] + std::fabs(bias)) + (b.size[at] != 0 ? rule.absolute : 0);
  const double hard = (rule.chain_factor * b.peak[at] + fp32 + (job.spread() ? b.spread[at] : 0)) * size;
  job.result.bound[to] = hard;
  if (!job.probable()) return;
  ChainWalk::Reach reach = b.walk.reach(at);
  if (weight < 0) std::swap(reach.below, reach.above);
  const double around = fp32 + std::sqrt(b.spread_square[at]);
  job.result.typical[to] = kTypical * b.size[at] * size / std::sqrt(double(job.gemm.w.k));
  job.result.below[to] = std::min(hard, (reach.below + around) * size);
  job.result.above[to] = std::min(hard, (reach.above + around) * size);
}

void store(const Job& job, const Task& task, const Buffers& b) {
  for (std::size_t i = 0; i < task.rows.size(); ++i) {
    const GemmRow& row = job.rows[std::size_t(task.rows[i])];
    const double weight = job.gemm.row_weight ? job.gemm.row_weight[row.out] : 1.0;
    for (std::int64_t j = 0; j < task.columns; ++j) {
      const std::int64_t column = task.first_column + j;
      const double bias = job.gemm.bias ? job.gemm.bias[task.expert * job.gemm.w.n + column] : 0.0;
      store_one(job, b, i * std::size_t(task.columns) + std::size_t(j),
                std::size_t(task.rows[i] * job.result.columns + column), bias, weight);
    }
  }
}

void prepare(const Job& job, const Task& task, std::int64_t width, Buffers& b) {
  const std::size_t m = task.rows.size(), n = std::size_t(task.columns), w = std::size_t(width);
  b.a.value.assign(m * w, 0), b.w.value.assign(n * w, 0), b.sum.assign(m * n, 0);
  if (!job.bounded()) return;
  b.a.magnitude.assign(m * w, 0), b.w.magnitude.assign(n * w, 0);
  b.a.largest.assign(m, 0), b.a.raised.assign(m, 0), b.w.largest.assign(n, 0), b.w.raised.assign(n, 0);
  for (auto* v : {&b.size, &b.peak, &b.chain_sum, &b.chain_size}) v->assign(m * n, 0);
  if (job.spread()) b.a.radius.assign(m * w, 0), b.spread.assign(m * n, 0), b.chain_spread.assign(m * n, 0);
  if (!job.probable()) return;
  b.a.sign.assign(m * w, 0), b.w.sign.assign(n * w, 0);
  b.walk = ChainWalk(std::int64_t(m), task.columns, job.options.bound->log_odds, job.kernels.path);
  for (auto* v : {&b.grain_sum, &b.grain_size, &b.signs, &b.spread_square}) v->assign(m * n, 0);
  if (job.spread()) b.a.square.assign(m * w, 0), b.w.square.assign(n * w, 0), b.chain_square.assign(m * n, 0);
}

void run_task(const Job& job, const Task& task) {
  const std::int64_t k = job.gemm.w.k, chain = job.bounded() ? job.options.bound->chain : 0;
  const std::int64_t step = std::min(kBlock, k);  // also the depth at which Eigen's product is fastest here
  Buffers buffers;
  prepare(job, task, step, buffers);
  for (std::int64_t k0 = 0; k0 < k; k0 += step) {
    const std::int64_t width = std::min(step, k - k0);
    fill_activations(job, task, k0, width, buffers.a);
    fill_weights(job, task, k0, width, buffers.w);
    multiply_panel(job, task, width, buffers);
    const bool last = k0 + width == k;
    if (job.bounded() && (last || (chain && (k0 + width) % chain == 0))) fold_chain(job, task, buffers);
  }
  store(job, task, buffers);
}

std::vector<Task> make_tasks(const GroupedGemm& gemm, std::span<const GemmRow> rows, bool probable) {
  const std::size_t most = std::size_t(probable ? kWalkRows : kTaskRows);
  std::map<std::int32_t, std::vector<std::int64_t>> by_expert;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].expert >= 0) by_expert[rows[i].expert].push_back(std::int64_t(i));
  std::vector<Task> tasks;
  for (const auto& [expert, positions] : by_expert)
    for (std::size_t first = 0; first < positions.size(); first += most) {
      const std::size_t count = std::min<std::size_t>(most, positions.size() - first);
      // Decoding a row costs as much as some ten columns of its product: more rows, wider blocks.
      const std::int64_t width = probable ? kWalkColumns : count < 128 ? 128 : 256;
      for (std::int64_t n = 0; n < gemm.w.n; n += width)
        tasks.push_back(
            {expert,
             {positions.begin() + std::int64_t(first), positions.begin() + std::int64_t(first + count)},
             n,
             std::min(width, gemm.w.n - n)});
    }
  return tasks;
}

}  // namespace

GroupedSum grouped_sum(const GroupedGemm& gemm, std::span<const GemmRow> rows, const RealActivations* real,
                       const SumOptions& options) {
  GroupedSum result{std::int64_t(rows.size()), gemm.w.n, {}, {}, {}, {}, {}};
  const std::size_t size = rows.size() * std::size_t(gemm.w.n);
  result.value.assign(size, 0);
  if (options.bound) result.bound.assign(size, 0);
  const Job job{gemm, rows, real, options, options.kernels ? *options.kernels : best_dgemm(), result};
  if (job.probable())
    for (auto* v : {&result.below, &result.above, &result.typical}) v->assign(size, 0);
  const std::vector<Task> tasks = make_tasks(gemm, rows, job.probable());
  parallel_for(std::int64_t(tasks.size()), options.threads,
               [&](std::int64_t i) { run_task(job, tasks[std::size_t(i)]); });
  return result;
}

}  // namespace moe::reference
