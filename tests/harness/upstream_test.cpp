// Two kernels side by side: which words does a reviewer get for bits and speed?
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fixtures/problem/number_formats.hpp"
#include "harness/infer/finder.hpp"
#include "harness/json_codec.hpp"
#include "harness/upstream/report.hpp"
#include "tests/harness/planted_executor.hpp"
#include "tests/harness/rounding_executor.hpp"

namespace moe::harness {
namespace {

const char* const kGemm =
    "op=grouped_gemm contract=masked tokens=9 hidden=256 inter=128 experts=4 top_k=2 tp=1 load=uniform "
    "quant=block128 seed=1 kernel=moeproof layout=swap_ab tile=8x128x128 tile_down=8x128x128";

Measurement samples(double centre, double scatter, double clock = 0) {
  Measurement m;
  for (const double at : {-1.0, 0.2, -0.4, 0.6, 1.0}) m.seconds.push_back(centre * (1 + scatter * at));
  m.sm_clock_hz = clock;
  return m;
}

/// Times of a kernel that takes `seconds(n)` in its n-th measurement.
std::function<Measurement()> clockwork(std::function<Measurement(int)> at) {
  return [at = std::move(at), n = 0]() mutable { return at(n++); };
}

PairTiming timed(std::function<Measurement(int)> before, std::function<Measurement(int)> after) {
  return time_pair(clockwork(std::move(before)), clockwork(std::move(after)));
}

// Would catch a regression that is called same or noise, and a gain that is not seen.
TEST(TimePair, FourWords) {
  const auto steady = [](double t) { return [t](int) { return samples(t, 0.004); }; };
  const PairTiming slow = timed(steady(1e-4), steady(1.2e-4));
  EXPECT_EQ(slow.word, Speed::slow);
  EXPECT_EQ(slow.batches, 2) << "a slow that was not measured twice";
  EXPECT_NEAR(slow.ratio.median, 1.2, 1e-6);
  EXPECT_EQ(timed(steady(1e-4), steady(0.8e-4)).word, Speed::fast);
  const PairTiming same = timed(steady(1e-4), steady(1.005e-4));
  EXPECT_EQ(same.word, Speed::same);
  EXPECT_EQ(same.batches, 1) << "time spent on what was settled";
  const auto jumps = [](int n) { return samples(n % 3 == 0 ? 1e-4 : n % 3 == 1 ? 1.3e-4 : 0.9e-4, 0.3); };
  const PairTiming unclear = timed(steady(1e-4), jumps);
  EXPECT_EQ(unclear.word, Speed::ambiguous);
  EXPECT_EQ(unclear.batches, kMostBatches) << "ambiguous without having been repeated";
}

// Would catch sides that are measured one after the other: a card that slows down over the run (drift common
// to both) would look like a slow kernel.
TEST(TimePair, DriftIsNobodysFault) {
  int call = 0;
  const auto drifting = [&] { return samples(1e-4 * (1 + 0.03 * call++), 0.001); };
  const PairTiming t = time_pair(drifting, drifting);
  EXPECT_NE(t.word, Speed::slow);
  EXPECT_NE(t.word, Speed::fast);
}

// Would catch a slow kernel that hides behind scatter: samples overlap, yet every round says 10 % more.
TEST(TimePair, RoundsDecideWhereBothScatterAlike) {
  const auto wave = [](double t) { return [t](int n) { return samples(t * (1 + 0.3 * (n % 2)), 0.01); }; };
  const PairTiming t = timed(wave(1e-4), wave(1.1e-4));
  EXPECT_EQ(t.word, Speed::slow);
  EXPECT_NEAR(t.ratio.low, 1.1, 1e-6);
}

// Would catch one bad batch (another user of the card) that becomes a verdict.
TEST(TimePair, OneBadBatchIsMeasuredAgain) {
  const auto disturbed = [](int n) { return samples(n < kRoundsPerBatch ? 1.3e-4 : 1e-4, 0.004); };
  const PairTiming t = timed([](int) { return samples(1e-4, 0.004); }, disturbed);
  EXPECT_EQ(t.word, Speed::same);
  EXPECT_EQ(t.batches, 3);
}

// A lower clock in after's runs explains the seconds.
TEST(TimePair, CyclesMustSayTheSame) {
  const auto at = [](double t, double clock) { return [=](int) { return samples(t, 0.004, clock); }; };
  EXPECT_EQ(timed(at(1e-4, 2e9), at(2e-4, 1e9)).word, Speed::ambiguous);
  EXPECT_EQ(timed(at(1e-4, 2e9), at(2e-4, 2e9)).word, Speed::slow);
}

TEST(TimePair, ASideWithoutTimesIsNamed) {
  const PairTiming t = timed([](int) { return samples(1e-4, 0); }, [](int) { return Measurement{}; });
  EXPECT_EQ(t.word, Speed::no_data);
  EXPECT_EQ(t.why_none, "after");
}

// The ranks of the sign test's tables: 6 values give the extremes, 12 the third from either end, 5 nothing.
TEST(RatioInterval, HoldsTheMedian) {
  std::vector<double> twelve;
  for (int i = 12; i > 0; --i) twelve.push_back(i);
  const RatioInterval wide = ratio_interval({twelve.begin(), twelve.begin() + 6});
  EXPECT_EQ(wide.low, 7);
  EXPECT_EQ(wide.high, 12);
  const RatioInterval narrow = ratio_interval(twelve);
  EXPECT_EQ(narrow.low, 3);
  EXPECT_EQ(narrow.high, 10);
  EXPECT_EQ(narrow.median, 6.5);
  EXPECT_TRUE(std::isinf(ratio_interval({1, 1, 1, 1, 1}).high));
}

// Whatever the times: exchanging the sides exchanges slow and fast.
RC_GTEST_PROP(TimePair, ExchangedSidesGiveTheOppositeWord, ()) {
  const auto times = *rc::gen::container<std::vector<int>>(12, rc::gen::inRange(100, 130));
  std::vector<TimedRound> rounds, exchanged;
  for (std::size_t i = 0; i < 6; ++i) {
    const Measurement a = samples(times[i], 0.01), b = samples(times[i + 6] * 1.05, 0.01);
    rounds.push_back({a, b});
    exchanged.push_back({b, a});
  }
  const Speed word = judge_rounds(rounds), other = judge_rounds(exchanged);
  if (word == Speed::slow) RC_ASSERT(other != Speed::slow);
  if (word == Speed::fast) RC_ASSERT(other != Speed::fast);
  if (word == Speed::same) RC_ASSERT(other == Speed::same || other == Speed::ambiguous);
}

/// A kernel with planted outputs and times.
class TimedExecutor : public device::Executor {
 public:
  TimedExecutor(PlantedKernel kernel, double seconds) : planted_(std::move(kernel)), seconds_(seconds) {}
  std::string_view name() const override { return "timed"; }
  std::vector<KernelInfo> kernels() const override { return planted_.kernels(); }
  device::Opened open(const Case& c) override {
    return {std::make_unique<Running>(planted_.open(c).session, seconds_), ""};
  }

 private:
  class Running : public device::Session {
   public:
    Running(std::unique_ptr<device::Session> inner, double seconds)
        : inner_(std::move(inner)), seconds_(seconds) {}
    void bind(const TensorSet& inputs) override { inner_->bind(inputs); }
    device::RunResult run(device::RunMode mode) override { return inner_->run(mode); }
    Measurement time(const device::TimingPlan& plan) override {
      Measurement m;
      m.seconds.assign(std::size_t(plan.samples), seconds_);
      return m;
    }
    Case resolved() const override { return inner_->resolved(); }

   private:
    std::unique_ptr<device::Session> inner_;
    double seconds_;
  };
  PlantedExecutor planted_;
  double seconds_;
};

PairRecord reviewed(device::Executor& before, device::Executor& after, const char* line = kGemm,
                    SemanticsFinder* asks_before = nullptr, SemanticsFinder* asks_after = nullptr,
                    std::optional<Choice> choice_of_before = {}) {
  static const Hardware hardware = load_hardware("h200");
  const Case c = parse_case(line);
  PairPlan plan;
  for (RunPlan* side : {&plan.before, &plan.after}) side->hardware = &hardware, side->threads = 2;
  plan.before.executor = &before;
  plan.after.executor = &after;
  plan.before.finder = asks_before;
  plan.after.finder = asks_after;
  const Routing routing = routing_of(c.problem);
  const TensorSet inputs = make_inputs(c.problem, c.choice, routing, 2);
  const Choice before_choice = choice_of_before.value_or(c.choice);
  return compare_pair(c.problem, {before_choice, inputs}, {c.choice, inputs}, routing, plan);
}

PlantedKernel right() {
  return miswriting([](const Case&, TensorSet&) {});
}

/// The first element with rows of its own, as the bits of a bf16.
PlantedKernel flipped_from(int first_run) {
  return [first_run](const Case& c, const TensorSet& inputs, device::RunMode, int run) {
    TensorSet out = right_outputs(c, inputs);
    if (run < first_run) return out;
    TensorSet mine = own_copy(out);
    for (std::uint16_t& bits : mine.at("c").as<std::uint16_t>()) bits ^= 0x8000;
    return mine;
  };
}

// Would catch a change that is waved through because its kernel was only looked at before it was timed.
TEST(ComparePair, OutputsAreJudgedAgainAfterTheTiming) {
  TimedExecutor before(right(), 1e-4), after(flipped_from(1), 1e-4);
  const PairRecord pair = reviewed(before, after);
  EXPECT_EQ(pair.before.verdict->correctness, Correctness::passed);
  EXPECT_EQ(pair.after.verdict->correctness, Correctness::failed);
  EXPECT_TRUE(pair.after.verdict->reason.starts_with("after the timing: ")) << pair.after.verdict->reason;
  EXPECT_EQ(pair.bits.word, Bits::same) << "the bits before the timing were the same";
}

// Would catch a slow change that the formats without a word for speed let pass.
TEST(ComparePair, SlowIsAFailureInEveryFormat) {
  TimedExecutor before(right(), 1e-4), after(right(), 1.3e-4);
  UpstreamReport report{{"timed", {}}, {"timed", {}}, "NVIDIA H200", {reviewed(before, after)}};
  EXPECT_EQ(report.pairs.front().after.verdict->speed, Speed::slow);
  const Report records = upstream_records(report);
  EXPECT_EQ(records.cases.front().verdict->correctness, Correctness::failed);
  EXPECT_NE(records.cases.front().verdict->reason.find("slow: 1.300"), std::string::npos);
  const std::string block = upstream_markdown(report);
  EXPECT_NE(block.find("| 1.300 [1.300, 1.300] | slow |"), std::string::npos) << block;
  // Read as a bench report it holds after's times.
  const Report read = report_from_json(upstream_json(report), "memory");
  ASSERT_EQ(read.cases.size(), 1u);
  EXPECT_DOUBLE_EQ(read.cases.front().measurement->median(), 1.3e-4);
}

// Would catch a ratio that is predicted for one choice on both sides, one that is turned over, and a line
// that reviews another pair than was reviewed.
TEST(ComparePair, SidesOfTwoLayouts) {
  TimedExecutor before(right(), 1e-4), after(right(), 0.8e-4);
  Choice normal = parse_case(kGemm).choice;
  normal.layout = Layout::normal_mma;
  normal.tile = normal.tile_down = parse_tile("16x128x128");
  UpstreamReport report{{"timed", {}}, {"timed", {}}, "NVIDIA H200", {}};
  report.pairs.push_back(reviewed(before, after, kGemm, nullptr, nullptr, normal));
  const PairRecord& pair = report.pairs.front();
  EXPECT_EQ(pair.before.trial.choice, normal);
  ASSERT_TRUE(pair.before.prediction && pair.after.prediction);
  EXPECT_DOUBLE_EQ(*predicted_ratio(pair), pair.after.prediction->seconds / pair.before.prediction->seconds);
  EXPECT_NE(pair.replay.find(" --before-layout normal_mma --before-tile 16x128x128 --before-tile-down "
                             "16x128x128 --case "),
            std::string::npos)
      << pair.replay;
  const std::string block = upstream_markdown(report);
  EXPECT_NE(block.find("| normal_mma 16x128x128 -> swap_ab 8x128x128 |"), std::string::npos) << block;
  EXPECT_NE(block.find("| predicted after / before |"), std::string::npos) << block;
  EXPECT_NE(block.find("- predicted ratios of 1 cases are off by "), std::string::npos) << block;
  // Of one choice on both sides nothing is predicted but that both are the same.
  EXPECT_FALSE(predicted_ratio(reviewed(before, after)));
}

// Would catch bits that are compared where nobody owns them, a place that names another element, and a count
// that is off.
TEST(BitDifference, NamesTheElement) {
  const Case c = parse_case(kGemm);
  const TensorSet inputs = make_inputs(c.problem, c.choice, routing_of(c.problem), 2);
  const TensorSet one = right_outputs(c, inputs);
  TensorSet other = own_copy(one);
  Tensor& t = other.at("c");
  const std::int64_t columns = t.shape().back(), most = inputs.at("a_codes").dim(1);
  const auto counts = inputs.at("counts").as<std::int32_t>();
  std::int64_t expert = 0;
  while (counts[std::size_t(expert)] == 0) ++expert;
  t.as<std::uint16_t>()[std::size_t(expert * most * columns + 7)] += 3;
  const auto stages = bit_differences(c, inputs, one, other);
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_EQ(stages[0].elements, c.problem.shape.pairs() * columns);
  EXPECT_EQ(stages[0].different, 1);
  EXPECT_EQ(stages[0].worst->expert, expert);
  EXPECT_EQ(stages[0].worst->row, expert * most);
  EXPECT_EQ(stages[0].worst->column, 7);
  EXPECT_EQ(stages[0].worst->ulp, 3);
  // A row behind an expert's last belongs to nobody.
  const auto idle = std::find_if(counts.begin(), counts.end(), [&](std::int32_t n) { return n < most; });
  ASSERT_NE(idle, counts.end());
  t.as<std::uint16_t>()[std::size_t(((idle - counts.begin()) * most + *idle) * columns)] ^= 1;
  EXPECT_EQ(bit_differences(c, inputs, one, other)[0].different, 1);
}

// Would catch differences of two presets that are explained by nothing, or by each other's fields.
TEST(ExplainBits, SaysWhatRoundsOtherwise) {
  StageDifference d{"c", 100, 3, Place{}};
  const Semantics a = semantics_preset("moeproof", {}), b = semantics_preset("vllm-triton", {});
  const BitsVerdict known = explain_bits({d}, {{a}, "declared"}, {{b}, "declared"});
  EXPECT_EQ(known.word, Bits::explained);
  EXPECT_NE(known.reason.find("scale_order product_fma -> act_weight_fma"), std::string::npos)
      << known.reason;
  EXPECT_EQ(explain_bits({d}, {{a}, "declared"}, {}).word, Bits::unexplained);
  EXPECT_EQ(explain_bits({d}, {{a}, "declared"}, {{a}, "declared"}).word, Bits::unexplained)
      << "equal roundings explain nothing";
  const Semantics near = [&] {
    Semantics other = a;
    other.combine_fma = false;
    return other;
  }();
  const BitsVerdict nearest = explain_bits({d}, {{a}, "inferred"}, {{b, near}, "inferred"});
  EXPECT_NE(nearest.reason.find(": combine_order fma -> mul_add"), std::string::npos)
      << "of what may be, the least: " << nearest.reason;
  Semantics open = a;
  open.exp_form = ExpForm::within_2_ulp;
  const StageDifference codes{"act_codes", 100, 1, Place{}}, before{"gemm1", 100, 1, Place{}};
  EXPECT_EQ(explain_bits({codes, d}, {{open}, "inferred"}, {{open}, "inferred"}).word, Bits::explained);
  EXPECT_EQ(explain_bits({before, codes}, {{open}, "inferred"}, {{open}, "inferred"}).word, Bits::unexplained)
      << "an exp explains nothing in front of it";
  d.different = 0;
  EXPECT_EQ(explain_bits({d}, {}, {}).word, Bits::same);
  EXPECT_EQ(explain_bits({}, {{a}, ""}, {{b}, ""}).word, Bits::not_compared);
}

// Two kernels that declare nothing: probes find what each does, and the difference is the reason. Would catch
// an inference that is not asked, one that closes the session that is timed, and a reason that names other
// fields.
TEST(ExplainBits, InferredRoundingsExplainUndeclaredKernels) {
  const Semantics normal = semantics_preset("vllm-triton", {});
  Semantics swapped = normal;
  swapped.scale_order = ScaleOrder::weight_act_fma;
  RoundingExecutor before(follows(normal)), after(follows(swapped));
  SemanticsFinder asks_before(before, 1), asks_after(after, 1);
  const PairRecord pair = reviewed(
      before, after,
      "op=moe_layer tokens=33 hidden=512 inter=256 experts=4 top_k=2 tp=1 load=uniform quant=block128 seed=1 "
      "kernel=moeproof layout=swap_ab tile=16x128x128 tile_down=16x128x128",
      &asks_before, &asks_after);
  EXPECT_GT(all_stages(pair.stages).different, 0);
  EXPECT_EQ(pair.bits.word, Bits::explained) << pair.bits.reason;
  EXPECT_TRUE(pair.bits.reason.ends_with(": scale_order act_weight_fma -> weight_act_fma"))
      << pair.bits.reason;
  EXPECT_NE(pair.bits.reason.find("vllm-triton (inferred)"), std::string::npos) << pair.bits.reason;
}

}  // namespace
}  // namespace moe::harness
