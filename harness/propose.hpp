// Which random cases does `check --trials N` try? RapidCheck's generators propose them, a pure function of
// the seed and the trial's number; sizes grow with the number, so that early trials are quick and already
// small.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"

namespace moe::harness {

/// What a proposal keeps from the command line: op, contract, gemm and quantisation where given, kernel.
struct ProposalFrame {
  bool op_given = false;  // false: whole layers, among them grouped GEMMs of every contract and other ops
  Op op = Op::moe_layer;
  Contract contract = Contract::contiguous;
  int gemm = 1;
  bool quant_given = false;
  QuantScheme quant;
  std::string kernel = "moeproof";
  /// Schemes and contracts that the kernel says it takes; empty: any.
  std::vector<QuantKind> quants;
  std::vector<Contract> contracts;
  /// Sizes grow with the trial up to this: at most 2 (4 + largest) tokens and 3 + largest / 4 experts.
  int largest = 100;
  /// Of somebody else's kernel only gated SiLU without bias and fp32 scales are asked: its hello has no word
  /// for others.
  bool plain = false;
};

/// Whether a written case (a line of the corpus) keeps to the frame.
bool fits(const ProposalFrame& frame, const Case& c);

/// A valid case with settled tiles; trial counts from 0. Any three trials in a row have all layouts, any
/// eighteen all schemes.
Case propose_case(const ProposalFrame& frame, std::uint64_t seed, int trial);

/// All layouts and tiles that the same problem can have, in an order that its seed draws, for a kernel that
/// has few tiles: first those whose two GEMMs share one, if the case's do, or else have two. None for an op
/// without a GEMM.
std::vector<Choice> other_choices(const Case& c);

}  // namespace moe::harness
