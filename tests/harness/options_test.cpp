#include "harness/options.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "fixtures/problem/errors.hpp"
#include "harness/expand.hpp"
#include "harness/option_table.hpp"

namespace moe::harness {
namespace {

Options parse(const std::string& command, std::vector<std::string> words) {
  return parse_options(*find_command(command), words);
}

std::string complaint(const std::string& command, std::vector<std::string> words) {
  try {
    parse(command, std::move(words));
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Options, ALineBecomesValues) {
  const Options o =
      parse("check", {"--model", "deepseek-v3", "--tp=8", "--tokens", "1:8:x2", "--load", "zipf:1.2,hot:0.5",
                      "--layout", "both", "--tile", "16x128x128", "--seed", "7", "--quiet"});
  EXPECT_EQ(o.problem.model, "deepseek-v3");
  EXPECT_EQ(o.problem.tp, 8);
  EXPECT_EQ(o.problem.tokens.size(), 4u);
  EXPECT_EQ(o.problem.loads.size(), 2u);
  EXPECT_EQ(o.problem.layout, LayoutRequest::both);
  EXPECT_EQ(o.problem.choice.tile.block_m, 16);
  EXPECT_EQ(o.problem.seed, 7u);
  EXPECT_TRUE(o.output.quiet);
}

// Program_options accepts --see for --seed unless told otherwise; a script's typo must not change another
// option.
TEST(Options, NoAbbreviations) {
  for (const OptionRow& row : option_table()) {
    if (!takes(row, "check") || row.name.size() < 4) continue;
    const std::string cut = "--" + row.name.substr(0, row.name.size() - 1);
    EXPECT_NE(complaint("check", {cut, "1"}).find("unknown option " + cut), std::string::npos) << cut;
  }
}

// Golden lines: what a user reads must say what is wrong and what is allowed.
TEST(Options, ErrorLines) {
  EXPECT_EQ(complaint("check", {"--tokens", "-1"}),
            "--tokens: '-1' is not a count from 0; write 16, a list 1,2,4 or a range 1:4096:x2");
  EXPECT_EQ(complaint("check", {"--tokens=-1"}),
            "--tokens: '-1' is not a count from 0; write 16, a list 1,2,4 or a range 1:4096:x2");
  EXPECT_EQ(complaint("check", {"--seed"}), "--seed needs a value; see moeproof check --help");
  EXPECT_EQ(complaint("check", {"--seed="}), "--seed needs a value; see moeproof check --help");
  EXPECT_EQ(complaint("check", {"--seed", "1", "--seed", "2"}), "--seed is given twice");
  EXPECT_EQ(complaint("check", {"--quiet=1"}), "--quiet takes no value");
  EXPECT_EQ(complaint("check", {"deepseek-v3"}), "unexpected word 'deepseek-v3'; check takes only options");
  EXPECT_EQ(complaint("predict", {"--trials", "5"}),
            "--trials does not belong to predict (it is for: check)");
  EXPECT_EQ(complaint("check", {"--layout", "swap"}),
            "--layout: 'swap' is not a layout; write normal_mma, normal_wgmma, swap_ab, both or all");
  EXPECT_EQ(complaint("check", {"--executor", "gpu"}),
            "--executor: 'gpu' is not an executor; write emulated, cuda, reference or process:COMMAND");
  EXPECT_EQ(complaint("check", {"--allow", "failed"}),
            "--allow: 'failed' cannot be allowed; write mistrusted");
  EXPECT_EQ(complaint("check", {"--shard", "3/2"}),
            "--shard: '3/2' is not a shard; write 2/5 for the second of five");
  EXPECT_EQ(complaint("check", {"--time-budget", "soon"}),
            "--time-budget: 'soon' is not a duration above zero; write 90s, 10m or 2h");
  EXPECT_EQ(complaint("check", {"--tile", "512x512x128"}),
            "--tile: tile 512x512x128: 2 stages of 131072 bytes need 256 KB of shared memory a CTA; sm_90 "
            "has 227 KB");
}

// Would catch an option that silently wins over another.
TEST(Options, Contradictions) {
  const std::vector<std::vector<std::string>> lines{
      {"--require-gpu", "--executor", "emulated"},
      {"--trials", "5", "--tokens", "4"},
      {"--trials", "5", "--model", "x"},
      {"--weights", "dir", "--data", "exact"},
      {"--data", "file"},
      {"--layer", "3"},
      {"--gemm", "2"},
      {"--contract", "masked"},
      {"--op", "grouped_gemm", "--tile-down", "16x128x128"},
      {"--schedules", "3", "--executor", "reference"},
      {"--case-timeout", "5s"},
      {"--json", "-", "--csv", "-"},
      {"--json", "a", "--csv", "a"},
  };
  for (const auto& words : lines) {
    const std::string said = complaint("check", words);
    EXPECT_FALSE(said.empty()) << words[0] << " " << words[1 % words.size()];
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

TEST(Options, ACaseLineStandsAlone) {
  Case c;
  c.problem.shape = {.tokens = 4, .hidden = 256, .intermediate = 128, .experts = 4, .top_k = 2};
  const std::string line = to_line(c);
  EXPECT_EQ(*parse("check", {"--case", line}).problem.replay, c);
  EXPECT_NE(complaint("check", {"--case", line, "--tokens", "3"}).find("contradict"), std::string::npos);
  EXPECT_NE(complaint("check", {"--case", line, "--layout", "both"}).find("contradict"), std::string::npos);
  EXPECT_NE(complaint("check", {"--case", "op=moe_layer nonsense=1"}).find("--case: "), std::string::npos);
}

// Any words give Options or one BadInput line: no other exception, no crash.
RC_GTEST_PROP(Options, AnyWordsAreAnsweredInOneLine, ()) {
  std::vector<std::string> pool{"--", "-", "=", "--=", "-1", "0", "both", "x", "--no-such", "1,2", "\n"};
  for (const OptionRow& row : option_table())
    pool.push_back("--" + row.name), pool.push_back("--" + row.name + "=1");
  const auto words = *rc::gen::container<std::vector<std::string>>(
      rc::gen::oneOf(rc::gen::elementOf(pool), rc::gen::arbitrary<std::string>()));
  const auto& command = *rc::gen::elementOf(commands());
  try {
    parse_options(command, words);
  } catch (const BadInput& e) {
    RC_ASSERT(!std::string(e.what()).empty());
  }
}

// The order of options does not matter.
RC_GTEST_PROP(Options, OrderDoesNotMatter, ()) {
  std::vector<std::vector<std::string>> groups{
      {"--tokens", "4"}, {"--seed", "9"}, {"--hidden", "256"}, {"--quiet"}, {"--shard", "1/3"}};
  std::shuffle(groups.begin(), groups.end(), std::mt19937(*rc::gen::arbitrary<unsigned>()));
  std::vector<std::string> words;
  for (const auto& group : groups) words.insert(words.end(), group.begin(), group.end());
  const Options o = parse("check", words);
  RC_ASSERT(o.problem.tokens == std::vector<std::int64_t>{4});
  RC_ASSERT(o.problem.seed == 9u);
  RC_ASSERT(o.output.quiet);
  RC_ASSERT(o.run.shard == (Shard{1, 3}));
}

// Would catch a list of which only one mode is run, and modes that shards do not share.
TEST(Options, DataTakesAList) {
  const Options o = parse("check", {"--hidden", "256", "--intermediate", "128", "--experts", "4", "--top-k",
                                    "2", "--tokens", "1,2", "--data", "normal,exact,coded"});
  std::vector<std::string> seen;
  for (const Work& work : expand(o.problem, {}))
    seen.push_back(std::to_string(work.problem.shape.tokens) + std::string(name(work.problem.data)));
  EXPECT_EQ(seen, (std::vector<std::string>{"1normal", "1exact", "1coded", "2normal", "2exact", "2coded"}));
  EXPECT_EQ(expand(o.problem, {2, 3}).size(), 2u);
  EXPECT_NE(complaint("check", {"--data", "exact,file"}), "");
  EXPECT_NE(complaint("check", {"--data", "exact,cded"}).find("did you mean 'coded'"), std::string::npos);
}

/// As a whole word: `--device` is not in `--device-name`.
bool holds_option(const std::string& text, const std::string& name) {
  const std::string word = "--" + name;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == text.size() || (text[end] != '-' && !std::islower(static_cast<unsigned char>(text[end]))))
      return true;
  }
  return false;
}

// Help is for an 80-column terminal and names each option of its command.
TEST(Options, HelpIsCompleteAndNarrow) {
  for (const Command& command : commands()) {
    const std::string text = help(command);
    for (const std::string& line : split(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
    for (const OptionRow& row : option_table())
      EXPECT_EQ(holds_option(text, row.name), takes(row, command.name)) << command.name << row.name;
    EXPECT_NE(help().find(command.name), std::string::npos);
  }
}

}  // namespace
}  // namespace moe::harness
