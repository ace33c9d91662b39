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
  std::string id, what;
  std::string trigger;      // the smallest known case, as a line; may be empty
  bool value_fault = true;  // a wrong number; else a fault of protocol, bounds or host code
  std::string why_not;      // not empty: it cannot be tried here (a card's alone)
};

struct FaultSource {
  std::vector<PlantedFault> faults;
  /// A kernel with the fault; it declares nothing where `declared` is false. `seed` chooses its schedules.
  std::function<std::unique_ptr<device::Executor>(const PlantedFault&, bool declared, std::uint64_t seed)>
      plant;
};

struct SelfTestPlan {
  int seeds = 20;
  int trials = 60;       // random cases a seed: the default budget of what "found" means
  int shrunk_seeds = 3;  // seeds whose failing case is shrunk and tried with all properties
  int threads = 1;
  std::uint64_t first_seed = 1;
  Shard shard;  // of faults
  const Hardware* hardware = nullptr;
  std::function<bool()> out_of_time = [] { return false; };
  std::function<void(const KillRow&)> tell = [](const KillRow&) {};  // as each row is done
};

/// Two rows a fault: declared, undeclared.
std::vector<KillRow> run_self_test(const FaultSource& source, const SelfTestPlan& plan);

/// The built-in kernels with faults, as `program` (build/moeproof_faulty) serves them, each answer within
/// `seconds`.
FaultSource faults_of_program(const std::string& program, double seconds);

/// Of each 100 seeds so many must find a fault.
inline constexpr double kDeclaredRate = 0.95, kUndeclaredRate = 0.85;
/// Whether the row is what this harness promises: undeclared only faults of value are promised.
bool keeps_promise(const KillRow& row, const PlantedFault& fault);

}  // namespace moe::harness
