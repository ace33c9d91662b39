#include "harness/route/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "fixtures/files/csv.hpp"
#include "fixtures/files/gzip.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/against/peer_layers.hpp"
#include "harness/against/rows.hpp"
#include "harness/values.hpp"
#include "sim/predict.hpp"
#include "sim/schedule.hpp"

namespace moe::harness {
namespace {

/// How a kernel finds its tiles: Triton's blocks name their expert; DeepGEMM's scheduler walks the experts
/// one by one; CUTLASS's walks them 32 at a time, a lane each.
enum class Walk { none, one_by_one, by_warps };

struct Peer {
  const char* name;
  bool triton;
  bool block_scales;  // on the layers that have them
  Walk walk;
};
constexpr Peer kPeers[] = {
    {"vllm_triton", true, true, Walk::none},        {"sgl_triton_tma", true, true, Walk::none},
    {"trt_default", false, true, Walk::one_by_one}, {"dg_masked", false, true, Walk::one_by_one},
    {"vllm_cutlass", false, false, Walk::by_warps}, {"torch_sgmm", false, false, Walk::by_warps},
    {"cutlass68", false, true, Walk::by_warps},
};

const Peer* find_peer(std::string_view name) {
  for (const Peer& p : kPeers)
    if (name == p.name) return &p;
  return nullptr;
}

/// SM cycles that a step from one expert to the next takes: a read that hits L1 (about 35) and some ten
/// dependent integer instructions of about 6. An estimate; no row measures it.
constexpr double kWalkCycles = 100, kLanes = 32;

/// CUTLASS's grouped kernels also write the tensor maps of each new expert to memory and wait until they may
/// be read: there and back through L2, for every expert that a CTA comes to.
double walk_seconds(Walk walk, const ExpertLoad& load, const sim::GemmTime& time, const Hardware& hardware) {
  if (walk == Walk::none || time.grid == 0) return 0;
  const double experts = double(load.rows.size());
  if (walk == Walk::one_by_one) return experts * kWalkCycles / hardware.boost_hz;
  const auto active = std::ranges::count_if(load.rows, [](std::int64_t r) { return r > 0; });
  const double met = std::min(double(time.tiles) / double(time.grid), double(active));
  return (experts + kLanes - 1) / kLanes * kWalkCycles / hardware.boost_hz + met * 2 * hardware.l2_latency_s;
}

/// Numbers in a note like "['masked', 64, 128, 2, False, 8]" or "[128, 16, 8, 152928, True]".
std::vector<std::int64_t> numbers_in(const std::string& note) {
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < note.size();) {
    if (note[i] < '0' || note[i] > '9') {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < note.size() && note[end] >= '0' && note[end] <= '9' && end - i < 9) ++end;
    found.push_back(parse_integer("note", note.substr(i, end - i), 0, 1'000'000'000));
    i = end;
  }
  return found;
}

int swapped_side(std::int64_t tokens) {
  for (int side : {8, 16, 32, 64})
    if (tokens <= side) return side;
  return 128;
}

/// The tile of a persistent TMA + wgmma kernel as the nearest of ours: what its note says, else its rule.
void settle_tile(const Peer& peer, const std::string& note, const Problem& p, sim::GemmShape& gemm) {
  const std::vector<std::int64_t> sides = numbers_in(note);
  const std::string name = peer.name;
  std::int64_t tokens = 128;  // cutlass68, torch_sgmm
  gemm.layout = Layout::normal_wgmma;
  if (name == "trt_default" && sides.size() >= 2) {
    const bool swapped = note.find("True") != std::string::npos;
    tokens = sides[swapped ? 1 : 0];
    if (swapped) gemm.layout = Layout::swap_ab;
  } else if (name == "dg_masked" && !sides.empty()) {
    tokens = sides[0];
  } else if (name == "vllm_cutlass") {  // up to 64 rows in all it swaps, tiles of 16; else 64 tokens
    const bool swapped = p.shape.pairs() <= 64;
    tokens = swapped ? 16 : 64;
    if (swapped) gemm.layout = Layout::swap_ab;
  }
  gemm.tile.block_m = gemm.layout == Layout::swap_ab ? swapped_side(tokens) : tokens <= 64 ? 64 : 128;
  gemm.tile.block_n = 128;
}

double persistent_seconds(const Peer& peer, const std::string& note, const Problem& p, const ExpertLoad& load,
                          const Hardware& hardware) {
  sim::GemmShape gemm;
  gemm.name = "grouped_gemm";
  gemm.n = p.gemm == 1 ? p.shape.up_rows() : p.shape.hidden;
  gemm.k = p.gemm == 1 ? p.shape.hidden : p.shape.local_intermediate();
  gemm.block_scales = p.quant.block() && peer.block_scales;
  settle_tile(peer, note, p, gemm);
  const sim::GemmTime time = sim::schedule_gemm(hardware, gemm, load, p.shape.pairs());
  return time.seconds + hardware.graph_node_s + walk_seconds(peer.walk, load, time, hardware);
}

/// Of two kernels that differ in how weights are read alone the one with tensor maps (TMA) has less to issue;
/// the model has no number for it, only the order.
constexpr double kTmaFirst = 1 - 1e-6;

struct Reader {
  const Csv& csv;
  const Hardware& hardware;
  RouteReport report;
  PeerLoads loads;
  std::map<std::string, RoutePoint> found;                // by run, layer, GEMM and tokens
  std::map<std::string, std::vector<std::string>> order;  // sweep -> points

  void read(const Csv::Row& row) {
    const std::string &kind = csv.text(row, "kind"), &name = csv.text(row, "peer"),
                      &model = csv.text(row, "model"), &note = csv.text(row, "note");
    const Peer* peer = find_peer(name);
    const PeerLayer* layer = peer_layer(model);
    if (kind != "gemm1" && kind != "gemm2") return skip("no GEMM by itself (" + one_line(kind) + ")");
    if (peer == nullptr)
      return skip(one_line(name) + ": retuned, forced, needs counts on the host, or without a model");
    if (layer == nullptr) return skip("no sizes known of model " + one_line(model));
    const std::int64_t tokens = csv.integer(row, "T", 1, 1 << 20);
    Arm arm;
    arm.backend = name;
    arm.measured = csv.positive(row, "us_median") * 1e-6;
    const Problem p = peer_problem(*layer, tokens, kind == "gemm2" ? 2 : 1);
    ExpertLoad load = loads.of(model, p);
    if (peer->triton) {
      const auto config = parse_triton_note(note, fmt::format("{} line {}", csv.where, row.line));
      if (!config) return skip("the row names no tile");
      arm.choice.kernel = sim::kTritonKernel;
      arm.choice.tile = config->tile;
      arm.choice.layout = config->swap ? Layout::swap_ab : layout_of_tile(config->tile, false);
      if (config->naive) load.rows.assign(std::size_t(p.shape.pairs()), 1);  // each row is a block of its own
      arm.predicted = sim::predict(p, arm.choice, hardware, load).seconds * (config->tma ? kTmaFirst : 1);
    } else {
      arm.choice.kernel = name;
      arm.predicted = persistent_seconds(*peer, note, p, load, hardware);
    }
    add(row, kind, model, p, load, std::move(arm));
  }

  void add(const Csv::Row& row, const std::string& kind, const std::string& model, const Problem& p,
           const ExpertLoad& load, Arm arm) {
    const std::string run = csv.has("run") ? csv.text(row, "run") + " " : "";
    const std::string sweep = one_line(run + model + " " + kind),
                      key = fmt::format("{} T={}", sweep, p.shape.tokens);
    RoutePoint& point = found[key];
    if (point.arms.empty()) {
      point.label = fmt::format("{} {} {}", one_line(model), kind, p.shape.tokens);
      point.problem = p;
      const auto active = std::ranges::count_if(load.rows, [](std::int64_t r) { return r > 0; });
      point.rows_per_expert = double(load.total()) / double(std::max<std::ptrdiff_t>(active, 1));
      order[sweep].push_back(key);
    }
    if (point.arm(arm.backend) != nullptr)
      throw BadInput(fmt::format("{} line {}: a second time of {} at {}", csv.where, row.line, arm.backend,
                                 point.label));
    point.arms.push_back(std::move(arm));
  }

  void skip(const std::string& reason) { ++report.skipped[reason]; }
};

}  // namespace

RouteReport peer_report(const std::string& path, const Hardware& hardware) {
  const Csv csv = parse_csv(read_plain_or_gzip(path), path);
  Reader reader{csv, hardware, {}, {}, {}, {}};
  for (const Csv::Row& row : csv.rows) reader.read(row);
  if (reader.found.empty())
    throw BadInput(path +
                   ": no row of a kernel that can be routed to; columns kind (gemm1, gemm2), model, T, "
                   "peer, us_median, note are read");
  for (const auto& [sweep, keys] : reader.order) {
    std::vector<RoutePoint> points;
    for (const std::string& key : keys) points.push_back(std::move(reader.found[key]));
    reader.report.sweeps.push_back(std::move(points));
  }
  reader.report.subject = one_line(path) + ", kernels as shipped";
  reader.report.hardware = hardware.name;
  return std::move(reader.report);
}

}  // namespace moe::harness
