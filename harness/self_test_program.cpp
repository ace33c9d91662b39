#include <fmt/format.h>

#include "device/planted/fault_table.hpp"
#include "harness/executors.hpp"
#include "harness/isolated_executor.hpp"
#include "harness/process_executor.hpp"
#include "harness/run_problem.hpp"
#include "harness/self_test.hpp"

namespace moe::harness {

/// Judged as a kernel of ours: the worker's words are trusted, its roundings known.
FaultSource faults_of_program(const std::string& program, double seconds) {
  FaultSource source;
  for (const device::FaultInfo& f : device::kFaults)
    if (f.fault != device::Fault::none)
      source.faults.push_back({std::string(f.id), std::string(f.what), std::string(f.trigger),
                               f.kind == device::FaultKind::value,
                               f.card_only ? "the emulated SM cannot show it" : ""});
  source.plant = [program, seconds](const PlantedFault& f, bool declared,
                                    std::uint64_t seed) -> std::unique_ptr<device::Executor> {
    if (!declared)
      return open_process_executor(fmt::format("{} --fault {} --seed {}", shell_word(program), f.id, seed),
                                   seconds)
          .executor;
    WorkerPlan worker{program, {"--fault", f.id, "--seed", std::to_string(seed)}, seconds};
    return std::make_unique<IsolatedExecutor>(make_executor({"emulated"}), worker);
  };
  return source;
}

}  // namespace moe::harness
