#include "harness/executors.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <thread>

#include "device/cuda/cuda_executor.hpp"
#include "device/cuda/nvml.hpp"
#include "device/cuda/probe.hpp"
#include "device/emulator/emulated_executor.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/isolated_executor.hpp"
#include "harness/process_executor.hpp"
#include "harness/reference_executor.hpp"
#include "harness/values.hpp"
#include "harness/worker.hpp"
#include "reference/tensor_core/mma_step.hpp"

namespace moe::harness {

int host_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

std::vector<std::string> to_words(const ExecutorPlan& p) {
  return {kWorkerCommand,
          p.name,
          std::to_string(p.threads),
          std::to_string(p.sms),
          std::to_string(p.first_schedule),
          p.semantics.empty() ? "-" : p.semantics,
          std::to_string(p.card)};
}

ExecutorPlan plan_from_words(const std::vector<std::string>& words) {
  if (words.size() != 6 && words.size() != 7) throw BadInput("worker is started by the program itself");
  return {words[1],
          int(parse_count(words[2], 1, 4096)),
          int(parse_count(words[3], 1, 4096)),
          int(parse_count(words[4], 1, 1'000'000)),
          words[5] == "-" ? std::string() : words[5],
          words.size() == 7 ? int(parse_count(words[6], 0, 4095)) : 0};
}

std::unique_ptr<device::Executor> make_executor(const ExecutorPlan& plan) {
  if (plan.name == "reference") return make_reference_executor(plan.threads, plan.semantics);
  if (plan.name == "cuda") return device::make_cuda_executor(plan.card);
#if MOE_HAVE_EMULATOR
  if (plan.name == "emulated")
    return device::make_emulated_executor(
        {reference::mma_step(), plan.sms, plan.threads, 0, plan.first_schedule});
#else
  if (plan.name == "emulated")
    throw MachineFailure("this build has no emulated SM: configure with -DMOE_EMULATOR=ON and build again");
#endif
  throw MachineFailure(fmt::format("this build has no executor '{}'", plan.name));
}

namespace {

/// What a worker's context and code take of the card before the first tensor.
constexpr double kContextBytes = 1e9;

/// Why the cuda executor cannot run here; empty = it can. Fills what is known of the card.
std::string cuda_obstacle(ExecutorChoice& chosen, int card) {
  if (!device::cuda_was_built())
    return "this build has no CUDA kernels: ci/setup installs a CUDA compiler, then configure and build "
           "again";
  const device::DriverProbe probe = device::probe_driver();
  if (probe.state != device::DriverProbe::State::ready) return probe.detail;
  if (std::size_t(card) >= probe.gpus.size())
    return fmt::format("there is no GPU {}: the driver shows {}, counted from 0", card, probe.gpus.size());
  const device::GpuDescription& gpu = probe.gpus[std::size_t(card)];
  if (gpu.major != 9 || gpu.minor != 0)
    return fmt::format("GPU {} is {} (sm_{}{}); these kernels need sm_90", card, gpu.name, gpu.major,
                       gpu.minor);
  const int version = probe.driver_version;
  chosen.device =
      DeviceFacts{gpu.name, fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10), gpu.sms};
  chosen.card_bytes =
      device::ManagedCard(gpu.bus_id).free_bytes().value_or(double(gpu.memory_bytes)) - kContextBytes;
  return "";
}

}  // namespace

ExecutorChoice choose_executor(const ExecutorPlan& plan, bool isolate, double case_time_s) {
  ExecutorChoice chosen;
  if (plan.name.starts_with(kProcessPrefix)) {
    ForeignExecutor foreign =
        open_process_executor(plan.name.substr(std::string_view(kProcessPrefix).size()), case_time_s);
    return {std::move(foreign.executor),
            foreign.why_not,
            std::move(foreign.kernels),
            foreign.device,
            foreign.graph,
            foreign.crowded};
  }
  chosen.graph = chosen.crowded = plan.name == "cuda";
  if (plan.name == "cuda") chosen.why_not = cuda_obstacle(chosen, plan.card);
  if (!chosen.why_not.empty()) return chosen;
  try {
    chosen.executor = make_executor(plan);
  } catch (const MachineFailure& e) {
    chosen.why_not = e.what();
    return chosen;
  }
  if (isolate || plan.name == "cuda") {
    WorkerPlan worker;
    worker.words = to_words(plan);
    worker.seconds = case_time_s;
    chosen.executor = std::make_unique<IsolatedExecutor>(std::move(chosen.executor), worker);
  }
  return chosen;
}

}  // namespace moe::harness
