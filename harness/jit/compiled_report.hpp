// How is the audit of a cache or a log told? As text for people, as JSON for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/jit/compiled_audit.hpp"

namespace moe::harness {

/// `source`: "cache DIR" or "log FILE".
std::string compiled_audit_text(const std::string& source, const std::vector<CompiledGroup>& groups,
                                const std::vector<std::string>& left_out);

/// Members source, compiled, kernels (an object a group), left_out; seconds and avoidable_s where they are
/// known.
nlohmann::ordered_json to_json(const std::string& source, const std::vector<CompiledGroup>& groups,
                               const std::vector<std::string>& left_out);

}  // namespace moe::harness
