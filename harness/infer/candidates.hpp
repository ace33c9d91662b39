// Which values of Semantics could an implementation follow, as far as a problem can show it? The space that
// inference eliminates from: the product of the fields' values, without those that give the same outputs for
// every input (one accumulator has no HMMA order, a power-of-two scale has no order of scale products, ...).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/semantics.hpp"

namespace moe::harness {

/// Stages of a layer behind the router, in order; then the one of op=grouped_gemm.
enum class LayerStage { quantize, gemm1, act_quant, gemm2, combine, grouped_gemm };
inline constexpr int kLayerStages = 5;
std::string_view name(LayerStage stage);
/// Fields of Semantics (fields_of names them) that what a stage does depends on, whatever the stages before
/// it gave.
std::span<const std::string_view> fields_at(LayerStage stage);
/// Those an op has; none for one that does not round (topk, align).
std::span<const LayerStage> stages_of(Op op);

/// Scales that are powers of two, so that their products are exact in any order. A grouped GEMM by itself is
/// given all of its scales in their format; a layer's static ones are any number.
bool exact_scales(const Problem& problem);

/// `s` with every field that nothing depends on, under the problem's op, scheme and shape, set to one agreed
/// value: two Semantics that are equal afterwards (but for the preset's name) give equal bits for every
/// input.
Semantics canonical(const Problem& problem, Semantics s);

/// All of them, canonical, without a preset's name.
std::vector<Semantics> candidate_semantics(const Problem& problem);

/// Candidates with their fields' values as numbers, for counting many of them.
struct CandidateSpace {
  explicit CandidateSpace(const Problem& problem);

  static constexpr std::size_t kFields = 12;
  Problem problem;
  std::vector<Semantics> all;
  std::array<std::string, kFields> fields;               // names
  std::array<std::vector<std::string>, kFields> values;  // that occur
  std::vector<std::array<std::uint8_t, kFields>> value;  // of each candidate: index into `values`
};

/// Equal for two candidates whose `stage` does the same. `one_hot`: every sum of the GEMMs has one product
/// that is not zero, under a weight scale that is a power of two. Then no accumulator, chain or order of
/// scales rounds but once, and all do the same.
std::uint64_t stage_key(LayerStage stage, const Semantics& s, bool one_hot = false);

/// The presets that `s` (canonical) is, under this problem, however its exp is made.
std::vector<std::string> presets_like(const Problem& problem, const Semantics& s);

}  // namespace moe::harness
