#include "harness/process_executor.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/child_process.hpp"
#include "harness/worker_protocol.hpp"
#include "harness/worker_session.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

/// The name that a Case has when nobody chose a kernel.
const std::string kNoChoice = Choice{}.kernel;

/// "gemm (grouped_gemm masked, block128), layer (moe_layer)".
std::string list_of(const std::vector<WorkerKernel>& kernels) {
  std::string text;
  const auto words = [](const auto& values) {
    std::string joined;
    for (const auto& value : values) joined += " " + std::string(name(value));
    return joined;
  };
  for (const WorkerKernel& k : kernels)
    text += fmt::format("{}{}:{}{}{}", text.empty() ? "" : "; ", k.name, words(k.ops), words(k.contracts),
                        words(k.quants));
  return text;
}

/// A plain command takes the shell's place, so that its signals are its own; a shell stays where one is
/// needed.
std::string shell_text(const std::string& command) {
  const bool plain = command.find_first_of(";&|<>()$`\n") == std::string::npos;
  const bool assigns = command.substr(0, command.find(' ')).find('=') != std::string::npos;
  return (plain && !assigns ? "exec " : "") + command;
}

KernelInfo info_of(const WorkerKernel& kernel) {
  KernelInfo info;
  info.name = kernel.name;
  info.family = kernel.family;
  info.num_stages = kernel.stages;
  info.num_warps = kernel.warps;
  info.ops = kernel.ops;
  info.contracts = kernel.contracts;
  info.quants = kernel.quants;
  info.stages = kernel.outputs;
  info.deterministic = kernel.deterministic;
  if (kernel.semantics)
    info.semantics = [text = *kernel.semantics](const Problem& p, const Choice&) -> std::optional<Semantics> {
      return read_semantics(Json::parse(text), p.quant);
    };
  return info;
}

class ProcessExecutor : public device::Executor {
 public:
  ProcessExecutor(std::string command, double seconds)
      : name_(kProcessPrefix + command), command_(std::move(command)), seconds_(seconds) {
    hello_ = start();
  }
  std::string_view name() const override { return name_; }
  std::vector<KernelInfo> kernels() const override {
    std::vector<KernelInfo> all;
    for (const WorkerKernel& k : hello_.kernels) all.push_back(info_of(k));
    return all;
  }
  device::Opened open(const Case& c) override;
  const WorkerHello& hello() const { return hello_; }

 private:
  WorkerHello start() {
    child_ = std::make_shared<ChildProcess>("/bin/sh", std::vector<std::string>{"-c", shell_text(command_)},
                                            false);
    return greet(*child_, seconds_);
  }
  void start_again();
  const WorkerKernel* choose(const Case& c) const;
  std::string no_kernel(const Case& c) const;

  std::string name_, command_;
  double seconds_;
  WorkerHello hello_;
  std::shared_ptr<ChildProcess> child_;  // shared with the open session
};

/// The kernel that the case names, or the first that takes it.
const WorkerKernel* ProcessExecutor::choose(const Case& c) const {
  for (const WorkerKernel& k : hello_.kernels)
    if (k.name == c.choice.kernel) return &k;
  if (c.choice.kernel != kNoChoice) return nullptr;
  for (const WorkerKernel& k : hello_.kernels)
    if (k.takes(c.problem)) return &k;
  return nullptr;
}

std::string ProcessExecutor::no_kernel(const Case& c) const {
  const Problem& p = c.problem;
  const std::string contract =
      p.op == Op::grouped_gemm ? fmt::format(" contract {}", moe::name(p.contract)) : "";
  if (c.choice.kernel != kNoChoice && choose(c) == nullptr)
    return fmt::format("the process has no kernel '{}'; it has {}", c.choice.kernel, list_of(hello_.kernels));
  return fmt::format("no kernel of the process takes op {}{} quant {}; it has {}", moe::name(p.op), contract,
                     moe::name(p.quant.kind), list_of(hello_.kernels));
}

/// In the place of a child that was lost. It is judged by what the first one declared.
void ProcessExecutor::start_again() {
  WorkerHello again;
  try {
    again = start();
  } catch (const WorkerLost& lost) {
    throw WorkerLost(fmt::format("started again behind a loss: {}", lost.what()), lost.timed_out, lost.log);
  }
  if (!again.refusal.empty())
    child_->give_up("started again behind a loss, the process refuses: " + one_line(again.refusal));
  if (again.described != hello_.described)
    child_->give_up("started again behind a loss, the process names other kernels than before");
}

device::Opened ProcessExecutor::open(const Case& given) {
  if (!child_->alive()) start_again();
  const WorkerKernel* kernel = choose(given);
  if (kernel == nullptr || !kernel->takes(given.problem)) return {nullptr, no_kernel(given)};
  Case c = given;
  c.choice.kernel = kernel->name;
  const Json request{
      {"do", "open"}, {"case", to_line(c)}, {"kernel", kernel->name}, {"problem", problem_to_json(c)}};
  try {
    ask_worker(*child_, request, seconds_, Trust::foreign);
  } catch (const WorkerRefused& refused) {
    return {nullptr, refused.what()};
  }
  return {make_worker_session(child_, c, {seconds_, Trust::foreign, kernel->outputs}), ""};
}

}  // namespace

namespace {

/// Of Python's words about a fault at the start: the last place that they name, and what to do about a module
/// that is not there.
std::string python_hint(const std::string& log, const std::string& command) {
  std::string hint;
  const std::size_t at = log.rfind("File \""), end = log.find('\n', at);
  if (at != std::string::npos) hint = fmt::format(" ({})", one_line(log.substr(at, end - at)));
  if (log.find("ModuleNotFoundError") == std::string::npos) return hint;
  if (log.find("No module named 'moeproof_executor'") != std::string::npos)
    return hint +
           "; copy harness/adapters/moeproof_executor.py beside that file, or name its folder in PYTHONPATH";
  return hint +
         fmt::format("; the Python that '{}' starts does not have it: install it there or name another",
                     one_line(command.substr(0, command.find(' '))));
}

/// A command that cannot be greeted is a wrong command line: nothing was judged yet.
std::unique_ptr<ProcessExecutor> first_start(const std::string& command, double seconds) {
  try {
    return std::make_unique<ProcessExecutor>(command, seconds);
  } catch (const WorkerLost& lost) {
    const std::string how = lost.what();
    const bool quiet = how.find("ended with exit status 0") != std::string::npos;
    throw BadInput(fmt::format("executor '{}{}' serves no kernel: {}{}{}", kProcessPrefix, one_line(command),
                               how, python_hint(lost.log, command),
                               quiet ? " before it answered 'hello': does its file call serve()?" : ""));
  }
}

}  // namespace

ForeignExecutor open_process_executor(const std::string& command, double seconds) {
  auto executor = first_start(command, seconds);
  const WorkerHello& hello = executor->hello();
  ForeignExecutor foreign{nullptr,      hello.refusal, executor->kernels(),
                          hello.device, hello.graph,   hello.crowded};
  if (hello.refusal.empty()) foreign.executor = std::move(executor);
  return foreign;
}

}  // namespace moe::harness
