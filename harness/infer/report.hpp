// How is an inference told? A table for people, an object of the JSON report, and one phrase for a verdict.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "harness/infer/infer.hpp"

namespace moe::harness {

/// `declared`: what the kernel says of itself, to stand beside what was found.
std::string inference_text(const Inference& inference, const std::optional<Semantics>& declared);
nlohmann::ordered_json to_json(const Inference& inference, const std::optional<Semantics>& declared);

}  // namespace moe::harness
