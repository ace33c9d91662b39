#include <fmt/format.h>

#include "device/planted/fault_table.hpp"
#include "harness/executors.hpp"
#include "harness/isolated_executor.hpp"
#include "harness/process_executor.hpp"
#include "harness/run_problem.hpp"
#include "harness/self_test.hpp"

namespace moe::harness {

namespace {

std::string_view name(device::FaultKind kind) {
  switch (kind) {
    case device::FaultKind::protocol:
    case device::FaultKind::generation:
      return "protocol";
    case device::FaultKind::bounds:
      return "bounds";
    case device::FaultKind::value:
      return "value";
    case device::FaultKind::host:
      return "host";
  }
  return "?";
}

std::string why_not(const device::FaultInfo& f) {
  if (f.card_only) return "the emulated SM cannot show it";
  return f.heavy ? "it needs more rows than random cases have" : "";
}

}  // namespace

FaultSource faults_of_program(const std::string& program, double seconds) {
  FaultSource source;
  for (const device::FaultInfo& f : device::kFaults)
    if (f.fault != device::Fault::none)
      source.faults.push_back({std::string(f.id), std::string(name(f.kind)), std::string(f.what),
                               std::string(f.trigger), f.kind == device::FaultKind::value, why_not(f)});
  source.plant = [program, seconds](const PlantedFault& f,
                                    bool declared) -> std::unique_ptr<device::Executor> {
    if (!declared)
      return open_process_executor(fmt::format("{} --fault {}", shell_word(program), f.id), seconds).executor;
    // as a kernel of ours: the worker's words are trusted, its roundings known
    WorkerPlan worker{program, {"--fault", f.id}, seconds};
    return std::make_unique<IsolatedExecutor>(make_executor({"emulated"}), worker);
  };
  return source;
}

}  // namespace moe::harness
