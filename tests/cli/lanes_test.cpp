// Many cases at a time: the same cases, verdicts and order as one after the other.
#include "tests/cli/program.hpp"

namespace {

using namespace moe::cli;

class Lanes : public Program {
 protected:
  /// What a report says of its cases; times differ from run to run.
  static std::vector<std::string> verdicts(const Outcome& o) {
    std::vector<std::string> all;
    const Json report = Json::parse(o.out);
    for (const Json& c : report.at("cases")) {
      Json verdict = c.at("verdict");
      for (const char* left : {"experts", "stages", "wrong_blocks"})
        verdict.erase(left);  // which a journal does not keep
      all.push_back(Json{c.at("case"), verdict}.dump());
    }
    return all;
  }
};

const std::string kTrials =
    "check --executor reference --trials 12 --trial-size 8 --allow mistrusted --quiet ";

// Catches: a lane that loses, repeats or reorders cases, or judges them by another plan.
TEST_F(Lanes, GiveWhatOneAfterTheOtherGives) {
  const Outcome one = run(kTrials + "--json -");
  const std::vector<std::string> expected = verdicts(one);
  ASSERT_GT(expected.size(), 40u) << one.err;
  const Outcome many = run(kTrials + "--json - --jobs 3");
  EXPECT_EQ(many.status, one.status);
  EXPECT_EQ(verdicts(many), expected);
  std::string lines;
  for (int tokens = 1; tokens < 6; ++tokens)
    lines += "op=moe_layer hidden=128 inter=128 experts=4 top_k=2 quant=block128 seed=1 tokens=" +
             std::to_string(tokens) + "\n";
  const std::string emulated = "check --quiet --json - --suite " + write("s.txt", lines).string();
  EXPECT_EQ(verdicts(run(emulated + " --jobs 2")), verdicts(run(emulated)));
}

// Catches: a journal of lanes whose resumption runs a case again or leaves one out.
TEST_F(Lanes, AKilledRunGoesOn) {
  const std::string journal = (folder_ / "j.jsonl").string();
  const std::string command = kTrials + "--jobs 3 --resume " + journal;
  const int ignored = std::system(
      ("timeout -s KILL 0.3 " + std::string(MOE_BINARY) + " " + command + " --time-budget 1h >/dev/null 2>&1")
          .c_str());
  EXPECT_NE(ignored, 0);
  Outcome rest = run(command + " --json -");
  for (int i = 0; i < 100 && rest.err.find("another run writes it") != std::string::npos; ++i) {
    ::usleep(50'000);  // a killed program with threads takes a moment to go
    rest = run(command + " --json -");
  }
  EXPECT_EQ(verdicts(rest), verdicts(run(kTrials + "--json -"))) << rest.err;
  const Outcome nothing_left = run(command + " --json -");
  EXPECT_EQ(verdicts(nothing_left), verdicts(rest));
}

TEST_F(Lanes, BelongToManyCases) {
  refuses("check " + kSmall + "--jobs 2", "belongs to runs of many cases");
  refuses("check --trials 3 --jobs 0", "--jobs");
  refuses("check " + kSmall + "--device 1", "belongs to --executor cuda");
  refuses("check " + kSmall + "--executor cuda --device all", "belongs to runs of many cases");
  refuses("check " + kSmall + "--executor cuda --device one", "--device");
}

}  // namespace
