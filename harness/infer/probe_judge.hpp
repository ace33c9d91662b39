// Is what a kernel gave in a probe right? A probe is a legal case of the kernel's own op, so that a crash, a
// mark beside a tensor or a number outside every bound in it is a finding, though no user's case shows it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/executor.hpp"
#include "fixtures/problem/verdict.hpp"
#include "harness/infer/candidates.hpp"
#include "harness/infer/probes.hpp"
#include "harness/judge.hpp"

namespace moe::harness {

/// What went wrong in a probe.
struct ProbeFailure {
  std::string probe;  // its name
  Verdict verdict;    // failed, crashed or timed_out; no replay line
};

JudgedStage judged_stage(LayerStage stage);

/// One of each kind that does the same in `stage`, in order.
std::vector<Semantics> distinct_at(LayerStage stage, const std::vector<Semantics>& all);

/// Empty where `result` is right. What was shown is judged by `left`, the candidates that explained it so
/// far, where they do, else by the bound of any order of sums (a probe's sums are designed to lose as no real
/// data do: the probable bound holds in the probe of ordinary data alone). `explained`: every stage that was
/// shown is.
std::optional<ProbeFailure> judge_probe(const Probe& probe, const device::RunResult& result,
                                        const std::vector<Semantics>& left, bool explained, int threads);

}  // namespace moe::harness
