#include <fmt/format.h>

#include <ostream>

#include "device/cuda/probe.hpp"
#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/executors.hpp"
#include "harness/exit_code.hpp"
#include "harness/record.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

std::string line(const char* label, const std::string& text) {
  return fmt::format("  {:<16}{}\n", label, text);
}

std::string cpu_level() {
  __builtin_cpu_init();
  const char* level = __builtin_cpu_supports("avx512f") ? "AVX-512"
                      : __builtin_cpu_supports("avx2")  ? "AVX2"
                                                        : "SSE2 (the reference is slow without AVX2)";
  return fmt::format("{}, {} threads", level, host_threads());
}

std::string driver_lines(const device::DriverProbe& probe) {
  std::string out = line("driver", probe.detail);
  for (const device::GpuDescription& gpu : probe.gpus) {
    const bool hopper = gpu.major == 9 && gpu.minor == 0;
    out += line("GPU", fmt::format("{}: {} ({} SMs, {}, sm_{}{}){}", gpu.ordinal, gpu.name, gpu.sms,
                                   bytes_text(double(gpu.memory_bytes)), gpu.major, gpu.minor,
                                   hopper ? "" : ": these kernels need sm_90"));
  }
  using State = device::DriverProbe::State;
  if (probe.state == State::no_library)
    out += line("", "for a GPU: install the NVIDIA driver package of your distribution (libcuda.so.1)");
  if (probe.state == State::too_old) out += line("", "for this GPU: install a newer NVIDIA driver");
  return out;
}

std::string executor_line(const std::string& name) {
  const ExecutorChoice chosen = choose_executor({name});
  return line(name.c_str(), chosen.executor ? "ready" : "not available: " + chosen.why_not);
}

std::string hardware_line(const std::string& name) {
  const Hardware hardware = load_hardware(name);
  return line("hardware", fmt::format("{}: {} SMs, {}", hardware.name, hardware.sms, hardware.source));
}

}  // namespace

int cmd_doctor(const Options& o, const Streams& s) {
  s.out << "moeproof " << tool_version() << "\n";
  s.out << line("compiler", std::string(__VERSION__)) << line("processor", cpu_level());
  s.out << driver_lines(device::probe_driver());
  for (const char* executor : {"cuda", "emulated", "reference"}) s.out << executor_line(executor);
  s.out << hardware_line(o.hardware);
  s.out << "Predictions and the emulated SM need no GPU. To check a first layer here:\n"
        << "  " << s.program
        << " check --model deepseek-v3 --tp 8 --tokens 16 --load zipf:1.2 --layout both\n";
  return 0;
}

}  // namespace moe::harness
