#include "harness/upstream/compare_pair.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/compare_speed.hpp"

namespace moe::harness {
namespace {

/// Worse words first, so that one word can stand for two.
int badness(Correctness c) {
  switch (c) {
    case Correctness::failed:
      return 6;
    case Correctness::crashed:
      return 5;
    case Correctness::timed_out:
      return 4;
    case Correctness::refused:
      return 3;
    case Correctness::skipped:
      return 2;
    case Correctness::mistrusted:
      return 1;
    case Correctness::passed:
      return 0;
  }
  return 0;
}

/// Looked into behind the timing: asking a kernel for its roundings may close the case that is open there.
BitsVerdict explain(const PairRecord& pair, const OpenTrial& before, const OpenTrial& after,
                    const TensorSet& inputs, const PairPlan& plan) {
  if (all_stages(pair.stages).different == 0) return explain_bits(pair.stages, {}, {});
  return explain_bits(pair.stages, roundings_of(before, inputs, plan.before),
                      roundings_of(after, inputs, plan.after));
}

/// Times `trial` once; a process that is lost meanwhile has that verdict and no times.
Measurement time_once(OpenTrial& trial, const RunPlan& plan, const device::TimingPlan& timing) {
  Measurement m;
  in_trial(trial, plan, [&] { m = trial.session->time(timing); });
  return trial.passed() ? m : Measurement{};
}

void note_measurement(OpenTrial& trial, const Measurement& m, const TensorSet& inputs, const RunPlan& plan) {
  judge_again(trial, inputs, plan);
  trial.record.measurement = m;
  if (trial.record.prediction) trial.record.verdict->model = compare_model(*trial.record.prediction, m);
}

void time_both(PairRecord& pair, OpenTrial& before, OpenTrial& after, const TensorSet& inputs,
               const PairPlan& plan) {
  device::TimingPlan timing;
  timing.samples = std::max(3, (plan.samples + kRoundsPerBatch - 1) / kRoundsPerBatch);
  timing.time_limit_s = plan.time_limit_s / kRoundsPerBatch;
  timing.per_stage = false;
  PairTiming timed = time_pair([&] { return time_once(before, plan.before, timing); },
                               [&] { return time_once(after, plan.after, timing); });
  if (timed.word == Speed::no_data) {
    pair.untimed = fmt::format("{} gives no times; cuda does, and a process whose kernel runs on a card",
                               timed.why_none);
    return;
  }
  note_measurement(before, timed.before, inputs, plan.before);
  note_measurement(after, timed.after, inputs, plan.after);
  after.record.verdict->speed = timed.word;
  pair.timing = std::move(timed);
}

std::string review_line(const OpenTrial& before, const OpenTrial& after, const PairPlan& plan) {
  return fmt::format(
      "{} upstream-check --before {} --after {} --before-kernel {} --after-kernel {} --case {}",
      shell_word(plan.after.program), shell_word(plan.before.executor->name()),
      shell_word(plan.after.executor->name()), shell_word(before.record.trial.choice.kernel),
      shell_word(after.record.trial.choice.kernel), shell_word(to_line(after.record.trial)));
}

}  // namespace

Verdict PairRecord::verdict() const {
  const bool from_before = badness(before.verdict->correctness) > badness(after.verdict->correctness);
  Verdict v = from_before ? *before.verdict : *after.verdict;
  if (v.correctness != Correctness::passed && before.verdict->reason != after.verdict->reason)
    v.reason = fmt::format("{}: {}", from_before ? "before" : "after", v.reason);
  v.speed = after.verdict->speed;
  v.model = after.verdict->model;
  return v;
}

PairRecord compare_pair(const Problem& problem, const Choice& before_choice, const Choice& after_choice,
                        const Routing& routing, const TensorSet& inputs, const PairPlan& plan) {
  OpenTrial before = open_trial({problem, before_choice}, routing, inputs, plan.before);
  OpenTrial after = open_trial({problem, after_choice}, routing, inputs, plan.after);
  PairRecord pair;
  // A wrong output is compared too: where it differs may say what is wrong.
  pair.stages = bit_differences(before.record.trial, inputs, before.outputs, after.outputs);
  if (before.passed() && after.passed()) {
    time_both(pair, before, after, inputs, plan);
    pair.bits = explain(pair, before, after, inputs, plan);
  } else {
    pair.bits.reason = "only right outputs are explained";
    pair.untimed = "only right kernels are timed";
  }
  pair.replay = review_line(before, after, plan);
  pair.before = std::move(before.record);
  pair.after = std::move(after.record);
  return pair;
}

}  // namespace moe::harness
