// How does one Case run on a machine? The Session of the built-in kernels: any op, any layout, on the card or
// on the emulated SM. It owns its machine; bind() builds the op's pipeline, run() launches it, time()
// measures it.
#pragma once
#include <functional>
#include <memory>

#include "device/executor.hpp"
#include "device/machine.hpp"
#include "device/session/pipeline.hpp"

namespace moe::device {

class MoeSession final : public Session {
 public:
  /// `resolved` has no open choices and was not refused.
  MoeSession(std::shared_ptr<Machine> machine, Case resolved);
  ~MoeSession() override;

  void bind(const TensorSet& inputs) override;
  RunResult run(RunMode mode) override;
  Measurement time(const TimingPlan& plan) override;
  Case resolved() const override { return case_; }

 private:
  void launch_all(Counts* counts);

  std::shared_ptr<Machine> machine_;
  Case case_;
  Pipeline pipeline_;
  bool bound_ = false;
  int graph_ = -1;  // of the bound pipeline, once recorded
};

/// The built-in kernels: name "moeproof", all ops, their Semantics.
KernelInfo moeproof_kernel();
/// That one and the other paths of its layer (layer_path.hpp).
std::vector<KernelInfo> built_in_kernels();

/// One line why the built-in kernels do not take `c` (tiles resolved), naming what they would take; empty =
/// they do.
std::string refuse_case(const Case& c);

/// `c` with its automatic tiles filled in from the routing of its problem (fixtures/problem/auto_tile.hpp).
Case resolve_case(const Case& c);

/// Resolves, refuses or opens. `make_machine` is called only for a case that is taken.
Opened open_moe_session(const Case& c, const std::function<std::shared_ptr<Machine>()>& make_machine);

}  // namespace moe::device
