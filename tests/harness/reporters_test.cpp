#include "harness/reporters.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "harness/json_codec.hpp"
#include "tests/harness/markup.hpp"

namespace moe::harness {
namespace {

Case case_of(Layout layout, const std::string& tile) {
  Case c;
  c.problem.model = "a <model> & \"more\"";
  c.problem.shape = {.tokens = 16, .hidden = 256, .intermediate = 128, .experts = 4, .top_k = 2};
  c.choice.layout = layout;
  c.choice.tile = parse_tile(tile);
  return c;
}

Prediction prediction_of(double seconds) {
  Prediction p;
  p.seconds = seconds;
  p.uncertainty = 0.2;
  p.reason = "weights are read once";
  p.parts = {{"gemm1", seconds, Limit::hbm}};
  p.counts.wgmma[16] = 12;
  return p;
}

CaseRecord record_of(Layout layout, const std::string& tile, Correctness word) {
  CaseRecord r;
  r.trial = case_of(layout, tile), r.prediction = prediction_of(4e-5);
  Verdict v;
  v.correctness = word;
  v.judged_by = "bits";
  v.checked = 10;
  v.replay = "moeproof check --case '" + to_line(r.trial) + "'";
  if (word != Correctness::passed) v.reason = "bad <thing>, \"quoted\", a|b,\nnext line \x01";
  r.verdict = v;
  return r;
}

Report report_of(Correctness second) {
  Report report;
  report.command = "check";
  report.executor = "emulated";
  report.hardware = "NVIDIA H200";
  report.cases = {record_of(Layout::normal_mma, "16x128x128", Correctness::passed),
                  record_of(Layout::swap_ab, "16x128x128", second)};
  Measurement m;
  m.seconds = {5e-5, 5.1e-5, 5.2e-5};
  report.cases[0].measurement = m;
  report.cases[0].counts = prediction_of(1).counts;
  fill_speedups(report.cases);
  report.errors = summarise_errors(report.cases);
  return report;
}

// Would catch a checker that accepts anything.
// Catches: a total that counts what nobody judged, or calls an interval a proof to the bit.
TEST(Reporters, TotalsSayHowManyElementsWereJudgedAndHow) {
  Report report = report_of(Correctness::passed);
  EXPECT_NE(summary_text(report).find("2 passed; 20 elements judged, all equal to the bit"),
            std::string::npos);
  report.cases[1].verdict->judged_by = "interval";
  report.cases[1].verdict->checked = 1234567;
  EXPECT_EQ(summary_text(report),
            "2 passed; 1,234,577 elements judged, 10 to the bit, the others within bounds");
  report.cases[0].verdict->wrong = 3;
  EXPECT_EQ(summary_text(report), "2 passed; 1,234,577 elements judged, 3 wrong");
  report.cases[1].verdict.reset();
  EXPECT_EQ(judged_elements(report).checked, 10);
}

// Catches: a pass whose caveat only the JSON knows.
TEST(Reporters, ACaveatOfAPassStandsInEveryReport) {
  Report report = report_of(Correctness::passed);
  for (CaseRecord& r : report.cases) r.verdict->reason = "semantics inferred: some-preset";
  for (const std::string& text : {table_report(report, false), markdown_report(report), html_report(report)})
    EXPECT_NE(text.find("semantics inferred: some-preset"), std::string::npos) << text;
  EXPECT_EQ(notes_text(report), "2 passed: semantics inferred: some-preset\n");
}

// Catches: words of somebody else's kernel that clear a terminal, forge a line, or break XML.
TEST(Reporters, HostileWordsStayWords) {
  const std::string hostile = "\xFF\x1b[2J<b>|\xEF\xBF\xBF";
  Report report = report_of(Correctness::failed);
  report.executor = "process:" + hostile;
  report.cases[1].verdict->reason = hostile;
  report.cases[1].verdict->replay = hostile;
  for (const std::string& text : {markdown_report(report), html_report(report), junit_report(report)}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\xFF'), std::string::npos);
    if (!text.starts_with("###")) {  // no XML character
      EXPECT_EQ(text.find("\xEF\xBF\xBF"), std::string::npos);
    }
  }
}

// Catches: a promise of accuracy for a card on which no prediction was ever compared with a time.
TEST(Reporters, AGainIsPromisedOnlyWhereItWasMeasured) {
  Report report = report_of(Correctness::passed);
  report.hardware_measured = true;
  EXPECT_NE(table_report(report, false).find("a gain is known to"), std::string::npos);
  report.hardware_measured = false;
  EXPECT_EQ(table_report(report, false).find("a gain is known to"), std::string::npos);
  EXPECT_NE(html_report(report).find("not compared with measurements there"), std::string::npos);
}

// Catches: a stage that is left out of the counts, or counted under another's name.
TEST(Reporters, JsonCountsElementsByStage) {
  Report report = report_of(Correctness::failed);
  report.cases[1].verdict->blocks = {{"gemm1", 0, 0, 5, 1}, {"gemm1", 1, 0, 4, 0}, {"out", -1, 0, 7, 2}};
  const auto j = nlohmann::json::parse(json_report(report));
  const auto& stages = j["cases"][1]["verdict"]["stages"];
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0], (nlohmann::json{{"stage", "gemm1"}, {"checked", 9}, {"wrong", 1}, {"column_blocks", 1}}));
  EXPECT_EQ(stages[1], (nlohmann::json{{"stage", "out"}, {"checked", 7}, {"wrong", 2}, {"column_blocks", 1}}));
}

TEST(Reporters, TheXmlCheckRefuses) {
  EXPECT_TRUE(well_formed("<a b=\"c\">x &amp; y<d/></a>"));
  for (const char* bad : {"<a>", "<a></b>", "<a b=\"c></a>", "a & b", "<a \x01/>"})
    EXPECT_FALSE(well_formed(bad)) << bad;
}

TEST(Reporters, JsonHasTheSchema) {
  const auto j = nlohmann::ordered_json::parse(json_report(report_of(Correctness::failed)));
  EXPECT_EQ(j["schema"], 1);
  std::vector<std::string> keys;
  for (const auto& [key, value] : j.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"schema", "tool", "device", "cases", "summary"}));
  EXPECT_TRUE(j["device"].is_null());
  EXPECT_EQ(j["cases"][1]["verdict"]["correctness"], "failed");
  EXPECT_TRUE(j["cases"][1]["measurement"].is_null());
  EXPECT_EQ(j["cases"][1]["speedup"]["baseline"], "normal_mma");
  EXPECT_EQ(parse_case(j["cases"][1]["case"].get<std::string>()),
            report_of(Correctness::failed).cases[1].trial);
  EXPECT_EQ(j["summary"]["passed"], 1);
  EXPECT_EQ(j["summary"]["failed"], 1);
  EXPECT_EQ(j["summary"]["n"], 1);
  EXPECT_NEAR(j["summary"]["mean"].get<double>(), 1.1 / 5.1, 1e-12);
}

// What one run writes, compare reads.
TEST(Reporters, JsonReadsBack) {
  const Report report = report_of(Correctness::crashed);
  const Report back = report_from_json(json_report(report), "x.json");
  ASSERT_EQ(back.cases.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back.cases[i].trial, report.cases[i].trial);
    EXPECT_EQ(back.cases[i].prediction->seconds, report.cases[i].prediction->seconds);
    EXPECT_EQ(back.cases[i].verdict->correctness, report.cases[i].verdict->correctness);
  }
  EXPECT_EQ(back.cases[0].measurement->seconds, report.cases[0].measurement->seconds);
  EXPECT_EQ(*back.cases[0].counts, *report.cases[0].counts);
}

// Damaged reports give one line that names the place, never a crash.
RC_GTEST_PROP(Reporters, DamagedJsonIsRefusedOrRead, ()) {
  std::string text = json_report(report_of(Correctness::failed));
  const int edits = *rc::gen::inRange(1, 4);
  for (int i = 0; i < edits; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto length = *rc::gen::inRange<std::size_t>(0, 40);
    text.replace(at, std::min(length, text.size() - at),
                 *rc::gen::element<std::string>("", "0", "null", "\"", "{", "-1", "[]"));
  }
  try {
    report_from_json(text, "x.json");
  } catch (const BadInput& e) {
    RC_ASSERT(std::string(e.what()).find("x.json") != std::string::npos);
  }
}

TEST(Reporters, XmlIsWellFormedForEveryVerdict) {
  for (int c = 0; c <= int(Correctness::timed_out); ++c) {
    const Report report = report_of(Correctness(c));
    EXPECT_TRUE(well_formed(junit_report(report))) << junit_report(report);
    EXPECT_TRUE(well_formed(html_report(report))) << html_report(report);
  }
  EXPECT_NE(junit_report(report_of(Correctness::failed)).find("failures=\"1\" errors=\"0\" skipped=\"0\""),
            std::string::npos);
  EXPECT_NE(junit_report(report_of(Correctness::crashed)).find("failures=\"0\" errors=\"1\" skipped=\"0\""),
            std::string::npos);
  EXPECT_NE(junit_report(report_of(Correctness::refused)).find("failures=\"0\" errors=\"0\" skipped=\"1\""),
            std::string::npos);
}

/// Fields of the first record of RFC 4180 text; `at` moves behind it.
std::vector<std::string> csv_record(const std::string& text, std::size_t& at) {
  std::vector<std::string> fields(1);
  for (bool quoted = false; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"')
      fields.back() += text[++at];
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && c == ',')
      fields.emplace_back();
    else if (!quoted && c == '\n')
      return ++at, fields;
    else if (quoted || c != '\r')
      fields.back() += c;
  }
  return fields;
}

TEST(Reporters, CsvRowsHaveTheHeadersFields) {
  const std::string text = csv_report(report_of(Correctness::failed));
  std::size_t at = 0;
  const auto header = csv_record(text, at);
  for (int i = 0; i < 2; ++i) {
    const auto row = csv_record(text, at);
    ASSERT_EQ(row.size(), header.size());
    EXPECT_EQ(parse_case(row.back()), report_of(Correctness::failed).cases[std::size_t(i)].trial);
  }
  EXPECT_EQ(at, text.size());
}

// A terminal has 80 columns; colours only where asked for.
TEST(Reporters, TheTableFits) {
  const std::string plain = table_report(report_of(Correctness::failed), false);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(table_report(report_of(Correctness::failed), true).find('\x1b'), std::string::npos);
  std::size_t begin = 0;
  for (int line = 0; line < 4; ++line) {
    const std::size_t end = plain.find('\n', begin);
    if (line > 0) {
      EXPECT_LE(end - begin, 80u) << plain.substr(begin, end - begin);
    }
    begin = end + 1;
  }
  EXPECT_NE(plain.find("replay: moeproof check"), std::string::npos);
}

TEST(Reporters, MarkdownRowsHaveTheSameColumns) {
  const std::string text = markdown_report(report_of(Correctness::failed));
  std::vector<long> bars;
  for (std::size_t at = text.find("\n|"); at != std::string::npos; at = text.find("\n|", at + 1)) {
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    bars.push_back(std::count(line.begin(), line.end(), '|'));
  }
  ASSERT_EQ(bars.size(), 4u);
  for (const long n : bars) EXPECT_EQ(n, bars[0]);
}

}  // namespace
}  // namespace moe::harness
