// How is a micro-kernel run and timed? Buffers that all of them share, launches by name, the medians of a few
// runs.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/calibrate/calibrate_kernels.hpp"
#include "device/calibrate/calibrate_params.hpp"
#include "device/calibrate/measured_rows.hpp"
#include "device/machine.hpp"

namespace moe::device {

struct CalibrateLaunch {
  CalibrateKernel kernel;
  LaunchConfig config;
  CalibrateParams params;
};

class CalibrationBench {
 public:
  static constexpr std::uint64_t kRegion = 4ull << 30;  // far more than any L2
  static constexpr int kMostCtas = 1 << 16, kPlaces = 32;
  static constexpr std::size_t kListBytes = 1 << 14;

  explicit CalibrationBench(Machine& machine);

  Machine& machine() { return machine_; }
  int sms() const { return machine_.sms(); }
  Address data() const { return data_ + shift_; }      // kRegion of random bytes (zeros may travel in less)
  Address target() const { return target_ + shift_; }  // as large
  Address lists() const { return lists_; }             // kListBytes for small tables

  /// Moves both regions to one of a few places: which slices of L2 and channels of HBM a small footprint
  /// meets hangs on where it lies, and a row is to be of the card.
  void move(int place);
  int place() const { return place_; }

  /// Parameters with the buffers filled in and one iteration of everything.
  CalibrateParams params() const;
  /// A map over `data`: bytes / columns rows of `columns` bytes, boxes of box_rows x 128.
  void map_region(CalibrateParams& p, std::uint64_t bytes, int columns, int box_rows) const;

  /// Keeps all SMs busy for `seconds` and more: an idle card's clock rises only then.
  void warm_up(double seconds = 0.3);
  void launch(const CalibrateLaunch& what);
  /// One run; four words of each CTA's report.
  std::vector<std::uint64_t> all_reports(const CalibrateLaunch& what);
  /// One run; value `word` of each CTA's report.
  std::vector<std::uint64_t> reports(const CalibrateLaunch& what, int word);
  /// Median over `runs` of the largest value of a run: word 0 is cycles, 1 nanoseconds.
  double slowest(const CalibrateLaunch& what, int word, int runs = 15);
  /// The same of the CTAs' mean, where each does the same by itself.
  double mean(const CalibrateLaunch& what, int word, int runs = 15);
  /// Median device seconds of one call of `body` by events.
  double seconds(const std::function<void()>& body, int runs = 15);
  /// The least, where the host's own work is what is timed and only ever disturbed to the longer side.
  double least_seconds(const std::function<void()>& body, int runs = 15);
  /// Seconds a launch in a graph of `nodes` such launches, the first few left out by a difference of two
  /// graphs.
  double seconds_a_node(const CalibrateLaunch& what, int nodes = 100);
  /// Seconds of one replay of a graph of `nodes` such launches, replayed again and again without a pause.
  double seconds_a_replay(const CalibrateLaunch& what, int nodes);

 private:
  double over_ctas(const CalibrateLaunch& what, int word, int runs, double (*of)(const std::vector<double>&));
  int graph_of(const CalibrateLaunch& what, int nodes);

  Machine& machine_;
  Address data_, target_, out_, words_, lists_, shift_ = 0;
  int place_ = 0;
  std::map<std::string, int> graphs_;  // by launch and number of nodes
};

double median(std::vector<double> values);

/// Each adds its rows.
void measure_tensor(CalibrationBench& bench, MeasuredRows& rows);
void measure_clock(CalibrationBench& bench, MeasuredRows& rows);
void measure_memory(CalibrationBench& bench, MeasuredRows& rows);
void measure_launch(CalibrationBench& bench, MeasuredRows& rows);
void measure_structure(CalibrationBench& bench, MeasuredRows& rows);

}  // namespace moe::device
