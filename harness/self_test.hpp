// Does this harness find what is wrong? Each planted fault is run twice, as a kernel that declares its
// roundings and as an outsider's, over random cases of many seeds: who finds it, how often, and how small the
// failing case becomes.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "fixtures/problem/hardware.hpp"
#include "harness/record.hpp"
#include "harness/values.hpp"

namespace moe::harness {

/// What can be planted, whoever does it.
struct PlantedFault {
  std::string id, kind, what;  // kind: "value", "protocol", ..: rows are summed by it
  std::string trigger;         // the smallest known case, as a line; may be empty
  bool value_fault = true;     // a wrong number; else a fault of protocol, bounds or host code
  std::string why_not;         // not empty: it cannot be tried here (a card's alone)
};

struct FaultSource {
  std::vector<PlantedFault> faults;
  /// A kernel with the fault; it declares nothing where `declared` is false.
  std::function<std::unique_ptr<device::Executor>(const PlantedFault&, bool declared)> plant;
};

struct SelfTestPlan {
  int seeds = 20;       // the failing case of the first that finds the fault is shrunk
  int trials = 120;     // random cases a seed that the kernel takes: the budget of what "found" means
  int trial_size = 48;  // how far they grow (ProposalFrame::largest)
  int threads = 1;
  std::uint64_t first_seed = 1;
  const Hardware* hardware = nullptr;
  /// Rows of an earlier run: they stand as they are.
  std::vector<KillRow> done = {};
  std::function<bool()> out_of_time = [] { return false; };
  std::function<void(bool found)> tried = [](bool) {};               // as each seed of a row is done
  std::function<void(const KillRow&)> tell = [](const KillRow&) {};  // as each row is done
};

/// Two rows a fault, declared and undeclared; rows that the end of time cut short are left out.
std::vector<KillRow> run_self_test(const FaultSource& source, const SelfTestPlan& plan);

/// The built-in kernels with faults, as `program` (build/moeproof_faulty) serves them, each answer within
/// `seconds`.
FaultSource faults_of_program(const std::string& program, double seconds);
/// Only the faults that `list` names ("M06,P12"; empty: all) and the shard owns. Throws BadInput for a name
/// that is none.
void choose_faults(FaultSource& source, const std::string& list, const Shard& shard);

/// Of each 100 seeds so many must find a fault.
inline constexpr double kDeclaredRate = 0.95, kUndeclaredRate = 0.85;
/// Whether the row is what this harness promises: undeclared only faults of value are promised.
bool keeps_promise(const KillRow& row, const PlantedFault& fault);

}  // namespace moe::harness
