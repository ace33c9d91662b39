#include "harness/calibrate/derive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

using Parameters = device::MeasuredRows::Parameters;
using Points = std::vector<std::pair<double, double>>;

std::string describe(std::string_view kernel, const Parameters& parameters) {
  std::string text(kernel);
  for (const auto& [name, value] : parameters) text += fmt::format(",{}={}", name, to_text(value));
  return text;
}

class Deriver {
 public:
  Deriver(const device::MeasuredRows& rows, int sms) : rows_(rows), sms_(sms) {}

  std::vector<CardConstant> run() {
    clocks();
    instructions();
    kblocks();
    loader();
    memory();
    launches();
    surroundings();
    return std::move(constants_);
  }

 private:
  double value(std::string_view kernel, std::string_view unit, const Parameters& at) const {
    const device::MeasuredRow* row = rows_.find(kernel, unit, at);
    if (!row) throw BadInput(fmt::format("no measured row {} in {}", describe(kernel, at), unit));
    return row->value;
  }
  void number(std::string key, double value, std::string row) {
    constants_.push_back({std::move(key), value, {}, std::move(row)});
  }
  void curve(std::string key, Points points, std::string row) {
    std::sort(points.begin(), points.end());
    points.erase(std::unique(points.begin(), points.end(),
                             [](const auto& a, const auto& b) { return a.first == b.first; }),
                 points.end());
    if (points.empty()) throw BadInput(fmt::format("no measured row of {}: {}", key, row));
    constants_.push_back({std::move(key), 0, std::move(points), std::move(row)});
  }
  /// (parameter `x`, value) of all rows of a kernel that have `at` and `x`.
  Points points(std::string_view kernel, std::string_view unit, const Parameters& at,
                std::string_view x) const {
    Points found;
    for (const device::MeasuredRow& row : rows_.all()) {
      if (row.kernel != kernel || row.unit != unit) continue;
      const auto has = [&](const auto& wanted) {
        return std::find(row.parameters.begin(), row.parameters.end(), wanted) != row.parameters.end();
      };
      if (!std::all_of(at.begin(), at.end(), has)) continue;
      for (const auto& [name, value] : row.parameters)
        if (name == x) found.emplace_back(value, row.value);
    }
    return found;
  }

  void clocks() {
    number("boost_hz", value("convert_chain", "Hz", {{"sms", 1}}), "convert_chain,sms=1: no tensor work");
    const double tensor = value("wgmma_chain", "Hz", {{"sms", 1}});
    number("tensor_hz", tensor, "wgmma_chain,sms=1: one SM runs wgmma");
    Points load = {{0, tensor}};
    for (const auto& [idle, hz] : points("tensor_busy", "Hz", {{"data", 1}, {"sustained", 1}}, "idle")) {
      const double density = value("tensor_busy", "share", {{"data", 1}, {"idle", idle}});
      load.emplace_back(std::min(density, 1.0), hz);
    }
    curve("clock_by_tensor_load", load,
          "tensor_busy,data=1 (about normal codes): clock of the second third of a second against the share "
          "of cycles "
          "in wgmma; at 0 wgmma_chain,sms=1");
  }

  void instructions() {
    curve("wgmma_cycles_ss", points("wgmma_chain", "cycles", {{"warpgroups", 1}}, "n"),
          "wgmma_chain,warpgroups=1");
    curve("wgmma_cycles_rs", points("wgmma_chain_rs", "cycles", {{"warpgroups", 1}}, "n"),
          "wgmma_chain_rs,warpgroups=1");
    const double widest = value("wgmma_chain", "cycles", {{"n", 256}, {"warpgroups", 1}});
    number("fp8_flop_per_cycle", 2.0 * 64 * 256 * 32 / widest,
           "wgmma_chain,n=256: 64 x 256 x 32 x 2 FLOP each");
    number("mma_f16_cycles", value("mma_f16_chain", "cycles", {{"warps", 16}}), "mma_f16_chain,warps=16");
    number("cvt_e4m3_cycles", value("convert_chain", "cycles", {{"warps", 4}}), "convert_chain,warps=4");
  }

  void kblocks() {
    curve("kblock_drain_cycles", points("wgmma_drain", "cycles", {{"warpgroups", 1}}, "n"), "wgmma_drain");
    curve("kblock_promote_cycles", points("wgmma_promote", "cycles", {{"warpgroups", 1}}, "n"),
          "wgmma_promote,warpgroups=1");
    Points pair = points("wgmma_handover", "cycles", {{"warpgroups", 2}}, "n");
    for (const auto& [n, cycles] : points("wgmma_promote", "cycles", {{"warpgroups", 2}}, "n"))
      if (pair.empty() || n > pair.back().first) pair.emplace_back(n, cycles);
    curve("kblock_promote_cycles_pair", pair,
          "wgmma_handover,warpgroups=2: with the waits and the hand-over; beyond its widest N "
          "wgmma_promote,warpgroups=2");
    const Parameters wide = {{"n", 128}, {"warpgroups", 1}};
    number("kblock_barrier_cycles",
           value("wgmma_handover", "cycles", wide) - value("wgmma_promote", "cycles", wide),
           "wgmma_handover,n=128,warpgroups=1 less wgmma_promote of the same");
  }

  void loader() {
    const auto period = [&](double loads) {
      return value("loader", "cycles", {{"sms", 1}, {"box_rows", 8}, {"loads", loads}});
    };
    const double per_load = (period(3) - period(1)) / 2;
    number("producer_cycles_per_load", per_load, "loader,sms=1,box_rows=8: three loads less one, halved");
    number("producer_cycles_per_row", per_load, "as producer_cycles_per_load: lanes issue one after another");
    number("producer_cycles", std::max(period(1) - per_load, 0.0),
           "loader,sms=1,box_rows=8,loads=1 less one load");
  }

  void memory() {
    const double all = sms_;
    const auto from_zero = [](Points p) {
      p.emplace_back(0, 0);
      return p;
    };
    curve("hbm_bytes_per_s_by_inflight",
          from_zero(points("stream_blocks", "bytes/s", {{"hbm", 1}, {"sms", all}}, "kb")),
          "stream_blocks,hbm, all SMs, the better of 8 and 16 KB blocks; the origin is by definition");
    curve("hbm_bytes_per_s_by_sms",
          from_zero(points("stream_blocks", "bytes/s", {{"hbm", 1}, {"stages", 12}}, "sms")),
          "stream_blocks,hbm,stages=12 of 16 KB; the origin is by definition");
    curve("hbm_bytes_per_s_by_sms_shallow",
          from_zero(points("stream_blocks", "bytes/s", {{"hbm", 1}, {"stages", 4}}, "sms")),
          "stream_blocks,hbm,stages=4 of 16 KB; the origin is by definition");
    number("hbm_box_fraction",
           value("stream_boxes", "bytes/s",
                 {{"columns", 7168}, {"box_rows", 128}, {"stages", 7}, {"evict_first", 1}}) /
               value("stream_blocks", "bytes/s", {{"beside_boxes", 1}}),
           "stream_boxes,columns=7168,box_rows=128,stages=7 over stream_blocks with as much in flight");
    Points l2 = points("stream_blocks", "bytes/s", {}, "l2_mb");
    std::stable_sort(l2.begin(), l2.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    l2.erase(
        std::unique(l2.begin(), l2.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
        l2.end());  // the first of each footprint reads each block once
    curve("l2_bytes_per_s_by_footprint", l2, "stream_blocks,l2_mb=..");
    number("l2_shared_bytes_per_s", value("stream_blocks", "bytes/s", {{"l2_mb", 16.5}, {"share", 4}}),
           "stream_blocks,l2_mb=16.5,share=4: four SMs read the same blocks side by side");
    number("l2_write_bytes_per_s", value("write_region", "bytes/s", {{"mb", 16}}), "write_region,mb=16");
    number("fill_bytes_per_cycle", value("stream_blocks", "bytes/cycle", {{"l2_mb", 4.1}, {"sms", 8}}),
           "stream_blocks,l2_mb=4.1,sms=8");
    number("hbm_latency_s", value("box_latency", "s", {{"cold", 1}, {"box_rows", 128}}),
           "box_latency,cold=1");
    number("l2_latency_s", value("box_latency", "s", {{"cold", 0}, {"box_rows", 128}}), "box_latency,cold=0");
    number("copy_bytes_per_s", value("copy_region", "bytes/s", {{"mb", 2000}}), "copy_region,mb=2000");
  }

  double node(bool dependent, double shared) const {
    return value("spin", "s", {{"dependent", double(dependent)}, {"shared_bytes", shared}});
  }
  void launches() {
    number("launch_s", value("empty", "s", {{"stream", 1}}), "empty,stream=1: back to back");
    number("graph_node_s", node(false, 204800),
           "spin,dependent=0,shared_bytes=204800: node to node less the body");
    number("dependent_launch_s", node(true, 204800), "spin,dependent=1,shared_bytes=204800");
    number("cta_turnover_s", value("empty", "s", {{"turnover", 1}, {"shared_bytes", 204800}}),
           "empty,turnover=1,shared_bytes=204800: 128 CTAs an SM less 32");
    number("grid_barrier_s", value("grid_barrier", "s", {}), "grid_barrier");
  }

  void surroundings() {
    const double all = sms_;
    std::vector<double> starts;
    Points epilogues;  // outputs a thread -> cycles
    for (const device::MeasuredRow& row : rows_.all()) {
      if (!row.kernel.starts_with("structure_")) continue;
      const std::map<std::string, double> at(row.parameters.begin(), row.parameters.end());
      if (at.at("ctas") == all && at.contains("tiles") && at.at("tiles") == 0) starts.push_back(row.value);
      if (at.at("ctas") == 1 && at.contains("outputs")) epilogues.emplace_back(at.at("outputs"), row.value);
    }
    if (starts.empty() || epilogues.size() < 2)
      throw BadInput("no measured rows structure_* of one and of all SMs");
    std::sort(starts.begin(), starts.end());
    number("prologue_s", std::max(starts[starts.size() / 2] - node(true, 204800), 0.0),
           "structure_*, all SMs, no tile: median from node to node, less dependent_launch_s");
    double x = 0, y = 0, xx = 0, xy = 0;
    const double count = double(epilogues.size());
    for (const auto& [outputs, cycles] : epilogues)
      x += outputs, y += cycles, xx += outputs * outputs, xy += outputs * cycles;
    const double slope = (count * xy - x * y) / (count * xx - x * x);
    number("epilogue_cycles", std::max((y - slope * x) / count, 0.0),
           "structure_*,ctas=1: epilogues one after another, least squares against outputs a thread");
    number("epilogue_cycles_per_output", std::max(slope, 0.0), "the same line's slope");
    const double warm =
        value("small_kernel", "s", {{"dependent", 1}, {"ctas", all}, {"steps", 3}}) - node(true, 0);
    const double colder = value("box_latency", "s", {{"cold", 1}, {"box_rows", 128}}) -
                          value("box_latency", "s", {{"cold", 0}, {"box_rows", 128}});
    number("small_kernel_s", std::max(warm, 0.0) + 2 * colder,
           "small_kernel,dependent=1,steps=3, all SMs, less its launch: two accesses of L2, which are made "
           "two of HBM "
           "by the two latencies");
  }

  const device::MeasuredRows& rows_;
  int sms_;
  std::vector<CardConstant> constants_;
};

}  // namespace

std::vector<CardConstant> derive_constants(const device::MeasuredRows& rows, int sms) {
  return Deriver(rows, sms).run();
}

}  // namespace moe::harness
