// What does the model say of each GEMM beside what Nsight Compute counted, and which term of a miss was
// wrong? Counts that the contract fixes must be equal; bytes, activity and time have their own widths.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/hardware.hpp"
#include "harness/ncu/ncu_file.hpp"

namespace moe::harness {

/// A quantity on both sides; `counted` is empty where the file does not have it, `predicted` where the model
/// does not.
struct NcuQuantity {
  std::string name, unit;  // unit: "", "B", "%", "s", "TB/s"
  std::optional<double> predicted, counted;
  std::string verdict;  // "equal", "within 2 %", "1.9 points", "differs", "not counted", ..
  bool good = true;     // within the width that the model claims
};

struct NcuStage {
  std::string stage;  // gemm1, gemm2
  std::vector<NcuQuantity> quantities;
  std::string why;  // which term is off, in one sentence
};

/// The GEMM launches of the case among `launches`: by stage in a table, by Triton's kernel name, else by the
/// order in which the built-in pipeline launches. Throws BadInput where they cannot be told.
std::vector<NcuStage> compare_ncu(const std::vector<NcuLaunch>& launches, const Case& trial,
                                  const Hardware& hardware, std::string_view where);

std::string ncu_text(const std::vector<NcuStage>& stages, const std::string& title);
std::string ncu_json(const std::vector<NcuStage>& stages, const std::string& case_line,
                     const std::string& hardware);

}  // namespace moe::harness
