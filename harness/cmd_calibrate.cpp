#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <ostream>

#include "device/cuda/calibration_machine.hpp"
#include "device/cuda/probe.hpp"
#include "fixtures/files/embedded.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/files/read_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/calibrate/hardware_text.hpp"
#include "harness/calibrate/measure_rounds.hpp"
#include "harness/cli.hpp"
#include "harness/exit_code.hpp"
#include "harness/reporters.hpp"
#include "harness/write_file.hpp"

namespace moe::harness {
namespace {

constexpr double kRepeats = 0.02;  // what a second run of a quiet card keeps to
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
    rows = measure_in_rounds(*machine, kBudget, s.err);
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
