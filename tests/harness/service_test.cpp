// Are the public claims asked under what their sources say, and judged by the interval alone?
#include <gtest/gtest.h>

#include "fixtures/files/hardware_file.hpp"
#include "harness/service/claims.hpp"

namespace moe::harness {
namespace {

// Fault: a claim that is called confirmed although the interval does not hold it, or holds everything.
TEST(ServiceClaims, VerdictsFollowTheInterval) {
  EXPECT_EQ(verdict_on({0.01, 0.03, 0.05}, 0.02, 0.04), "inside");
  EXPECT_EQ(verdict_on({0.03, 0.04, 0.05}, 0.02, 0.04), "partly inside");
  EXPECT_TRUE(verdict_on({0.05, 0.06, 0.07}, 0.02, 0.04).starts_with("outside: the model says at least"));
  EXPECT_TRUE(verdict_on({0.001, 0.005, 0.01}, 0.02, 0.04).starts_with("outside: the model says at most"));
  EXPECT_TRUE(verdict_on({-0.1, 0.03, 0.1}, 0.02, 0.04).find("no gain") != std::string::npos);
  EXPECT_TRUE(verdict_on({0.001, 0.1, 0.6}, 0.09, 0.09).find("too wide") != std::string::npos);
}

// Fault: a claim without its assumptions, an interval whose ends are exchanged, a claimed figure that feeds
// its own prediction (the middle would follow it: here the three differ from the claims' own figures).
TEST(ServiceClaims, EachSaysWhatItAssumes) {
  const auto claims = public_claims(load_hardware("h200"));
  ASSERT_EQ(claims.size(), 3u);
  for (const Claim& c : claims) {
    EXPECT_LE(c.predicted.least, c.predicted.middle) << c.text;
    EXPECT_LE(c.predicted.middle, c.predicted.most) << c.text;
    EXPECT_GE(c.assumptions.size(), 5u) << c.text;
    EXPECT_EQ(c.verdict, verdict_on(c.predicted, c.claimed_least, c.claimed_most)) << c.text;
    EXPECT_NE(c.predicted.middle, c.claimed_least) << c.text;
  }
}

// Fault: throughput that falls with the batch, or a first token that does not wait for its prompt.
TEST(Serving, MoreSequencesGiveMoreTokens) {
  Problem layer;
  layer.shape = {.hidden = 2048, .intermediate = 768, .experts = 128, .top_k = 8};
  const auto serving = [&](int concurrency, std::int64_t prompt) {
    ServiceOptions service;
    service.concurrency = concurrency;
    service.prompt = prompt;
    return serve("qwen3-30b", layer, Choice{}, service, load_hardware("h200"), {});
  };
  EXPECT_GT(serving(64, 1024).tokens_per_s.middle, serving(8, 1024).tokens_per_s.middle);
  EXPECT_GT(serving(8, 8192).first_token.middle, serving(8, 1024).first_token.middle);
}

}  // namespace
}  // namespace moe::harness
