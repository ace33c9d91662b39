// Which Semantics does a kernel follow? Probes run on any executor through its ordinary Session; the
// candidates that give other bits than the kernel are eliminated. What is left is what was found; where
// nothing is left in some stage the answer is "unknown", with what the nearest candidate would have given:
// never a guess.
#pragma once
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "harness/infer/candidates.hpp"
#include "harness/infer/probe_judge.hpp"
#include "harness/infer/probes.hpp"

namespace moe::harness {

enum class FieldState {
  determined,    // one value gives the bits that were seen
  undetermined,  // several values give the same bits in all probes
  irrelevant,    // under this scheme and shape nothing depends on it
  unknown,       // a stage that depends on it does what no candidate does
};
std::string_view name(FieldState state);

/// Why a value is out: in this stage of this probe at least `wrong` of `checked` elements would be others.
struct RuledOutValue {
  std::string value, probe, stage;
  std::int64_t wrong = 0, checked = 0;
};

struct FieldFinding {
  std::string field;
  std::vector<std::string> values;  // that are left
  FieldState state = FieldState::undetermined;
  std::vector<RuledOutValue> ruled_out;
};

/// A stage of a probe in which no candidate gives what the kernel gave.
struct Contradiction {
  std::string probe, stage;
  bool stage_only = false;  // on the kernel's own previous output: this stage alone is to blame
  std::string text;         // the nearest candidate and where it differs
};

struct Inference {
  Case trial;           // the kernel and choice that was asked
  Problem layer;        // what the probes ran (any op), and what candidates are canonical under
  std::string refusal;  // not empty: the executor took no probe
  std::optional<ProbeFailure> failure;  // it took one and was wrong in it: nothing behind it was asked
  std::vector<std::string> stages;      // whose outputs were seen
  std::vector<Semantics> left;          // canonical; with the first matching preset's name, else "inferred"
  std::vector<std::string> presets;     // that give every bit of every probe
  std::vector<FieldFinding> fields;
  std::vector<Contradiction> contradictions;
  std::size_t candidates = 0;  // at the start
  int probes = 0;

  /// It was asked, and was right.
  bool asked() const { return refusal.empty() && !failure; }
  /// Something was found and nothing contradicts it.
  bool known() const { return asked() && contradictions.empty() && !left.empty(); }
  /// The same of one stage, whatever the others do; both GEMMs of a layer are known or neither.
  bool knows(LayerStage stage) const;
  /// "vllm-triton", "moeproof or deepgemm", "scale_order product_fma, ... (no preset)", "unknown: ...".
  std::string summary() const;
  /// The same where the numbers of a contradiction would say too much: "unknown in stage gemm1 (probe
  /// chains)".
  std::string brief() const;
};

enum class ProbeSize {
  small,  // small_case's, or own_case's where the executor takes no others
  full,   // full_case's; a refusal where that costs too much
};

/// The kernel of `c` (tiles settled) on `executor`.
Inference infer_semantics(device::Executor& executor, const Case& c, int threads,
                          ProbeSize size = ProbeSize::small);

}  // namespace moe::harness
