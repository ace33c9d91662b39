// How often does a stream of launches make Triton compile, when, because of which argument, and what would
// each annotation leave? A prediction of software: pure functions of a kernel's rules and a trace.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/files/column_trace.hpp"
#include "fixtures/files/kernel_rules.hpp"
#include "harness/jit/specialise.hpp"

namespace moe::harness {

struct JitVariant {
  std::vector<Specialised> arguments;  // as the rules have them
  std::size_t first_row = 0;           // of the trace, from 0: where it is compiled
  std::size_t launches = 0;
  /// Arguments in which it differs from the earlier variant that is nearest to it; empty for the first.
  std::vector<std::string> because;
};

/// annotate_i64: `name: tl.int64`, which fixes the width. pad_to_16: the caller rounds the value up to a
/// multiple of 16, or aligns the tensor.
enum class JitRemedy { do_not_specialize, do_not_specialize_on_alignment, annotate_i64, pad_to_16 };
std::string_view name(JitRemedy r);

struct RemedyEffect {
  std::string argument;
  JitRemedy remedy = JitRemedy::do_not_specialize;
  std::size_t alone = 0;  // variants where it is the only one
  std::size_t added = 0;  // variants where it comes on top of those of the rules
};

struct TraceAudit {
  std::size_t rows = 0;
  std::vector<JitVariant> before, after;  // without any annotation; with those of the rules
  std::vector<std::string> varying;       // arguments that differ between variants before
  std::vector<std::string> remaining;     // and after
  std::vector<RemedyEffect> effects;      // of every argument that varies, each remedy that could help
  std::vector<std::pair<std::string, JitRemedy>> enough;  // to add to the rules', for the fewest variants
  std::size_t left = 0;                                   // variants then
};

/// Names of formulas are columns of the trace, else `sizes` (given ones override the rules'). Throws BadInput
/// where a name is neither, a given size is unknown, or a formula has no value in some row.
TraceAudit audit_trace(const KernelRules& rules, const ColumnTrace& trace,
                       const std::vector<std::pair<std::string, std::int64_t>>& sizes);

}  // namespace moe::harness
