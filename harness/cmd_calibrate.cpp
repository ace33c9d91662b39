#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <ostream>

#include "device/calibrate/calibration_bench.hpp"
#include "device/cuda/calibration_machine.hpp"
#include "device/cuda/probe.hpp"
#include "fixtures/files/embedded.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/calibrate/hardware_text.hpp"
#include "harness/calibrate/rounds.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/reporters.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

constexpr double kRepeats = 0.02;  // what a second run of a quiet card keeps to
constexpr double kSteady = 0.01;   // what two halves of a run's rounds keep to before it ends
constexpr double kBudget = 50;     // seconds of measuring

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[16] = {};
  std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

std::string base_text(const std::string& hardware) {
  if (hardware.ends_with(".json")) return read_file(hardware);
  load_hardware(hardware);  // says which are known
  return std::string(find_embedded("hardware/" + hardware + ".json")->bytes);
}

device::MeasuredRows read_rows(const std::string& path) {
  return device::parse_measured_rows(read_file(path), path);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Part {
  const char* name;
  void (*measure)(device::CalibrationBench&, device::MeasuredRows&);
  int rounds;  // at least
  MeasuredRounds measured = {};
  double longest = 0, took = 0;  // seconds of a round, of all

  void round(device::CalibrationBench& bench) {
    const auto start = Clock::now();
    bench.move(measured.count());
    bench.warm_up(0.05);
    device::MeasuredRows rows;
    measure(bench, rows);
    measured.add(rows);
    longest = std::max(longest, seconds_since(start));
    took += seconds_since(start);
  }
};

/// The due rounds of all parts, in turns.
template <std::size_t N>
void due_rounds(device::CalibrationBench& bench, std::array<Part, N>& parts) {
  for (int round = 0; round < parts[0].rounds; ++round)
    for (Part& part : parts) part.round(bench);
}

/// More rounds of the parts that are not steady yet, in turns, as far as the time goes.
template <std::size_t N>
void more_rounds(device::CalibrationBench& bench, std::array<Part, N>& parts, Clock::time_point start) {
  for (bool more = true; more;) {
    more = false;
    for (Part& part : parts) {
      if (part.measured.unsteady(kSteady) == 0 || seconds_since(start) + part.longest > kBudget) continue;
      part.round(bench);
      more = true;
    }
  }
}

device::MeasuredRows measure(device::Machine& machine, const Streams& s) {
  const auto start = Clock::now();
  device::CalibrationBench bench(machine);
  std::array clock = {Part{"clock", device::measure_clock, 3}};
  std::array light = {Part{"tensor cores", device::measure_tensor, 8},
                      Part{"memory", device::measure_memory, 8}, Part{"launches", device::measure_launch, 8},
                      Part{"structure", device::measure_structure, 8}};
  bench.warm_up();
  due_rounds(bench, light);
  due_rounds(bench, clock);  // a warm card, as it is in a second run
  bench.warm_up(1);
  more_rounds(bench, light, start);
  device::MeasuredRows rows;
  const auto take = [&](const Part& part) {
    for (const device::MeasuredRow& row : part.measured.typical().all())
      rows.add(row.kernel, row.parameters, row.value, row.unit);
    s.err << fmt::format("calibrate: {}: {} rounds in {:.1f} s, {} of {} rows not steady within {:.0f} %\n",
                         part.name, part.measured.count(), part.took, part.measured.unsteady(kSteady),
                         part.measured.typical().all().size(), 100 * kSteady)
          << std::flush;
  };
  for (const Part& part : light) take(part);
  for (const Part& part : clock) take(part);
  return rows;
}

CardFacts card_facts(const device::Machine& machine) {
  CardFacts card{std::string(machine.name()), machine.sms(), 0};
  for (const device::GpuDescription& gpu : device::probe_driver().gpus)
    if (gpu.ordinal == 0) card.l2_bytes = double(gpu.l2_bytes);
  return card;
}

int compare_runs(const std::string& first, const std::string& second, const Streams& s) {
  const device::MeasuredRows a = read_rows(first), b = read_rows(second);
  s.out << two_runs(a, b, kRepeats);
  return worst_difference(a, b) > kRepeats ? int(ExitCode::failed) : 0;
}

}  // namespace

int cmd_calibrate(const Options& o, const Streams& s) {
  require_writable(o.output);
  if (o.words.size() == 2) return compare_runs(o.words[0], o.words[1], s);
  const std::string base = base_text(o.hardware);
  const Hardware before = parse_hardware(base, o.hardware);
  device::MeasuredRows rows;
  CardFacts card{before.name, before.sms, before.l2_bytes};
  if (o.words.empty()) {
    const auto machine = device::open_calibration_machine(0);
    card = card_facts(*machine);
    rows = measure(*machine, s);
  } else {
    rows = read_rows(o.words[0]);
  }
  if (!o.output.csv.empty()) write_whole(o.output.csv, device::to_csv(rows), s.out);
  const auto constants = derive_constants(rows, card.sms);
  if (!o.output.quiet) s.out << card.name << "\n" << old_against_new(base, o.hardware, constants);
  if (!o.out.empty()) write_whole(o.out, merge_hardware(base, o.hardware, card, constants, today()), s.out);
  return 0;
}

}  // namespace moe::harness
