#include "device/calibrate/calibration_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace moe::device {
namespace {

constexpr std::uint64_t kShift = 66ull << 20;  // from place to place: more than L2 holds, no power of two

double largest_of(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}
double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

CalibrationBench::CalibrationBench(Machine& machine) : machine_(machine) {
  constexpr std::uint64_t all = kRegion + kPlaces * kShift;
  data_ = machine.allocate(all, BufferUse::input, "region");
  target_ = machine.allocate(all, BufferUse::workspace, "target");
  out_ = machine.allocate(std::size_t(kMostCtas) * 4 * 8, BufferUse::output, "reports");
  words_ = machine.allocate(256, BufferUse::workspace, "words");
  lists_ = machine.allocate(kListBytes, BufferUse::input, "lists");
  CalibrateLaunch fill{CalibrateKernel::fill_region, {unsigned(8 * machine.sms()), 512}, params()};
  fill.params.target = reinterpret_cast<std::uint8_t*>(data_);
  fill.params.bytes = all;
  launch(fill);
  machine.synchronize();
}

void CalibrationBench::move(int place) {
  place_ = place % kPlaces;
  shift_ = std::uint64_t(place_) * kShift;
}

void CalibrationBench::warm_up(double seconds) {
  CalibrateLaunch busy{CalibrateKernel::spin, {unsigned(machine_.sms()), 128}, params()};
  busy.params.cycles = 20'000'000;
  for (int i = 0; i < int(seconds * 100); ++i) launch(busy);  // 10 ms each at the highest clock
  machine_.synchronize();
}

CalibrateParams CalibrationBench::params() const {
  CalibrateParams p{};
  p.data = reinterpret_cast<const std::uint8_t*>(data());
  p.target = reinterpret_cast<std::uint8_t*>(target());
  p.out = reinterpret_cast<std::uint64_t*>(out_);
  p.words = reinterpret_cast<std::uint32_t*>(words_);
  p.bytes = kRegion;
  p.iterations = p.n = p.stages = p.loads = p.share = 1;
  p.chunk = 16384;
  p.box_rows = 128;
  p.columns = 7168;
  return p;
}

void CalibrationBench::map_region(CalibrateParams& p, std::uint64_t bytes, int columns, int box_rows) const {
  const std::uint64_t rows = bytes / std::uint64_t(columns);
  p.bytes = rows * std::uint64_t(columns);
  p.columns = columns;
  p.box_rows = box_rows;
  p.map =
      machine_.tensor_map(data(), rows, std::uint64_t(columns), std::uint64_t(columns), unsigned(box_rows));
}

void CalibrationBench::launch(const CalibrateLaunch& what) {
  device::launch(machine_, int(what.kernel), what.config, what.params);
}

std::vector<std::uint64_t> CalibrationBench::all_reports(const CalibrateLaunch& what) {
  machine_.fill(words_, 0, 256);
  launch(what);
  machine_.synchronize();
  std::vector<std::uint64_t> all(std::size_t(what.config.grid) * 4);
  machine_.download(all.data(), out_, all.size() * 8);
  return all;
}

std::vector<std::uint64_t> CalibrationBench::reports(const CalibrateLaunch& what, int word) {
  const std::vector<std::uint64_t> all = all_reports(what);
  std::vector<std::uint64_t> one;
  for (std::size_t c = std::size_t(word); c < all.size(); c += 4) one.push_back(all[c]);
  return one;
}

double CalibrationBench::over_ctas(const CalibrateLaunch& what, int word, int runs,
                                   double (*of)(const std::vector<double>&)) {
  reports(what, word);  // the first brings code and data
  std::vector<double> values;
  for (int i = 0; i < runs; ++i) {
    const auto one = reports(what, word);
    values.push_back(of(std::vector<double>(one.begin(), one.end())));
  }
  return median(values);
}

double CalibrationBench::slowest(const CalibrateLaunch& what, int word, int runs) {
  return over_ctas(what, word, runs, largest_of);
}

double CalibrationBench::mean(const CalibrateLaunch& what, int word, int runs) {
  return over_ctas(what, word, runs, mean_of);
}

double CalibrationBench::seconds(const std::function<void()>& body, int runs) {
  machine_.time_of(body);
  std::vector<double> values;
  for (int i = 0; i < runs; ++i) values.push_back(machine_.time_of(body));
  return median(values);
}

double CalibrationBench::least_seconds(const std::function<void()>& body, int runs) {
  double least = machine_.time_of(body);
  for (int i = 0; i < runs; ++i) least = std::min(least, machine_.time_of(body));
  return least;
}

int CalibrationBench::graph_of(const CalibrateLaunch& what, int nodes) {
  const auto bytes = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const LaunchConfig& c = what.config;
  const std::string key = fmt::format("{} {} {} {} {} {} {} ", int(what.kernel), nodes, c.grid, c.block,
                                      c.shared_bytes, c.dependent, c.cooperative) +
                          bytes(what.params);
  const auto known = graphs_.find(key);
  if (known != graphs_.end()) return known->second;
  return graphs_[key] = machine_.record([&] {
    for (int i = 0; i < nodes; ++i) launch(what);
  });
}

double CalibrationBench::seconds_a_replay(const CalibrateLaunch& what, int nodes) {
  constexpr int kReplays = 50;
  const int graph = graph_of(what, nodes);
  return seconds([&] {
           for (int i = 0; i < kReplays; ++i) machine_.replay(graph);
         }) /
         kReplays;
}

double CalibrationBench::seconds_a_node(const CalibrateLaunch& what, int nodes) {
  const auto chain = [&](int count) {
    const int graph = graph_of(what, count);
    return seconds([&] { machine_.replay(graph); });
  };
  const double few = chain(nodes / 5), many = chain(nodes);
  return (many - few) / (nodes - nodes / 5);
}

}  // namespace moe::device
