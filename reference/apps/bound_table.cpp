// How tight are the bounds of a kernel that declares nothing? For GEMM 1 of one expert on generated `normal`
// data, by K and scheme: the median half-width of the probable and of the hard interval as a share of the
// rms output, the share of elements that the probable interval leaves mistrusted (is_weak, truth.hpp), the
// share whose interval holds zero, and how far into the interval the bits of two presets reach.
//
//   bound_table [rows=64] [columns=256] [threads=1]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/stage_rows.hpp"
#include "reference/truth.hpp"

namespace {

using namespace moe;
using namespace moe::reference;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

Problem problem_of(QuantKind kind, std::int64_t k, std::int64_t rows, std::int64_t columns,
                   std::uint64_t seed) {
  Problem problem;
  problem.op = Op::grouped_gemm;
  problem.contract = Contract::offsets;
  problem.shape = {.tokens = rows, .hidden = k, .intermediate = columns / 2, .experts = 1, .top_k = 1};
  problem.quant.kind = kind;
  problem.seed = seed;
  return problem;
}

// Largest share of its interval that a preset's bits use.
double reach_of(const char* preset, const Problem& problem, const TensorSet& inputs, const TensorTruth& truth,
                int threads) {
  const Semantics semantics = semantics_preset(preset, problem.quant);
  const StageTruth bits = grouped_gemm_truth(problem, inputs, truth.rows, {&semantics, true, false, threads});
  const auto got = bits.tensors[0].bits.as<std::uint16_t>();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double value = decode_bf16(got[i]);
    const double room = value > truth.want[i] ? double(truth.probable_high[i]) - truth.want[i]
                                              : double(truth.want[i]) - truth.probable_low[i];
    if (value != truth.want[i]) worst = std::max(worst, std::fabs(value - truth.want[i]) / room);
  }
  return worst;
}

// Multiply-adds a second of CPU time, in G: the sums alone, with the hard bound, with both.
std::array<double, 3> rates(const Problem& problem, const TensorSet& inputs, int threads) {
  const GroupedGemm gemm = contract_gemm(problem, inputs);
  std::array<double, 3> result{};
  for (int turn = 0; turn < 9; ++turn) {
    SumOptions options{std::nullopt, threads};
    if (turn % 3) options.bound = accumulation_bound(nullptr, problem.quant, gemm.w.k, turn % 3 == 2 ? 1 : 0);
    const std::clock_t start = std::clock();
    grouped_sum(gemm, gemm.rows, nullptr, options);
    const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    double& best = result[std::size_t(turn % 3)];
    best = std::max(best, double(gemm.rows.size()) * double(gemm.w.n * gemm.w.k) / seconds * 1e-9);
  }
  return result;
}

void print_row(QuantKind kind, std::int64_t k, std::int64_t rows, std::int64_t columns, int threads) {
  const Problem problem = problem_of(kind, k, rows, columns, 1);
  const TensorSet inputs = make_inputs(problem, routing_of(problem), threads);
  const StageTruth stage =
      grouped_gemm_truth(problem, inputs, all_rows(rows), {nullptr, false, true, threads, true});
  const TensorTruth& truth = stage.tensors[0];
  const std::array<double, 3> speed = rates(problem, inputs, threads);
  std::vector<double> probable, hard;
  double square = 0;
  std::size_t zero = 0, weak = 0;
  for (std::size_t i = 0; i < truth.want.size(); ++i) {
    probable.push_back(half_width(truth, i));
    hard.push_back(truth.bound(i));
    square += double(truth.want[i]) * truth.want[i];
    zero += truth.probable_low[i] <= 0 && truth.probable_high[i] >= 0;
  }
  const double rms = std::sqrt(square / double(truth.want.size())), count = double(truth.want.size());
  for (const char one : truth.weak) weak += std::size_t(one);
  std::printf("| %5lld | %-13s | %.4f | %.3f | %5.2f %% | %5.2f %% | %.2f | %.2f | %.1f, %.1f, %.1f |\n",
              static_cast<long long>(k), name(kind).data(), median(probable) / rms, median(hard) / rms,
              100 * double(weak) / count, 100 * double(zero) / count,
              reach_of("moeproof", problem, inputs, truth, threads),
              reach_of("vllm-triton-swap", problem, inputs, truth, threads), speed[0], speed[1], speed[2]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t rows = argc > 1 ? std::atoi(argv[1]) : 64, columns = argc > 2 ? std::atoi(argv[2]) : 256;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  std::printf(
      "|     K | scheme        | probable / rms | hard / rms | mistrusted | holds zero | moeproof reaches | "
      "vllm-triton-swap reaches | G/s |\n");
  std::printf("|---|---|---|---|---|---|---|---|---|\n");
  for (const QuantKind kind : {QuantKind::block128, QuantKind::token_channel, QuantKind::tensor_static})
    for (const std::int64_t k : {2048, 4096, 7168, 14336}) print_row(kind, k, rows, columns, threads);
}
