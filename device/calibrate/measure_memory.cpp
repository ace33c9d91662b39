// Bandwidths against bytes in flight, SMs and footprint; latencies; what a loading thread pays.
#include <algorithm>

#include "device/calibrate/calibration_bench.hpp"

namespace moe::device {
namespace {

constexpr std::uint64_t kMB = 1'000'000;

std::size_t ring_bytes(int stages, int bytes) { return 1024 + std::size_t(stages) * std::size_t(bytes); }

/// `total` bytes by `grid` CTAs out of a region of `footprint` bytes.
CalibrateLaunch stream(const CalibrationBench& bench, int grid, int chunk, int stages,
                       std::uint64_t footprint, std::uint64_t total, int share = 1) {
  CalibrateLaunch launch{
      CalibrateKernel::stream_blocks, {unsigned(grid), 32, ring_bytes(stages, chunk)}, bench.params()};
  launch.params.chunk = chunk;
  launch.params.stages = stages;
  launch.params.share = share;
  launch.params.bytes = footprint / std::uint64_t(chunk) * std::uint64_t(chunk);
  launch.params.iterations = std::int32_t(std::max<std::uint64_t>(
      total / (std::uint64_t(grid) * std::uint64_t(chunk)), std::uint64_t(4 * stages)));
  return launch;
}

double bytes_of(const CalibrateLaunch& launch, int bytes_a_copy) {
  return double(launch.config.grid) * launch.params.iterations * bytes_a_copy;
}

double rate(CalibrationBench& bench, const CalibrateLaunch& launch, int bytes_a_copy) {
  return bytes_of(launch, bytes_a_copy) / (bench.slowest(launch, 1) * 1e-9);
}

void hbm_by_inflight(CalibrationBench& bench, MeasuredRows& rows) {
  for (const int kb : {8, 16, 32, 48, 64, 96, 128, 192}) {
    double best = 0;
    for (const int chunk : {8192, 16384})
      if (kb * 1024 >= chunk)
        best =
            std::max(best, rate(bench,
                                stream(bench, bench.sms(), chunk, kb * 1024 / chunk,
                                       CalibrationBench::kRegion, std::uint64_t(kb < 32 ? 1000 : 2000) * kMB),
                                chunk));
    rows.add("stream_blocks", {{"hbm", 1}, {"sms", double(bench.sms())}, {"kb", double(kb)}}, best,
             "bytes/s");
  }
}

void hbm_by_sms(CalibrationBench& bench, MeasuredRows& rows) {
  const int all = bench.sms();
  const std::vector<int> deep = {1, 8, 16, all / 4, all / 2, all * 3 / 4, all - 12, all - 4, all};
  const std::vector<int> shallow = {16, all / 4, all / 2, all * 3 / 4, all};
  for (const int stages : {12, 4})
    for (const int sms : stages == 12 ? deep : shallow) {
      const std::uint64_t total = std::clamp<std::uint64_t>(std::uint64_t(sms) * 64, 512, 2000) * kMB;
      rows.add("stream_blocks", {{"hbm", 1}, {"sms", double(sms)}, {"stages", double(stages)}},
               rate(bench, stream(bench, sms, 16384, stages, CalibrationBench::kRegion, total), 16384),
               "bytes/s");
    }
  for (const int per_sm : {2, 4})  // the same bytes in flight on an SM, by several CTAs
    rows.add(
        "stream_blocks", {{"hbm", 1}, {"ctas_per_sm", double(per_sm)}, {"kb", 128}},
        rate(bench, stream(bench, per_sm * all, 16384, 8 / per_sm, CalibrationBench::kRegion, 2000 * kMB),
             16384),
        "bytes/s");
}

/// Weights as a grouped GEMM reads them, beside contiguous blocks with as much in flight.
void hbm_boxes(CalibrationBench& bench, MeasuredRows& rows) {
  struct Shape {
    int columns, box_rows, stages, once;
  };
  for (const Shape s : {Shape{7168, 128, 7, 1}, Shape{7168, 128, 7, 0}, Shape{7168, 64, 14, 1},
                        Shape{2048, 128, 7, 1}, Shape{256, 128, 7, 1}, Shape{7168, 128, 12, 1}}) {
    const int bytes = s.box_rows * 128;
    CalibrateLaunch launch{CalibrateKernel::stream_boxes,
                           {unsigned(bench.sms()), 32, ring_bytes(s.stages, bytes)},
                           bench.params()};
    bench.map_region(launch.params, CalibrationBench::kRegion, s.columns, s.box_rows);
    launch.params.stages = s.stages;
    launch.params.mode = s.once;
    launch.params.iterations = std::int32_t(2000 * kMB / std::uint64_t(bytes) / std::uint64_t(bench.sms()));
    rows.add("stream_boxes",
             {{"columns", double(s.columns)},
              {"box_rows", double(s.box_rows)},
              {"stages", double(s.stages)},
              {"evict_first", double(s.once)}},
             rate(bench, launch, bytes), "bytes/s");
  }
  rows.add("stream_blocks", {{"hbm", 1}, {"beside_boxes", 1}, {"stages", 7}},
           rate(bench, stream(bench, bench.sms(), 16384, 7, CalibrationBench::kRegion, 2000 * kMB), 16384),
           "bytes/s");
}

void l2(CalibrationBench& bench, MeasuredRows& rows) {
  constexpr int kPlaces = 4;  // near what L2 holds, it matters where
  const int here = bench.place();
  for (const double mb : {4.1, 16.5, 33.0, 41.2, 49.5, 57.8}) {
    double sum = 0;
    for (int i = 0; i < kPlaces; ++i) {
      bench.move(here + i);
      sum += rate(bench, stream(bench, bench.sms(), 16384, 12, std::uint64_t(mb * 1e6), 2000 * kMB), 16384);
    }
    rows.add("stream_blocks", {{"l2_mb", mb}}, sum / kPlaces, "bytes/s");
  }
  bench.move(here);
  for (const int share : {2, 4, bench.sms()})
    rows.add("stream_blocks", {{"l2_mb", 16.5}, {"share", double(share)}},
             rate(bench, stream(bench, bench.sms(), 16384, 12, 16'500'000, 2000 * kMB, share), 16384),
             "bytes/s");
  const CalibrateLaunch few = stream(bench, 8, 16384, 12, 4'100'000, 500 * kMB);
  rows.add("stream_blocks", {{"l2_mb", 4.1}, {"sms", 8}}, bytes_of(few, 16384) / 8 / bench.slowest(few, 0),
           "bytes/cycle");
  CalibrateLaunch write{CalibrateKernel::write_region, {unsigned(2 * bench.sms()), 512, 0}, bench.params()};
  write.params.bytes = 16 * kMB;
  write.params.iterations = 100;
  rows.add("write_region", {{"mb", 16}}, 1600.0 * kMB / bench.seconds([&] { bench.launch(write); }),
           "bytes/s");
  write.params.bytes = 2000 * kMB;
  write.params.iterations = 1;
  rows.add("write_region", {{"mb", 2000}}, 2000.0 * kMB / bench.seconds([&] { bench.launch(write); }),
           "bytes/s");
  CalibrateLaunch copy{CalibrateKernel::copy_region, {unsigned(16 * bench.sms()), 256, 0}, bench.params()};
  copy.params.bytes = 2000 * kMB;
  rows.add("copy_region", {{"mb", 2000}}, 4000.0 * kMB / bench.seconds([&] { bench.launch(copy); }),
           "bytes/s");
}

/// Cold: every run reads boxes that none before it has read, 64 MB of them.
void latencies(CalibrationBench& bench, MeasuredRows& rows) {
  constexpr int kBoxes = 4000, kApart = 8;
  for (const bool cold : {true, false})
    for (const int box_rows : {64, 128}) {
      CalibrateLaunch launch{
          CalibrateKernel::box_latency, {1, 32, ring_bytes(1, box_rows * 128)}, bench.params()};
      bench.map_region(launch.params, cold ? CalibrationBench::kRegion : 2 * kMB, 1024, box_rows);
      launch.params.share = cold ? kApart : 1;
      launch.params.iterations = kBoxes;
      std::vector<double> cycles, seconds;
      for (int run = 0; run < kApart; ++run) {
        launch.params.mode = cold ? run * box_rows : 0;
        const auto report = bench.all_reports(launch);
        if (run == 0) continue;  // brings the code
        cycles.push_back(double(report[0]) / kBoxes);
        seconds.push_back(double(report[1]) / kBoxes * 1e-9);
      }
      const MeasuredRows::Parameters at = {{"cold", double(cold)}, {"box_rows", double(box_rows)}};
      rows.add("box_latency", at, median(cycles), "cycles");
      rows.add("box_latency", at, median(seconds), "s");
    }
}

void loader(CalibrationBench& bench, MeasuredRows& rows) {
  constexpr int kSteps = 8000;
  struct Shape {
    int box_rows, loads, stages;
  };
  for (const int grid : {1, bench.sms()})
    for (const Shape s : {Shape{8, 1, 16}, Shape{8, 2, 16}, Shape{8, 3, 16}, Shape{8, 4, 16}, Shape{64, 1, 8},
                          Shape{64, 2, 8}, Shape{128, 1, 8}, Shape{128, 2, 6}}) {
      const int bytes = s.box_rows * 128 * s.loads;
      CalibrateLaunch launch{
          CalibrateKernel::loader, {unsigned(grid), 64, ring_bytes(s.stages, bytes)}, bench.params()};
      bench.map_region(launch.params, std::uint64_t(bench.sms()) * std::uint64_t(s.box_rows * s.loads) * 512,
                       512, s.box_rows);
      launch.params.loads = s.loads;
      launch.params.stages = s.stages;
      launch.params.iterations = kSteps;
      for (const int alone : {0, 1}) {
        launch.params.mode = alone;
        rows.add("loader",
                 {{"sms", double(grid)},
                  {"box_rows", double(s.box_rows)},
                  {"loads", double(s.loads)},
                  {"alone", double(alone)}},
                 bench.mean(launch, 0) / kSteps, "cycles");
      }
    }
  CalibrateLaunch wait{CalibrateKernel::wait_cost, {1, 32, 2048}, bench.params()};
  wait.params.iterations = kSteps;
  rows.add("wait_cost", {}, bench.slowest(wait, 0) / kSteps, "cycles");
}

}  // namespace

void measure_memory(CalibrationBench& bench, MeasuredRows& rows) {
  hbm_by_inflight(bench, rows);
  hbm_by_sms(bench, rows);
  hbm_boxes(bench, rows);
  l2(bench, rows);
  latencies(bench, rows);
  loader(bench, rows);
}

}  // namespace moe::device
