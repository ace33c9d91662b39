#include <fmt/format.h>

#include <bit>
#include <numeric>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/against/rows.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kMost = std::int64_t(1) << 24;

/// What a framework's fused MoE does around the kernel, by the file's kernel_source.
struct Framework {
  const char* source;
  bool sglang;        // its default tile; else vLLM's
  bool swap, narrow;  // vLLM since June 2026: Swap-AB; 64 columns for the smallest batches
  bool capped;        // timed for about a second a row, at the card's power limit
  bool module;  // the model's own module, from the router's scores on, instead of a function behind them
};
/// AIConfigurator's collectors (collector/*/collect_moe.py, helper.py of that version): SGLang's layer from
/// the router's scores on; vLLM 0.22's fused_experts behind its top-k; vLLM 0.24's FusedMoE module. The vLLM
/// 0.22 rows carry 690 W of 700 W.
constexpr Framework kFrameworks[] = {{"sglang_fused_moe_triton", true, false, false, false, false},
                                     {"vllm_fused_moe", false, false, false, true, false},
                                     {"vllm_fp8moe_triton_tritonexperts", false, true, true, false, true}};

const Framework* framework_of(const std::string& source) {
  for (const Framework& f : kFrameworks)
    if (source == f.source) return &f;
  return nullptr;
}

/// AIConfigurator's "balanced": token t takes experts t + i * ceil(E / k), i < k, modulo E; fewer tokens than
/// that stride are spread over it.
ExpertLoad balanced_load(std::int64_t tokens, std::int64_t experts, std::int64_t top_k) {
  ExpertLoad load;
  load.rows.assign(std::size_t(experts), 0);
  const std::int64_t stride = (experts + top_k - 1) / top_k;
  if (tokens < stride) {
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < top_k; ++i)
        ++load.rows[std::size_t((t * stride / tokens + i * stride) % experts)];
    return load;
  }
  const std::int64_t rounds = tokens / experts, rest = tokens % experts;
  for (std::int64_t e = 0; e < experts; ++e) {
    load.rows[std::size_t(e)] = rounds * top_k;
    for (std::int64_t i = 0; i < top_k; ++i)
      load.rows[std::size_t(e)] += ((e - i * stride) % experts + experts) % experts < rest;
  }
  return load;
}

/// Rank 0 of expert parallelism computes the first experts of the whole layer.
ExpertLoad first_experts(ExpertLoad load, int count) {
  load.rows.resize(std::size_t(count));
  return load;
}

std::string skip_reason(const Csv& csv, const Csv::Row& row) {
  const std::string& source = csv.text(row, "kernel_source");
  if (framework_of(source) == nullptr) return "no model of kernel " + one_line(source);
  if (csv.text(row, "moe_dtype") != "fp8_block") return "scheme is not fp8_block";
  if (csv.text(row, "distribution") != "balanced")
    return "rows of each expert are not in the file (distribution)";
  return "";
}

/// Its collector routes inside the timed region and copies weights, ids and scores; up to 32 tokens with more
/// than two experts each it sums and scales in two kernels.
std::vector<sim::Elementwise> beside_sglang(const MoeShape& s) {
  const double pairs = double(s.pairs()) * 4, scores = double(s.tokens) * s.experts * 4;
  std::vector<sim::Elementwise> kernels{{"topk", scores, 2 * pairs},
                                        {"copy_weights", pairs, pairs},
                                        {"copy_ids", pairs, pairs},
                                        {"copy_scores", scores, scores}};
  if (s.tokens <= 32 && s.top_k > 2) {
    const double out = double(s.tokens) * double(s.hidden) * 2;
    kernels.push_back({"scale_out", out, out});
  }
  return kernels;
}

/// What vLLM's module launches beside its experts: the router, and the copy of their output into the module's
/// own (a modular kernel whose experts have summed up already). Softmax and top-k are one kernel where the
/// number of experts is a power of two. Top-1 is Llama 4's router, elementwise kernels of PyTorch (the
/// largest score, as float, its sigmoid, its id as int32), which weighs the tokens instead of the outputs.
std::vector<sim::Elementwise> beside_vllm_module(const MoeShape& s) {
  const double pairs = double(s.pairs()), scores = double(s.tokens) * s.experts * 2;
  const double rows = double(s.tokens) * double(s.hidden) * 2;
  std::vector<sim::Elementwise> kernels;
  if (s.top_k == 1) {
    kernels = {{"largest_score", scores, pairs * 10}, {"as_float", pairs * 2, pairs * 4},
               {"sigmoid", pairs * 4, pairs * 4},     {"ids", pairs * 8, pairs * 4},
               {"weights", pairs * 4, pairs * 2},     {"weigh_tokens", rows + pairs * 2, rows}};
  } else {
    if (!std::has_single_bit(unsigned(s.experts))) kernels.push_back({"softmax", scores, 2 * scores});
    kernels.push_back({"topk", scores, pairs * 12});
  }
  kernels.push_back({"copy_out", rows, rows});
  return kernels;
}

TileConfig tile_of(const Framework& f, const MoeShape& s, const std::vector<TunedTable>& tuned) {
  const TunedTable* table =
      find_table(tuned, s.local_experts(), s.local_intermediate(), QuantKind::block128, "NVIDIA_H200");
  if (table != nullptr) return effective_tile(table->nearest(s.tokens).tile, table->name);
  if (f.sglang) return sglang_default_tile(s.tokens, s.local_experts(), true);
  return vllm_default_tile(s.tokens, s.local_experts(), true, f.narrow);
}

MeasuredRow row_of(const Csv& csv, const Csv::Row& row, const std::vector<TunedTable>& tuned) {
  const Framework& f = *framework_of(csv.text(row, "kernel_source"));
  MeasuredRow r;
  r.line = row.line;
  MoeShape& s = r.problem.shape;
  s.tokens = csv.integer(row, "num_tokens", 1, kMost);
  s.hidden = csv.integer(row, "hidden_size", 1, kMost);
  s.intermediate = csv.integer(row, "inter_size", 1, kMost);
  s.experts = int(csv.integer(row, "num_experts", 1, 65536));
  s.top_k = int(csv.integer(row, "topk", 1, s.experts));
  s.tp = int(csv.integer(row, "moe_tp_size", 1, 65536));
  s.ep = int(csv.integer(row, "moe_ep_size", 1, s.experts));
  r.seconds = csv.positive(row, "latency_ms") * 1e-3;
  r.load = first_experts(balanced_load(s.tokens, s.experts, s.top_k), s.local_experts());
  r.choice.kernel = sim::kTritonKernel;
  r.choice.tile = tile_of(f, s, tuned);
  r.choice.layout = layout_of_tile(r.choice.tile, f.swap);
  r.conditions = {.warm = true, .capped = f.capped};
  if (f.sglang && s.ep == 1) r.beside = beside_sglang(s);
  if (f.module) r.beside = beside_vllm_module(s);
  if (f.sglang && s.top_k == 1) r.without = "combine";  // GEMM 2 writes the output itself
  if (s.ep > 1) r.unscored = "ep > 1";
  if (s.experts == 256 || s.experts == 384) r.unscored = "grouped top-k (256 or 384 experts)";
  r.regimes = {"tokens " + range_text(s.tokens, {4, 64, 512, 2048}),
               "intermediate " + range_text(s.local_intermediate(), {256, 1024})};
  return r;
}

}  // namespace

MeasuredFile layer_rows(const Csv& csv, const std::vector<TunedTable>& tuned) {
  MeasuredFile file;
  file.layout = "MoE layers";
  file.total = csv.rows.size();
  for (const Csv::Row& row : csv.rows) {
    const std::string reason = skip_reason(csv, row);
    if (reason.empty())
      file.rows.push_back(row_of(csv, row, tuned));
    else
      ++file.skipped[reason];
  }
  return file;
}

}  // namespace moe::harness
