// What does Swap-AB change in accuracy? A Triton tile under 64 rows runs on f16 HMMA; swapped it runs on FP8
// wgmma, whose accumulator has 13 fraction bits. Both are computed to the bit (presets vllm-triton and
// vllm-triton-swap) and compared with real arithmetic on the same codes and scales, for GEMM 1, GEMM 2 and
// the whole layer of three models. Prints the tables of reference/README.md, "What Swap-AB changes".
// Arguments: tokens (default 8), threads (default 2), seed (default 1).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "fixtures/files/models.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "reference/exact/exact_gemm.hpp"
#include "reference/grouped_sum.hpp"
#include "reference/layer.hpp"
#include "reference/operands.hpp"
#include "reference/stage_rows.hpp"

using namespace moe;
using namespace moe::reference;

namespace {

struct Setup {
  const char* model;
  int tp;
  const char* load;  // few experts hold rows, so that little memory does
};
constexpr Setup kSetups[] = {
    {"deepseek-v3", 8, "uniform"}, {"qwen3-235b", 4, "empty:0.75"}, {"mixtral-8x7b", 1, "empty:0.75"}};

Problem problem_of(const Setup& setup, QuantKind kind, int tokens, std::uint64_t seed) {
  const ModelPreset model = find_model(setup.model);
  Problem p;
  p.shape = model.shape;
  p.shape.tokens = tokens;
  p.shape.tp = setup.tp;
  p.routing.router = model.router;
  p.routing.load = parse_load(setup.load);
  p.quant.kind = kind;
  p.seed = seed;
  validate(p);
  return p;
}

/// One expert's operands of a grouped GEMM, for rows that follow one another in `acts`.
GemmOperands operands_of(const QuantScheme& scheme, const GroupedGemm& gemm, int expert,
                         const std::vector<std::int32_t>& acts, const std::vector<float>& weights) {
  const std::int64_t blocks = ((gemm.w.n + 127) / 128) * ((gemm.w.k + 127) / 128);
  GemmOperands in;
  in.a = gemm.a.codes;
  in.w = gemm.w.row(expert, 0);
  in.lda = in.ldw = in.k = gemm.w.k;
  in.n = gemm.w.n;
  in.rows = std::int64_t(acts.size());
  in.a_rows = acts.data();
  in.a_scale = {gemm.a.scales, gemm.a.row_stride, gemm.a.block_stride, 1};
  in.w_scale = weight_scales(scheme, gemm.w.scales + expert * (scheme.block() ? blocks : 1), gemm.w.k);
  in.row_weight = weights.empty() ? nullptr : weights.data();
  in.scheme = scheme;
  return in;
}

/// All rows in front of the output rounding, [rows, n] in the order of gemm.rows.
std::vector<float> sums(const Semantics& semantics, const QuantScheme& scheme, const GroupedGemm& gemm,
                        int threads) {
  const auto n = std::size_t(gemm.w.n);
  std::vector<float> all(gemm.rows.size() * n);
  std::map<int, std::vector<std::size_t>> by_expert;
  for (std::size_t i = 0; i < gemm.rows.size(); ++i) by_expert[gemm.rows[i].expert].push_back(i);
  for (const auto& [expert, places] : by_expert) {
    std::vector<std::int32_t> acts;
    std::vector<float> weights;
    for (const std::size_t i : places) {
      acts.push_back(std::int32_t(gemm.rows[i].act));
      if (gemm.row_weight) weights.push_back(gemm.row_weight[gemm.rows[i].out]);
    }
    std::vector<float> out(places.size() * n);
    exact_gemm(semantics, operands_of(scheme, gemm, expert, acts, weights), out.data(), threads);
    for (std::size_t i = 0; i < places.size(); ++i)
      std::copy_n(out.begin() + std::ptrdiff_t(i * n), n, all.begin() + std::ptrdiff_t(places[i] * n));
  }
  return all;
}

double bf16_ulp(double x) { return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7); }
/// Steps from one bf16 number to the other.
int steps(std::uint16_t a, std::uint16_t b) {
  const auto place = [](std::uint16_t c) { return c & 0x8000 ? -int(c & 0x7FFF) : int(c); };
  return std::abs(place(a) - place(b));
}

/// How far `got` is from `ideal`, in front of the rounding to bf16.
struct Errors {
  double rms = 0, max = 0;  // of the rms of ideal
  double bias = 0;  // mean of (got - ideal) toward ideal's sign, of the mean magnitude; < 0: toward zero
  double ulp = 0;   // median of |got - ideal| in bf16 units of each element
};
Errors errors(const std::vector<float>& got, const std::vector<double>& ideal) {
  double square = 0, signal = 0, most = 0, toward = 0, magnitude = 0;
  std::vector<double> ulps;
  for (std::size_t i = 0; i < ideal.size(); ++i) {
    const double e = double(got[i]) - ideal[i];
    square += e * e;
    signal += ideal[i] * ideal[i];
    most = std::max(most, std::fabs(e));
    toward += ideal[i] < 0 ? -e : e;
    magnitude += std::fabs(ideal[i]);
    if (ideal[i] != 0) ulps.push_back(std::fabs(e) / bf16_ulp(ideal[i]));
  }
  const auto middle = ulps.begin() + std::ptrdiff_t(ulps.size() / 2);
  std::nth_element(ulps.begin(), middle, ulps.end());
  const double n = double(ideal.size()), rms = std::sqrt(signal / n);
  return {std::sqrt(square / n) / rms, most / rms, toward / magnitude, *middle};
}

/// Share of bf16 results that differ, and that differ by more than one step.
struct Differences {
  double any = 0, more = 0;
};
Differences differences(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  Differences d;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int s = steps(a[i], b[i]);
    d.any += s > 0;
    d.more += s > 1;
  }
  return {d.any / double(a.size()), d.more / double(a.size())};
}

template <class T>
std::vector<std::uint16_t> rounded(const std::vector<T>& values) {
  std::vector<std::uint16_t> codes;
  codes.reserve(values.size());
  for (const T v : values) codes.push_back(encode_bf16(float(v)));
  return codes;
}

struct Presets {
  Semantics normal, swap;
  explicit Presets(const QuantScheme& quant)
      : normal(semantics_preset("vllm-triton", quant)), swap(semantics_preset("vllm-triton-swap", quant)) {}
};

void print_gemm(const std::string& label, const Presets& presets, const Problem& p, const GroupedGemm& gemm,
                int threads) {
  const GroupedSum ideal = grouped_sum(gemm, gemm.rows, nullptr, {std::nullopt, threads});
  const std::vector<float> normal = sums(presets.normal, p.quant, gemm, threads),
                           swap = sums(presets.swap, p.quant, gemm, threads);
  const Errors a = errors(normal, ideal.value), b = errors(swap, ideal.value);
  const Differences d = differences(rounded(normal), rounded(swap)),
                    right = differences(rounded(normal), rounded(ideal.value));
  std::printf("| %s | %lld | %.1e | %.1e | %.1e | %+.1e | %.3f | %.2f %% | %.1f %% (%.2f %%) |\n",
              label.c_str(), static_cast<long long>(gemm.w.k), a.rms, b.rms, b.max, b.bias, b.ulp,
              100 * right.any, 100 * d.any, 100 * d.more);
}

std::vector<float> values(const Tensor& t) {
  std::vector<float> v;
  for (const std::uint16_t code : t.as<std::uint16_t>()) v.push_back(decode_bf16(code));
  return v;
}

void print_layer(const std::string& label, const Presets& presets, const Problem& p, const TensorSet& inputs,
                 const TensorSet& normal, int threads) {
  const std::vector<double> ideal = ideal_layer(p, inputs, all_rows(p.shape.tokens), threads);
  const TensorSet swapped = exact_layer(p, presets.swap, inputs, threads);
  const std::vector<float> a = values(normal.at("out")), b = values(swapped.at("out"));
  const Errors ea = errors(a, ideal), eb = errors(b, ideal);
  const Errors between = errors(b, std::vector<double>(a.begin(), a.end()));
  const Differences d = differences(rounded(a), rounded(b));
  std::size_t codes = 0;
  const auto x = normal.at("act_codes").as<std::uint8_t>(), y = swapped.at("act_codes").as<std::uint8_t>();
  for (std::size_t i = 0; i < x.size(); ++i) codes += x[i] != y[i];
  std::printf("| %s | %.5f | %.5f | %.5f | %.2f | %+.1e | %.2f %% | %.1f %% (%.2f %%) |\n", label.c_str(),
              ea.rms, eb.rms, between.rms, between.rms / ea.rms, between.bias,
              100.0 * double(codes) / double(x.size()), 100 * d.any, 100 * d.more);
}

struct Run {
  std::string label;
  Problem problem;
  TensorSet inputs, outputs;  // outputs: of vllm-triton

  GroupedGemm gemm(int number) const {
    GroupedGemm gemm = layer_gemm(problem, number, inputs, outputs);
    if (number == 2) gemm.row_weight = outputs.at("topk_weights").as<float>().data();
    return gemm;
  }
  /// Clears the signs of all codes of GEMM 1, so that every cut points the same way.
  void make_positive() {
    for (Tensor* t : {&inputs.at("w13"), &outputs.at("x_codes")})
      for (std::uint8_t& code : t->as<std::uint8_t>())
        if (code != 0) code &= 0x7F;  // pages that hold nothing stay unwritten
  }
};

void print_scheme(QuantKind kind, int tokens, int threads, std::uint64_t seed) {
  const Presets presets(QuantScheme{.kind = kind});
  std::printf(
      "%s, GEMMs on the same codes and scales\n"
      "| GEMM | K | HMMA rms | wgmma rms | max | bias | median, ulp | HMMA not ideal's bf16 "
      "| wgmma not HMMA's bf16 (> 1 ulp) |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      name(kind).data());
  std::vector<Run> runs;
  for (const Setup& setup : kSetups) {
    Run run{std::string(setup.model) + " tp " + std::to_string(setup.tp),
            problem_of(setup, kind, tokens, seed),
            {},
            {}};
    run.inputs = make_inputs(run.problem, routing_of(run.problem), threads);
    run.outputs = exact_layer(run.problem, presets.normal, run.inputs, threads);
    for (const int number : {1, 2})
      print_gemm(run.label + ", GEMM " + std::to_string(number), presets, run.problem, run.gemm(number),
                 threads);
    runs.push_back(std::move(run));
  }
  std::printf(
      "\n%s, whole layer\n| layer | HMMA rms | wgmma rms | wgmma against HMMA, rms | of HMMA's | bias "
      "| act codes differ | bf16 differs (> 1 ulp) |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
      name(kind).data());
  for (const Run& run : runs) print_layer(run.label, presets, run.problem, run.inputs, run.outputs, threads);
  runs[0].make_positive();
  std::printf("\n%s, all products positive\n", name(kind).data());
  print_gemm(runs[0].label + ", GEMM 1", presets, runs[0].problem, runs[0].gemm(1), threads);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int tokens = argc > 1 ? std::atoi(argv[1]) : 8, threads = argc > 2 ? std::atoi(argv[2]) : 2;
  const std::uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  for (const QuantKind kind : {QuantKind::block128, QuantKind::tensor_dynamic})
    print_scheme(kind, tokens, threads, seed);
}
