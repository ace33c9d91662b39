#include "device/emulator/emulated_executor.hpp"

#include "device/emulator/emulated_machine.hpp"
#include "device/kernels/emulated_variants.hpp"
#include "device/session/moe_session.hpp"

namespace moe::device {
namespace {

emulator::Options options_of_run(const EmulatedPlan& plan, std::uint64_t seed, std::uint64_t run) {
  emulator::Options options;
  if (run > 0)
    options = emulator::Options::adversarial(seed * 1'000'003 + std::uint64_t(plan.first_schedule) + run - 1,
                                             plan.arithmetic);
  options.arithmetic = plan.arithmetic;
  options.wavefronts = run == 0;  // the counts that are shown are the first run's
  options.threads = plan.threads;
  return options;
}

/// Gives each run of the inner session its own order of events.
class EmulatedSession final : public Session {
 public:
  EmulatedSession(std::unique_ptr<Session> inner, std::shared_ptr<EmulatedMachine> machine, EmulatedPlan plan,
                  std::uint64_t seed)
      : machine_(std::move(machine)), inner_(std::move(inner)), plan_(plan), seed_(seed) {}
  void bind(const TensorSet& inputs) override { inner_->bind(inputs); }
  RunResult run(RunMode mode) override {
    machine_->set_options(options_of_run(plan_, seed_, run_++));
    return inner_->run(mode);
  }
  Measurement time(const TimingPlan&) override { return {}; }  // an emulated second says nothing about a card
  Case resolved() const override { return inner_->resolved(); }

 private:
  std::shared_ptr<EmulatedMachine> machine_;
  std::unique_ptr<Session> inner_;
  EmulatedPlan plan_;
  std::uint64_t seed_, run_ = 0;
};

class EmulatedExecutor final : public Executor {
 public:
  explicit EmulatedExecutor(const EmulatedPlan& plan) : plan_(plan) {}
  std::string_view name() const override { return "emulated"; }
  std::vector<KernelInfo> kernels() const override { return built_in_kernels(); }

  Opened open(const Case& c) override {
    std::shared_ptr<EmulatedMachine> machine;
    Opened opened = open_moe_session(c, [&]() -> std::shared_ptr<Machine> {
      machine =
          std::make_shared<EmulatedMachine>(emulated_variants(), options_of_run(plan_, 0, 0), plan_.sms);
      return machine;
    });
    if (opened.session)
      opened.session = std::make_unique<EmulatedSession>(std::move(opened.session), std::move(machine), plan_,
                                                         plan_.seed + c.problem.seed);
    return opened;
  }

 private:
  EmulatedPlan plan_;
};

}  // namespace

std::unique_ptr<Executor> make_emulated_executor(const EmulatedPlan& plan) {
  return std::make_unique<EmulatedExecutor>(plan);
}

}  // namespace moe::device
