// What did `audit-jit --json` find? Compilations by kernel, read back for the page.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moe::harness {

struct CensusKernel {
  std::string function;
  std::int64_t all = 0, apart = 0, left = 0;   // see CompileCensus
  std::optional<double> seconds, avoidable_s;  // compiling
  std::vector<std::string> causes;             // "num_tokens: int | one; annotate it"
};

/// Of a cache or a log: compilations, those that were told apart, those that all annotations together leave.
/// Of a stream of launches: variants without annotations, with the kernel's own, with those that are enough.
struct CompileCensus {
  std::string source;
  bool stream = false;
  std::vector<CensusKernel> kernels;
};

/// Throws BadInput that names `path`.
CompileCensus census_from_json(std::string_view text, std::string_view path);

}  // namespace moe::harness
