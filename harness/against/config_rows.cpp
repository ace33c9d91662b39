#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/against/peer_layers.hpp"
#include "harness/against/rows.hpp"
#include "harness/values.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

/// A kernel that is predicted as a built-in one.
struct Persistent {
  std::string family;  // two words
  TileConfig tile;
  bool swap = false;
};

/// "[block_m, block_n, stages, shared bytes, swapped]" of TensorRT-LLM's fork, in wgmma's M and N.
std::optional<Persistent> trt_fork(const std::string& note) {
  int m = 0, n = 0, stages = 0, shared = 0;
  char swapped[6] = {};
  if (std::sscanf(note.c_str(), "[%d, %d, %d, %d, %5[TrueFals]]", &m, &n, &stages, &shared, swapped) != 5)
    return {};
  Persistent kernel{"TensorRT-LLM fork", {}, std::string_view(swapped) == "True"};
  kernel.tile.block_m = kernel.swap ? n : m;
  kernel.tile.block_n = kernel.swap ? m : n;
  kernel.tile.stages = stages;
  return kernel;
}

/// vLLM's rule names its tile: m4 and m64 are swapped, 16 tokens wide; the others are 64 tokens and more.
Persistent cutlass(const std::string& note) {
  Persistent kernel{"vLLM CUTLASS", {}, note == "m4" || note == "m64"};
  kernel.tile.block_m = kernel.swap ? 16 : note == "k8192" ? 128 : 64;
  kernel.tile.block_n = 128;
  return kernel;
}

struct Reader {
  const Csv& csv;
  MeasuredFile file;
  PeerLoads loads;

  void skip(const std::string& reason) { ++file.skipped[reason]; }

  void read(const Csv::Row& row) {
    const std::string &kind = csv.text(row, "kind"), &peer = csv.text(row, "peer"),
                      &model = csv.text(row, "model");
    const std::string where = fmt::format("{} line {}", csv.where, row.line);
    const PeerLayer* layer = peer_layer(model);
    if (layer == nullptr) return skip("no sizes known of model " + one_line(model));
    if (kind == "layer") return skip("whole layers: the row names no tile");
    if (peer == "trt_norm" || peer == "trt_swap") {
      const auto kernel = trt_fork(csv.text(row, "note"));
      if (!kernel)
        throw BadInput(fmt::format("{}: note '{}' names no tile", where, one_line(csv.text(row, "note"))));
      return add_persistent(row, *kernel, *layer, model, kind);
    }
    if (peer.starts_with("vllm_cutlass"))
      return add_persistent(row, cutlass(csv.text(row, "note")), *layer, model, kind);
    const bool triton = peer.starts_with("vllm_triton") || peer == "triton_sweep_ptr";
    if (!triton && peer != "sgl_triton_tma" && peer != "triton_sweep_tma")
      return skip("no model of kernel " + one_line(peer));
    const auto note = parse_triton_note(csv.text(row, "note"), where);
    if (!note) return skip("the row names no tile");
    if (note->tma || !triton) return skip("weights by tensor map (TMA): not modelled");
    add(row, *note, *layer, model, kind);
  }

  /// The built-in kernel of that tile and order, with the kernel's own scales.
  void add_persistent(const Csv::Row& row, const Persistent& kernel, const PeerLayer& layer,
                      const std::string& model, const std::string& kind) {
    MeasuredRow r;
    r.line = row.line;
    const std::int64_t tokens = csv.integer(row, "T", 1, 1 << 24);
    r.problem = peer_problem(layer, tokens, kind.ends_with("2") ? 2 : 1);
    if (kernel.family == "vLLM CUTLASS" && r.problem.quant.block())
      r.problem.quant.kind = QuantKind::token_channel;
    r.choice.tile = kernel.tile;
    r.choice.layout = kernel.swap ? Layout::swap_ab : Layout::normal_wgmma;
    r.swapped = kernel.swap;
    r.gemm_alone = true;
    r.load = loads.of(model, r.problem);
    r.seconds = csv.positive(row, "us_median") * 1e-6;
    r.unscored = kernel.family + ", predicted as a built-in kernel";
    const std::string run = csv.has("run") ? csv.text(row, "run") : "";
    r.twin = fmt::format("{} {} {} T={} gemm {}", kernel.family, run, model, tokens, r.problem.gemm);
    file.rows.push_back(std::move(r));
  }

  void add(const Csv::Row& row, const TritonNote& note, const PeerLayer& layer, const std::string& model,
           const std::string& kind) {
    MeasuredRow r;
    r.line = row.line;
    const std::int64_t tokens = csv.integer(row, "T", 1, 1 << 24);
    r.problem = peer_problem(layer, tokens, kind.ends_with("2") ? 2 : 1);
    r.choice.kernel = sim::kTritonKernel;
    r.choice.tile = note.tile;
    r.choice.layout = note.swap ? Layout::swap_ab : layout_of_tile(note.tile, false);
    r.swapped = note.swap;
    r.load = loads.of(model, r.problem);
    if (note.naive)
      r.load.rows.assign(std::size_t(r.problem.shape.pairs()), 1);  // each row is a block of its own
    r.seconds = csv.positive(row, "us_median") * 1e-6;
    const bool sweep = kind.starts_with("sweep");
    const std::string gemm = r.problem.gemm == 1 ? "gemm 1" : "gemm 2",
                      run = csv.has("run") ? csv.text(row, "run") : "";
    r.regimes = {sweep ? "retuned" : "as shipped", gemm, note.swap ? "swap_ab" : "normal order",
                 "tokens " + range_text(tokens, {4, 64, 512}), model};
    const std::string problem = fmt::format("{} {} T={} {}", run, model, tokens, gemm);
    if (sweep) r.contest = problem;
    r.twin = fmt::format("{} {} {}", sweep ? "retuned" : "as shipped", problem, to_string(note.tile));
    file.rows.push_back(std::move(r));
  }
};

}  // namespace

MeasuredFile config_rows(const Csv& csv) {
  Reader reader{csv, {}, {}};
  reader.file.layout = "Triton configs";
  reader.file.total = csv.rows.size();
  for (const Csv::Row& row : csv.rows) reader.read(row);
  return std::move(reader.file);
}

}  // namespace moe::harness
