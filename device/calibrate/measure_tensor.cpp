// Tensor instructions, k-blocks, and the SM clock that goes with them.
#include <algorithm>
#include <numeric>

#include "device/calibrate/calibration_bench.hpp"

namespace moe::device {
namespace {

constexpr int kWidths[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};
constexpr std::size_t kOperandBytes = 4 * 8192 + 2 * 32768 + 2048;  // tensor.cu: tiles, scales, barriers

/// CTAs of a loop that each SM runs by itself, the range of its warps' first moments, and runs: each is the
/// mean over the CTAs, so that few will do.
constexpr int kCopies = 16, kSkew = 128, kRuns = 9;

CalibrateLaunch on_one_sm(const CalibrationBench& bench, CalibrateKernel kernel, int n, int warpgroups,
                          int iterations, int more_threads = 0) {
  CalibrateLaunch launch{
      kernel, {1, unsigned(128 * warpgroups + more_threads), kOperandBytes}, bench.params()};
  launch.params.n = n;
  launch.params.iterations = iterations;
  launch.params.mode = std::int32_t(CalibrateData::normal);
  return launch;
}

struct Loop {
  CalibrateKernel kernel;
  int most;          // N
  int instructions;  // that one step counts for in the row
  bool pairs;        // two warpgroups as well
  bool staggers = false;
  int more_threads = 0;
};

constexpr int kSteps = 4000;

double cycles_a_step(CalibrationBench& bench, const CalibrateLaunch& launch) {
  return bench.mean(launch, 0, kRuns) / kSteps;
}

void measure_loop(CalibrationBench& bench, MeasuredRows& rows, const Loop& loop) {
  const std::string_view name = kCalibrateKernels[std::size_t(loop.kernel)].name;
  for (const int n : kWidths) {
    if (n > loop.most) continue;
    for (const int warpgroups : {1, 2}) {
      if (warpgroups == 2 && !loop.pairs) continue;
      CalibrateLaunch launch = on_one_sm(bench, loop.kernel, n, warpgroups, kSteps, loop.more_threads);
      launch.config.grid = kCopies;
      launch.params.share = 0;
      launch.params.skew = kSkew;
      rows.add(name, {{"n", n}, {"warpgroups", warpgroups}}, cycles_a_step(bench, launch) / loop.instructions,
               "cycles");
      if (warpgroups == 1 || !loop.staggers) continue;
      launch.params.share = 2 * n;  // the time of the other's four wgmma
      launch.params.skew = 0;
      rows.add(name, {{"n", n}, {"warpgroups", warpgroups}, {"stagger", 2.0 * n}},
               cycles_a_step(bench, launch), "cycles");
    }
  }
}

/// Cycles of a scheduler for one instruction of a warp, `count` in a step, with `warps` of them on the SM.
void measure_warp_loop(CalibrationBench& bench, MeasuredRows& rows, CalibrateKernel kernel, int count) {
  for (const int warps : {4, 8, 16}) {
    CalibrateLaunch launch{kernel, {kCopies, unsigned(32 * warps), 0}, bench.params()};
    launch.params.iterations = kSteps;
    launch.params.skew = kSkew;
    const double cycles = bench.mean(launch, 0);
    rows.add(kCalibrateKernels[std::size_t(kernel)].name, {{"warps", warps}},
             cycles / kSteps / count / (warps / 4.0), "cycles");
  }
}

double clock_of(CalibrationBench& bench, const CalibrateLaunch& launch) {
  bench.reports(launch, 0);
  const auto report = bench.all_reports(launch);
  return double(report[0]) / double(report[1]) * 1e9;
}

struct Load {
  CalibrateData data;
  int idle;  // cycles after every four wgmma
};

/// Behind a warm-up that draws little, eight launches of about 0.08 s; the rows hold the clock after each,
/// `sustained` the last four.
void measure_load(CalibrationBench& bench, MeasuredRows& rows, const Load& load) {
  CalibrateLaunch launch{
      CalibrateKernel::tensor_busy, {unsigned(bench.sms()), 256, kOperandBytes}, bench.params()};
  launch.params.mode = std::int32_t(load.data);
  launch.params.loads = load.idle;
  launch.params.cycles = 140'000'000;
  std::vector<double> hz;
  double density = 0;
  bench.warm_up();
  for (int step = 0; step < 8; ++step) {
    const auto all = bench.all_reports(launch);
    double cycles = 0, ns = 0, issued = 0;
    for (int c = 0; c < bench.sms(); ++c) {
      issued += double(all[std::size_t(4 * c)]);
      cycles += double(all[std::size_t(4 * c + 1)]);
      ns += double(all[std::size_t(4 * c + 2)]);
    }
    hz.push_back(cycles / ns * 1e9);
    density = 2 * issued * 64 / cycles;  // two warpgroups, N / 2 = 64 cycles a wgmma
  }
  const MeasuredRows::Parameters at = {{"data", double(load.data)}, {"idle", double(load.idle)}};
  const auto with = [&](const char* name, double value) {
    MeasuredRows::Parameters p = at;
    p.emplace_back(name, value);
    return p;
  };
  rows.add("tensor_busy", with("density", 1), density, "share");
  for (std::size_t step = 0; step < hz.size(); ++step)
    rows.add("tensor_busy", with("step", double(step)), hz[step], "Hz");
  rows.add("tensor_busy", with("sustained", 1), std::accumulate(hz.begin() + 4, hz.end(), 0.0) / 4, "Hz");
}

}  // namespace

void measure_tensor(CalibrationBench& bench, MeasuredRows& rows) {
  measure_loop(bench, rows, {CalibrateKernel::wgmma_chain, 256, 8, true});
  measure_loop(bench, rows, {CalibrateKernel::wgmma_chain_rs, 256, 8, false});
  measure_loop(bench, rows, {CalibrateKernel::wgmma_drain, 256, 1, false});
  measure_loop(bench, rows, {CalibrateKernel::wgmma_promote, 192, 1, true, true});
  measure_loop(bench, rows, {CalibrateKernel::wgmma_promote_rows, 128, 1, true, true});
  measure_loop(bench, rows, {CalibrateKernel::wgmma_promote_columns, 128, 1, true, true});
  measure_loop(bench, rows, {CalibrateKernel::wgmma_handover, 128, 1, true, false, 32});
  measure_warp_loop(bench, rows, CalibrateKernel::mma_f16_chain, 32);
  measure_warp_loop(bench, rows, CalibrateKernel::convert_chain, 16);
}

void measure_clock(CalibrationBench& bench, MeasuredRows& rows) {
  bench.warm_up();
  CalibrateLaunch light{CalibrateKernel::convert_chain, {1, 128, 0}, bench.params()};
  light.params.iterations = 400'000;  // about 20 ms
  rows.add("convert_chain", {{"sms", 1}}, clock_of(bench, light), "Hz");
  rows.add("wgmma_chain", {{"sms", 1}},
           clock_of(bench, on_one_sm(bench, CalibrateKernel::wgmma_chain, 128, 1, 80'000)), "Hz");
  for (const int idle : {2200, 830, 430, 0}) measure_load(bench, rows, {CalibrateData::normal, idle});
  measure_load(bench, rows, {CalibrateData::zeros, 0});
  measure_load(bench, rows, {CalibrateData::random, 0});
}

}  // namespace moe::device
