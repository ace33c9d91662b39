// Why was a kernel compiled more than once? Groups what a cache or a log holds by kernel, names the
// properties that differ between its variants, and what would end each.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/files/compiled_kernels.hpp"

namespace moe::harness {

/// folded: it was 1 or None in one variant and an argument in another, or a constexpr in all.
enum class CauseKind { folded, alignment, pointer_alignment, width, type, constant, option, version, moved };
std::string_view name(CauseKind k);

struct CompiledCause {
  std::string property;  // argument or option; "#6" = the sixth argument, whose name a log does not tell
  CauseKind kind = CauseKind::option;
  std::vector<std::string> states;  // as seen, "" = absent
  std::string advice;
  std::size_t left = 0;  // variants told apart that are left without it
};

struct CompiledGroup {
  std::string function, file;
  std::size_t compiled = 0;  // folders or lines
  std::size_t distinct = 0;  // of which differ in something that is told
  bool arguments_known = true, shortened = false;
  std::vector<CompiledCause> causes;  // one property may have several
  std::size_t left = 0;  // of `distinct`, where every cause is ended that an annotation or padding ends
  std::optional<double> seconds;      // spent on all of them
  std::optional<double> avoidable_s;  // seconds * (distinct - left) / compiled
};

/// Groups in the order of most compilations, then by name. `compile_s` is used where the files tell no time.
std::vector<CompiledGroup> audit_compiled(const std::vector<CompiledKernel>& kernels,
                                          std::optional<double> compile_s);

}  // namespace moe::harness
