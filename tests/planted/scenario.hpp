// What does one run of a fault's trigger show? The session of the Case on a machine, with the fault planted;
// outputs and counts are held against the same run without it.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/emulator/emulated_machine.hpp"
#include "device/planted/fault_table.hpp"
#include "fixtures/problem/case.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::device {

struct Seen {
  std::set<std::string> checks;        // ids of the sentences, "refused" for an exception
  std::vector<std::string> sentences;  // as reported
  std::string outputs, counts;         // bytes; what retired (empty on a card)
  bool differs(const Seen& right) const { return outputs != right.outputs || counts != right.counts; }
};

class Scenario {
 public:
  /// Draws the inputs of the fault's trigger.
  explicit Scenario(const FaultInfo& info);
  /// Binds and runs once, with `fault` in force, on a machine that the caller sets up.
  Seen run(const std::shared_ptr<Machine>& machine, Fault fault, bool graph = false) const;
  const Case& resolved() const { return case_; }

 private:
  Case case_;
  TensorSet inputs_;
};

/// The emulated machine of test builds: two SMs, one host thread.
std::shared_ptr<EmulatedMachine> emulated_machine();
/// Seed 0 is the deterministic order, the others choose one.
void set_order(EmulatedMachine& machine, std::uint64_t seed);

}  // namespace moe::device
