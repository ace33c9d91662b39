// What would a service see of a layer's time, and what becomes of three public claims? Each claim is a
// question to the model under the conditions that its source states; what the source leaves open is an
// assumption and is printed. No claimed figure goes into a prediction.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/choice.hpp"
#include "fixtures/problem/problem.hpp"
#include "harness/options.hpp"
#include "sim/service.hpp"

namespace moe::harness {

struct Serving {
  std::string model;
  std::vector<std::string> assumptions;
  sim::Range moe_layer;  // seconds, at the decoding batch
  sim::StepTime decode, prefill;
  sim::Range tokens_per_s;  // of all sequences together
  sim::Range first_token;   // seconds: the prompt's step, behind the decoding step that runs when it arrives
};

/// `layer` gives shape, scheme and ranks; `name` is a model of sim/service_models.
Serving serve(const std::string& name, const Problem& layer, const Choice& choice,
              const ServiceOptions& service, const Hardware& hardware,
              const sim::ServiceAssumptions& assumptions);
std::string serving_text(const Serving&);

/// Fractions: 0.02 is 2 % more throughput, or a first token 2 % earlier.
struct Claim {
  std::string text;
  double claimed_least = 0, claimed_most = 0;
  sim::Range predicted;
  std::string verdict;  // "inside", "outside: ..", "inside, but the interval also holds no gain"
  std::vector<std::string> assumptions;
};

/// The verdict of an interval on a claimed one.
std::string verdict_on(const sim::Range& predicted, double claimed_least, double claimed_most);

/// Swap-AB's throughput, the fused backend's throughput, the first token without recompilation.
std::vector<Claim> public_claims(const Hardware& hardware);
std::string claims_text(const std::vector<Claim>&);

}  // namespace moe::harness
