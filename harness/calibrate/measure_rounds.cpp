#include "harness/calibrate/measure_rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ostream>

#include "device/calibrate/calibration_bench.hpp"
#include "harness/calibrate/rounds.hpp"

namespace moe::harness {
namespace {

constexpr double kSteady = 0.01;  // what two halves of a run's rounds keep to before it ends

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kPlacesApart = 3;  // no divisor of the number of places

struct Part {
  const char* name;
  void (*measure)(device::CalibrationBench&, device::MeasuredRows&);
  int rounds;  // at least
  MeasuredRounds measured = {};
  double longest = 0, took = 0;  // seconds of a round, of all

  void round(device::CalibrationBench& bench) {
    const auto start = Clock::now();
    bench.move(kPlacesApart * measured.count());
    bench.warm_up(0.05);
    device::MeasuredRows rows;
    measure(bench, rows);
    measured.add(rows);
    longest = std::max(longest, seconds_since(start));
    took += seconds_since(start);
  }
};

void take(const Part& part, device::MeasuredRows& rows, std::ostream& progress) {
  const device::MeasuredRows typical = part.measured.typical();
  for (const device::MeasuredRow& row : typical.all())
    rows.add(row.kernel, row.parameters, row.value, row.unit);
  progress << fmt::format("calibrate: {}: {} rounds in {:.1f} s, {} of {} rows not steady within {:.0f} %\n",
                          part.name, part.measured.count(), part.took, part.measured.unsteady(kSteady),
                          typical.all().size(), 100 * kSteady)
           << std::flush;
}

/// The due rounds of all parts, in turns.
template <std::size_t N>
void due_rounds(device::CalibrationBench& bench, std::array<Part, N>& parts) {
  for (bool due = true; due;) {
    due = false;
    for (Part& part : parts) {
      if (part.measured.count() == part.rounds) continue;
      part.round(bench);
      due = true;
    }
  }
}

/// More rounds of the parts that are not steady yet, in turns, as far as the time goes.
template <std::size_t N>
void more_rounds(device::CalibrationBench& bench, std::array<Part, N>& parts, Clock::time_point start,
                 double budget) {
  for (bool more = true; more;) {
    more = false;
    for (Part& part : parts) {
      if (part.measured.unsteady(kSteady) == 0 || seconds_since(start) + part.longest > budget) continue;
      part.round(bench);
      more = true;
    }
  }
}

}  // namespace

device::MeasuredRows measure_in_rounds(device::Machine& machine, double budget, std::ostream& progress) {
  const auto start = Clock::now();
  device::CalibrationBench bench(machine);
  std::array clock = {Part{"clock", device::measure_clock, 4}};
  std::array light = {Part{"tensor cores", device::measure_tensor, 4},
                      Part{"memory", device::measure_memory, 8}, Part{"launches", device::measure_launch, 8},
                      Part{"structure", device::measure_structure, 8}};
  bench.warm_up();
  due_rounds(bench, light);
  due_rounds(bench, clock);  // a warm card, as it is in a second run
  bench.warm_up(1);
  more_rounds(bench, light, start, budget);
  device::MeasuredRows rows;
  for (const Part& part : light) take(part, rows, progress);
  for (const Part& part : clock) take(part, rows, progress);
  return rows;
}

}  // namespace moe::harness
