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

struct BoundTrial {
  OpenTrial trial;
  const TensorSet& inputs;
};

/// Looked into behind the timing: asking a kernel for its roundings may close the case that is open there.
BitsVerdict explain(const PairRecord& pair, const BoundTrial& before, const BoundTrial& after,
                    const PairPlan& plan) {
  if (all_stages(pair.stages).different == 0) return explain_bits(pair.stages, {}, {});
  return explain_bits(pair.stages, roundings_of(before.trial, before.inputs, plan.before),
                      roundings_of(after.trial, after.inputs, plan.after));
}

/// Times `trial` once; a process that is lost meanwhile has that verdict and no times.
Measurement time_once(OpenTrial& trial, const RunPlan& plan, const device::TimingPlan& timing) {
  Measurement m;
  in_trial(trial, plan, [&] { m = trial.session->time(timing); });
  return trial.passed() ? m : Measurement{};
}

void note_measurement(BoundTrial& side, const Measurement& m, const RunPlan& plan) {
  judge_again(side.trial, side.inputs, plan);
  CaseRecord& record = side.trial.record;
  record.measurement = m;
  if (record.prediction) record.verdict->model = compare_model(*record.prediction, m);
}

void time_both(PairRecord& pair, BoundTrial& before, BoundTrial& after, const PairPlan& plan) {
  device::TimingPlan timing;
  timing.samples = std::max(3, (plan.samples + kRoundsPerBatch - 1) / kRoundsPerBatch);
  timing.time_limit_s = plan.time_limit_s / kRoundsPerBatch;
  timing.per_stage = false;
  PairTiming timed = time_pair([&] { return time_once(before.trial, plan.before, timing); },
                               [&] { return time_once(after.trial, plan.after, timing); });
  if (timed.word == Speed::no_data) {
    pair.untimed = fmt::format("{} gives no times; cuda does, and a process whose kernel runs on a card",
                               timed.why_none);
    return;
  }
  note_measurement(before, timed.before, plan.before);
  note_measurement(after, timed.after, plan.after);
  after.trial.record.verdict->speed = timed.word;
  pair.timing = std::move(timed);
}

/// What --before has otherwise than the line of after's case: "--before-layout normal_mma ".
std::string own_choice(const Choice& before, const Choice& after) {
  std::string text;
  if (before.layout != after.layout) text += fmt::format("--before-layout {} ", name(before.layout));
  const bool down = before.tile_down != after.tile_down;
  if (before.tile != after.tile || down) text += fmt::format("--before-tile {} ", to_string(before.tile));
  if (down) text += fmt::format("--before-tile-down {} ", to_string(before.tile_down));
  return text;
}

std::string review_line(const Case& before, const Case& after, const PairPlan& plan) {
  return fmt::format(
      "{} upstream-check --before {} --after {} --before-kernel {} --after-kernel {} {}--case {}",
      shell_word(plan.after.program), shell_word(plan.before.executor->name()),
      shell_word(plan.after.executor->name()), shell_word(before.choice.kernel),
      shell_word(after.choice.kernel), own_choice(before.choice, after.choice), shell_word(to_line(after)));
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

std::optional<double> predicted_ratio(const PairRecord& pair) {
  const auto &before = pair.before.prediction, &after = pair.after.prediction;
  if (!before || !after || before->seconds <= 0 || pair.before.trial.choice == pair.after.trial.choice)
    return std::nullopt;
  return after->seconds / before->seconds;
}

PairRecord compare_pair(const Problem& problem, const PairSide& before_side, const PairSide& after_side,
                        const Routing& routing, const PairPlan& plan) {
  const auto open = [&](const PairSide& side, const RunPlan& how) -> BoundTrial {
    return {open_trial({problem, side.choice}, routing, side.inputs, how), side.inputs};
  };
  BoundTrial before = open(before_side, plan.before), after = open(after_side, plan.after);
  PairRecord pair;
  // A wrong output is compared too: where it differs may say what is wrong.
  pair.stages =
      bit_differences(before.trial.record.trial, before.inputs, before.trial.outputs, after.trial.outputs);
  if (before.trial.passed() && after.trial.passed()) {
    time_both(pair, before, after, plan);
    pair.bits = explain(pair, before, after, plan);
  } else {
    pair.bits.reason = "only right outputs are explained";
    pair.untimed = "only right kernels are timed";
  }
  pair.replay = review_line(before.trial.record.trial, after.trial.record.trial, plan);
  pair.before = std::move(before.trial.record);
  pair.after = std::move(after.trial.record);
  return pair;
}

}  // namespace moe::harness
