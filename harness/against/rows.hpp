// What does a file of measured kernel times say, in this program's words? Four layouts of columns are known;
// each row becomes a problem with a choice, the conditions it was timed under and its time, or a reason why
// it has no prediction.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "fixtures/files/csv.hpp"
#include "fixtures/files/tuned_table.hpp"
#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/problem.hpp"
#include "sim/conditions.hpp"
#include "sim/layer.hpp"

namespace moe::harness {

struct MeasuredRow {
  int line = 0;                      // of the file
  std::vector<std::string> regimes;  // "tokens 1-4", "normal order": each is summed up by itself
  std::string unscored;              // why it counts only as a regime of its own; empty: it is scored
  Problem problem;
  Choice choice;
  ExpertLoad load;
  sim::Conditions conditions;
  std::vector<sim::Elementwise> beside;  // kernels inside the time that the layer does not have
  std::string without;                   // part of the layer that was not run; empty: all were
  bool gemm_alone = false;               // the time is the GEMM's, without what sorts its rows
  double seconds = 0;
  std::string contest;  // rows of one problem in several tiles share it; empty: no such row
  std::string twin;     // rows that differ in the operand order alone share it; empty: no such row
  bool swapped = false;
};

struct MeasuredFile {
  std::string layout;  // "dense GEMMs", "MoE layers", "Triton configs"
  std::size_t total = 0;
  std::vector<MeasuredRow> rows;
  std::map<std::string, int> skipped;  // reason -> rows
};

/// m, n, k, time_us: dense FP8 GEMMs with block scales, as CUTLASS runs them (vLLM, SGLang), launched on a
/// stream over and over again on the same inputs.
MeasuredFile dense_rows(const Csv&);

/// kernel_source, moe_dtype, num_tokens, hidden_size, inter_size, topk, num_experts, moe_tp_size,
/// moe_ep_size, distribution, latency_ms: whole layers, replayed from a graph on the same weights. The tile
/// is the table's in `tuned` where one applies, else the framework's default.
MeasuredFile layer_rows(const Csv&, const std::vector<TunedTable>& tuned);

/// kind, model, T, peer, us_median, note with "cfg=M/N/K/GROUP/warps/stages swap=0|1": Triton's grouped GEMMs
/// in given tiles, nodes of a graph whose weights are cold. Two persistent kernels that exist in both operand
/// orders (TensorRT-LLM's DeepGEMM, vLLM's CUTLASS) are predicted as built-in ones of the nearest tile: their
/// times are not scored, their pairs are.
MeasuredFile config_rows(const Csv&);

/// case, measured_s, baseline: what `bench --csv` wrote of the built-in kernels.
MeasuredFile own_rows(const Csv&);

/// The layout that the columns show; throws BadInput naming the four where they show none.
MeasuredFile read_measured(const std::string& path, const std::vector<TunedTable>& tuned);

/// "1-16", "17-66", ..: the range of `edges` (upper ends, ascending) that holds x; "> last" beyond.
std::string range_text(std::int64_t x, const std::vector<std::int64_t>& edges);

}  // namespace moe::harness
