// How is the audit of a trace told? As text for people, as JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "harness/jit/trace_audit.hpp"

namespace moe::harness {

/// `compile_s`: seconds a compilation, where somebody knows it; then the time that is lost is told too.
std::string trace_audit_text(const KernelRules& rules, const ColumnTrace& trace, const std::string& path,
                             const TraceAudit& audit, std::optional<double> compile_s);

/// Members kernel, trace, variants_before, variants_after, varying_arguments, remaining_arguments, before,
/// after, annotations, enough, variants_left, seconds_lost_before, seconds_lost_after (with compile_s). Rows
/// count from 1.
nlohmann::ordered_json to_json(const KernelRules& rules, const ColumnTrace& trace, const std::string& path,
                               const TraceAudit& audit, std::optional<double> compile_s);

}  // namespace moe::harness
