// What must hold of a step's time whatever the assumptions are?
#include "sim/service.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fixtures/files/hardware_file.hpp"

namespace moe::sim {
namespace {

const Hardware& h200() {
  static const Hardware hardware = load_hardware("h200");
  return hardware;
}

const ServiceModel& any_model() {
  const auto models = service_models();
  return models[std::size_t(*rc::gen::inRange(0, int(models.size())))];
}

ServiceLoad any_load() {
  ServiceLoad load;
  load.sequences = *rc::gen::inRange(1, 1000);
  load.tokens = *rc::gen::element(1, 7, 500, 9000);
  load.context = *rc::gen::inRange(0, 100000);
  load.tp = *rc::gen::element(1, 2, 4, 8);
  return load;
}

Range any_layer() {
  const double least = *rc::gen::inRange(0, 1000) * 1e-6, more = *rc::gen::inRange(0, 500) * 1e-6;
  return {least, least + more / 2, least + more};
}

bool ordered(const Range& r) { return r.least <= r.middle && r.middle <= r.most; }

StepTime step(const ServiceModel& m, const ServiceLoad& load, const Range& layer) {
  return step_time(m, load, layer, h200(), {});
}

// Fault: ends of an interval that are exchanged, a share above 1 or below 0, a part that the sum forgets.
RC_GTEST_PROP(Service, IntervalsAreOrderedAndSharesAreShares, ()) {
  const StepTime t = step(any_model(), any_load(), any_layer());
  for (const Range& r :
       {t.moe, t.attention, t.dense, t.other, t.head, t.all_reduce, t.host, t.total, t.share})
    RC_ASSERT(ordered(r));
  RC_ASSERT(t.share.least >= 0 && t.share.most <= 1);
  RC_ASSERT(std::abs(t.moe.middle + t.attention.middle + t.dense.middle + t.other.middle + t.head.middle +
                     t.all_reduce.middle + t.host.middle - t.total.middle) < 1e-12 + 1e-9 * t.total.middle);
}

// Fault: a term with the wrong sign, or a division by what should multiply.
RC_GTEST_PROP(Service, MoreWorkTakesLonger, ()) {
  const ServiceModel& m = any_model();
  const ServiceLoad load = any_load();
  const Range layer = any_layer();
  const double before = step(m, load, layer).total.middle;
  ServiceLoad more = load;
  more.sequences = 2 * load.sequences;
  RC_ASSERT(step(m, more, layer).total.middle >= before);
  more = load;
  more.context = load.context + 1000;
  RC_ASSERT(step(m, more, layer).total.middle >= before);
  RC_ASSERT(step(m, load, layer + Range{1e-6, 1e-6, 1e-6}).total.middle >= before);
  ServiceModel wider = m;
  wider.attention_weights *= 2;
  RC_ASSERT(step(wider, load, layer).total.middle >= before);
}

// Fault: a gain of the layer that the whole step exceeds, or one from nothing.
RC_GTEST_PROP(Service, AStepGainsNoMoreThanItsLayer, ()) {
  const double share = *rc::gen::inRange(0, 1001) / 1000.0, gain = *rc::gen::inRange(-500, 2000) / 1000.0;
  const double whole = step_gain(share, gain);
  RC_ASSERT(std::abs(whole) <= std::abs(gain) + 1e-12);
  RC_ASSERT(whole * gain >= -1e-12);
  RC_ASSERT(step_gain(share, 0) == 0);
  RC_ASSERT(std::abs(step_gain(1.0, gain) - gain) < 1e-9);
  RC_ASSERT(step_gain(0.0, gain) == 0);
}

// Fault: an interval of gains whose ends come from the wrong end of the share.
RC_GTEST_PROP(Service, GainsOfIntervalsHoldThoseOfTheirPoints, ()) {
  const double low = *rc::gen::inRange(0, 500) / 1000.0, high = low + *rc::gen::inRange(0, 500) / 1000.0;
  const double g0 = *rc::gen::inRange(-400, 400) / 1000.0, g1 = g0 + *rc::gen::inRange(0, 400) / 1000.0;
  const Range all = step_gain(Range{low, (low + high) / 2, high}, Range{g0, (g0 + g1) / 2, g1});
  RC_ASSERT(ordered(all));
  for (const double s : {low, (low + high) / 2, high})
    for (const double g : {g0, (g0 + g1) / 2, g1})
      RC_ASSERT(step_gain(s, g) >= all.least - 1e-12 && step_gain(s, g) <= all.most + 1e-12);
}

// Fault: ranks that share nothing, or an all-reduce of one rank.
TEST(Service, OneRankReducesNothing) {
  for (const ServiceModel& m : service_models()) {
    EXPECT_EQ(step(m, {8, 1, 1000, 1}, {1e-5, 1e-5, 1e-5}).all_reduce.most, 0) << m.name;
    EXPECT_GT(step(m, {8, 1, 1000, 8}, {1e-5, 1e-5, 1e-5}).all_reduce.least, 0) << m.name;
    EXPECT_LT(step(m, {8, 1, 1000, 8}, {}).attention.middle, step(m, {8, 1, 1000, 1}, {}).attention.middle)
        << m.name;
  }
}

// Fault: sizes that do not add up to the model: its published parameters (671e9, 235e9, 30.5e9, 46.7e9), the
// experts being counted from the preset's sizes.
TEST(Service, WeightsAddUpToThePublishedModels) {
  const auto others = [](std::string_view name) {
    const ServiceModel& m = *find_service_model(name);
    return m.attention_layers * m.attention_weights + m.dense_layers * m.dense_weights +
           m.moe_layers * m.shared_weights + m.other_layers * m.other_weights + 2 * m.vocabulary * m.hidden;
  };
  EXPECT_NEAR(others("deepseek-v3") + 58.0 * 256 * 3 * 7168 * 2048, 671e9, 0.01 * 671e9);
  EXPECT_NEAR(others("qwen3-235b") + 94.0 * 128 * 3 * 4096 * 1536, 235e9, 0.01 * 235e9);
  EXPECT_NEAR(others("qwen3-30b") + 48.0 * 128 * 3 * 2048 * 768, 30.5e9, 0.01 * 30.5e9);
  EXPECT_NEAR(others("mixtral-8x7b") + 32.0 * 8 * 3 * 4096 * 14336, 46.7e9, 0.01 * 46.7e9);
  EXPECT_NEAR(others("nemotron-3-nano") + 23.0 * 128 * 2 * 2688 * 1856, 31.6e9, 0.02 * 31.6e9);
}

}  // namespace
}  // namespace moe::sim
