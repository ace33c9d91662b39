#include <fmt/format.h>

#include <map>
#include <optional>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/against/rows.hpp"
#include "harness/values.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

/// A layer under the name that the file gives it: sizes of a rank and the experts a token can go to there.
struct Layer {
  std::int64_t hidden, intermediate;
  int experts, top_k;
  QuantKind quant;
};
/// DeepSeek-V3 on 8 ranks by columns; by experts (every token's eight rows on the 32 experts of one rank);
/// Mixtral-8x7B on one and two; Qwen3-235B on four.
const std::map<std::string, Layer, std::less<>> kLayers{
    {"dsv3_tp8", {7168, 256, 256, 8, QuantKind::block128}},
    {"dsv3_ep8", {7168, 2048, 32, 8, QuantKind::block128}},
    {"mixtral_tp1", {4096, 14336, 8, 2, QuantKind::tensor_static}},
    {"mixtral_tp2", {4096, 7168, 8, 2, QuantKind::tensor_static}},
    {"qwen3_tp4", {4096, 384, 128, 8, QuantKind::block128}}};

struct Note {
  TileConfig tile;
  bool swap = false, tma = false, naive = false;
};

/// "cfg=8/32/128/1/4/4 swap=0 naive=1" or "... tmaB"; nothing where no tile is named.
std::optional<Note> parse_note(const std::string& text, const std::string& where) {
  if (!text.starts_with("cfg=")) return std::nullopt;
  Note note;
  for (const std::string& word : split(text, ' ')) {
    if (word.starts_with("cfg=")) {
      const auto sides = split(std::string_view(word).substr(4), '/');
      if (sides.size() != 6)
        throw BadInput(fmt::format("{}: note '{}' does not name six sides", where, one_line(word)));
      int TileConfig::*const fields[] = {&TileConfig::block_m, &TileConfig::block_n, &TileConfig::block_k,
                                         &TileConfig::group_m, &TileConfig::warps,   &TileConfig::stages};
      for (std::size_t i = 0; i < 6; ++i)
        note.tile.*fields[i] = int(parse_integer(where + ": note", sides[i], 1, 1 << 20));
    }
    note.swap |= word == "swap=1";
    note.naive |= word == "naive=1";
    note.tma |= word == "tmaB";
  }
  return note;
}

Problem problem_of(const Layer& layer, std::int64_t tokens, int gemm) {
  Problem p;
  p.op = Op::grouped_gemm;
  p.gemm = gemm;
  p.shape.tokens = tokens;
  p.shape.hidden = layer.hidden;
  p.shape.intermediate = layer.intermediate;
  p.shape.experts = layer.experts;
  p.shape.top_k = layer.top_k;
  p.quant.kind = layer.quant;
  return p;
}

/// The file's routings are uniform and not in it; this draws one.
class Loads {
 public:
  const ExpertLoad& of(const std::string& model, const Problem& p) {
    ExpertLoad& load = drawn_[{model, p.shape.tokens}];
    if (load.rows.empty()) load = sim::local_load(p, make_routing(p.routing, p.shape, p.seed));
    return load;
  }

 private:
  std::map<std::pair<std::string, std::int64_t>, ExpertLoad> drawn_;
};

struct Reader {
  const Csv& csv;
  MeasuredFile file;
  Loads loads;

  void skip(const std::string& reason) { ++file.skipped[reason]; }

  void read(const Csv::Row& row) {
    const std::string &kind = csv.text(row, "kind"), &peer = csv.text(row, "peer"),
                      &model = csv.text(row, "model");
    const std::string where = fmt::format("{} line {}", csv.where, row.line);
    const auto layer = kLayers.find(model);
    if (layer == kLayers.end()) return skip("no sizes known of model " + one_line(model));
    if (kind == "layer") return skip("whole layers: the row names no tile");
    const bool triton = peer.starts_with("vllm_triton") || peer == "triton_sweep_ptr";
    if (!triton && peer != "sgl_triton_tma" && peer != "triton_sweep_tma")
      return skip("no model of kernel " + one_line(peer));
    const auto note = parse_note(csv.text(row, "note"), where);
    if (!note) return skip("the row names no tile");
    if (note->tma || !triton) return skip("weights by tensor map (TMA): not modelled");
    add(row, *note, layer->second, model, kind);
  }

  void add(const Csv::Row& row, const Note& note, const Layer& layer, const std::string& model,
           const std::string& kind) {
    MeasuredRow r;
    r.line = row.line;
    const std::int64_t tokens = csv.integer(row, "T", 1, 1 << 24);
    r.problem = problem_of(layer, tokens, kind.ends_with("2") ? 2 : 1);
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
