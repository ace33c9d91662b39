// The page that people read, the JSON it is made of, and shards that become one report.
#include "harness/html/page.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "fixtures/problem/errors.hpp"
#include "harness/combine.hpp"
#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/json_codec.hpp"
#include "harness/reporters.hpp"
#include "tests/harness/markup.hpp"

namespace moe::harness {
namespace {

CaseRecord record_of(std::int64_t tokens, Layout layout, double predicted, double measured) {
  CaseRecord r;
  r.trial.problem.model = "some-model";
  r.trial.problem.shape = {.tokens = tokens, .hidden = 256, .intermediate = 128, .experts = 4, .top_k = 2};
  r.trial.choice.layout = layout;
  r.trial.choice.tile = parse_tile(layout == Layout::normal_wgmma ? "64x128x128" : "16x128x128");
  Prediction p;
  p.seconds = predicted, p.uncertainty = 0.25, p.reason = "weights are read once";
  p.parts = {{"quantize", predicted / 4, Limit::launch}, {"gemm1", predicted * 3 / 4, Limit::hbm}};
  p.hbm_bytes = 1e6, p.tensor_active = 0.1, p.counts.wgmma[16] = 12;
  r.prediction = p;
  if (measured > 0) {
    r.measurement = Measurement{};
    r.measurement->seconds = {measured * 0.99, measured, measured * 1.01};
    r.measurement->stages = {{"gemm1", {measured / 2}}};
  }
  r.verdict = Verdict{};
  r.verdict->correctness = Correctness::passed, r.verdict->judged_by = "bits", r.verdict->checked = 100;
  return r;
}

/// Expert 2 is wrong in its second block of gemm1.
void break_record(CaseRecord& r) {
  Verdict& v = *r.verdict;
  v.correctness = Correctness::failed, v.reason = "1 of 100 wrong", v.replay = "moeproof check --case 'x'";
  v.fault_class = "one element", v.wrong = 1;
  for (int expert = 0; expert < 4; ++expert)
    for (int block = 0; block < 2; ++block)
      v.blocks.push_back({"gemm1", expert, block, 64, expert == 2 && block == 1 ? 3 : 0,
                          expert == 2 && block == 1 ? 5.0 : 0.3});
  v.worst = Place{"gemm1", 2, 7, 200, 0, 1, 1.5, 1.0, 0.1, 4};
}

Report whole_report() {
  Report report;
  report.command = "check", report.executor = "emulated", report.hardware = "NVIDIA H200";
  report.hardware_measured = true, report.hbm_bytes_per_s = 4e12;
  report.device = DeviceFacts{"NVIDIA H200", "580", 132};
  for (const std::int64_t tokens : {1, 16, 256}) {
    report.cases.push_back(record_of(tokens, Layout::normal_mma, 4e-5, 5e-5));
    report.cases.push_back(record_of(tokens, Layout::normal_wgmma, 3e-5, 3.3e-5));
    report.cases.push_back(record_of(tokens, Layout::swap_ab, 2e-5, 2.2e-5));
  }
  break_record(report.cases[1]);
  report.cases[1].properties = {{"P5", PropertyState::failed, "it does"}, {"P8", PropertyState::held, ""}};
  report.properties = {{"P5", "order", 3, 1, 0, "it does", {}},
                       {"P8", "scale", 4, 0, 2, "small", {{"small", 2}}}};
  report.self_test = {
      {"M06", "value", "a sign", true, 20, 20, 3, {"truth", "P5"}, "op=moe_layer", "", 1.5, 40, ""},
      {"M06", "value", "a sign", false, 20, 18, 5, {"P5"}, "op=moe_layer", "", 1.5, 40, ""},
      {"M07", "race", "no wait", true, 0, 0, 0, {}, "", "", 0, 0, "it needs a card"}};
  report.unlisted = {3, {300, 200, 0}};
  report.errors = summarise_errors(report.cases);
  return report;
}

// Catches: a field that is written and not read, so that a page or a merged report shows less than the run
// did.
TEST(Page, AReportThatIsReadAndWrittenIsTheSameBytes) {
  const std::string text = json_report(whole_report());
  EXPECT_EQ(json_report(report_from_json(text, "x.json")), text);
}

// Catches: a page that needs a network or another file, a chart that is left out, markup that does not close.
TEST(Page, IsWholeAndAlone) {
  const CompileCensus census{"cache", false, {{"kernel", 9, 4, 1, {}, {}, {"n: int | one; annotate it"}}}};
  const std::string page = html_page({whole_report(), {census}, {"a.json"}});
  EXPECT_TRUE(well_formed(page));
  for (const char* section : {"faults", "findings", "agreement", "gains", "limits", "waterfalls", "ratios",
                              "kills", "kill-matrix", "census", "properties", "cases", "details"})
    EXPECT_NE(page.find("<section id=\"" + std::string(section) + "\">"), std::string::npos) << section;
  for (const char* outside : {"src=", "href=", "@import", "url(", "https:"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  std::size_t charts = 0, named = 0;
  for (std::size_t at = page.find("class=\"chart\""); at != std::string::npos;
       at = page.find("class=\"chart\"", at + 1)) {
    ++charts;
    named += page.substr(at, 120).find("aria-label=") != std::string::npos;
  }
  EXPECT_GE(charts, 9u);
  EXPECT_EQ(named, charts) << "a chart says nothing to those who do not see it";
}

/// Sections that a page of an empty report must not have.
TEST(Page, ChartsOfNothingAreLeftOut) {
  Report report;
  report.command = "check";
  const std::string page = html_page({report, {}, {}});
  EXPECT_TRUE(well_formed(page));
  EXPECT_EQ(page.find("class=\"chart\""), std::string::npos);
}

// Catches: a page whose size or time grows faster than its cases.
TEST(Page, TenThousandCasesMakeAPage) {
  Report report = whole_report();
  const CaseRecord wrong = report.cases[1];
  report.cases.clear();
  for (int i = 0; i < 10'000; ++i) {
    report.cases.push_back(
        record_of(1 + i % 4096, Layout(i % 3), 1e-5 * (1 + i % 97), 1.1e-5 * (1 + i % 89)));
    if (i % 20 == 0) report.cases.back().verdict = wrong.verdict;
  }
  const std::string page = html_page({report, {}, {}});
  EXPECT_LT(page.size(), 15'000'000u);
  std::size_t rows = 0;
  for (std::size_t at = page.find("class=\"line\">op="); at != std::string::npos;
       at = page.find("class=\"line\">op=", at + 1))
    ++rows;
  EXPECT_EQ(rows, 10'000u);
}

// Catches: a gain against the wrong baseline, or turned around.
TEST(Page, GainsNameTheirBaseline) {
  const Report report = whole_report();
  const auto figures = gain_charts(token_sweeps(report));
  ASSERT_EQ(figures.size(), 1u);
  const NumberTable& numbers = figures[0].numbers;
  ASSERT_EQ(numbers.heads.size(), 5u);
  EXPECT_EQ(numbers.heads[1].text, "over normal_mma, predicted");
  EXPECT_EQ(numbers.rows[0], (std::vector<std::string>{"1", "2.00x", "2.27x", "1.50x", "1.50x"}));
}

// Catches: a fraction of the limit that another time than the one taken divides.
TEST(Page, TheLimitIsTheBusiestResource) {
  const auto figures = limit_charts(token_sweeps(whole_report()), 1e11);  // 1e6 bytes: 10 us
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].numbers.rows[0],
            (std::vector<std::string>{"1", "50 %", "45 %", "25 %", "20 %", "33 %", "30 %"}));
}

/// The rectangles of a style: x, y, width, height.
std::vector<std::array<double, 4>> rectangles(const std::string& svg, const std::string& style) {
  const std::regex rect("<rect class=\"" + style +
                        "\" x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"([0-9.]+)\"");
  std::vector<std::array<double, 4>> found;
  for (std::sregex_iterator m(svg.begin(), svg.end(), rect), end; m != end; ++m)
    found.push_back({std::stod((*m)[1]), std::stod((*m)[2]), std::stod((*m)[3]), std::stod((*m)[4])});
  return found;
}

// Catches: a map whose rows or columns are mixed up, or that differs between a run and its file.
TEST(Page, TheMapShowsTheWrongBlockInItsPlace) {
  const Report run = whole_report();
  const Report read = report_from_json(json_report(run), "x.json");
  for (const Report* report : {&run, &read}) {
    const auto figures = fault_maps(*report);
    ASSERT_EQ(figures.size(), 1u);
    const auto frame = rectangles(figures[0].svg, "right");
    ASSERT_EQ(frame.size(), 1u);
    const auto cells = rectangles(figures[0].svg, "wrong2");  // 3 of 64: between 1 and 10 %
    ASSERT_EQ(cells.size(), 1u);
    EXPECT_NEAR(cells[0][0], frame[0][0] + frame[0][2] / 2, 0.1) << "the second of two blocks";
    EXPECT_NEAR(cells[0][1], frame[0][1] + frame[0][3] / 2, 0.1) << "the third of four experts";
    EXPECT_NE(figures[0].svg.find("class=\"worst\""), std::string::npos);
    EXPECT_NE(figures[0].svg.find("moeproof check --case"), std::string::npos);
    EXPECT_NE(figures[0].note.find("expert 2 row 7 column 200"), std::string::npos);
  }
}

// Catches: a histogram that loses blocks, or counts one outside its bound as inside.
TEST(Page, RatiosAreCountedByTheirPowerOfTwo) {
  const auto figures = ratio_charts(whole_report());
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].numbers.rows,
            (std::vector<std::vector<std::string>>{{"1/4 to 1/2", "7"}, {"4 to 8", "1"}}));
  EXPECT_EQ(rectangles(figures[0].svg, "bar wrong").size(), 1u);
}

// Catches: a matrix whose marks stand under another finder.
TEST(Page, TheMatrixMarksWhoFinds) {
  const NumberTable matrix = kill_matrix(whole_report().self_test);
  ASSERT_EQ(matrix.rows.size(), 3u);
  EXPECT_EQ(matrix.heads[5].text, "truth");
  EXPECT_EQ(matrix.heads[6].text, "P5");
  EXPECT_EQ(matrix.rows[0][5], "\u25cf");
  EXPECT_EQ(matrix.rows[1][5], "");
  EXPECT_EQ(matrix.rows[1][6], "\u25cf");
  EXPECT_NE(matrix.rows[2][3].find("it needs a card"), std::string::npos);
}

// Whatever the values, every mark lies inside the frame, larger ones further out.
RC_GTEST_PROP(Page, AxesHoldTheirValues, ()) {
  const auto kind = *rc::gen::element(AxisKind::linear, AxisKind::log, AxisKind::log_times, AxisKind::tokens);
  const auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::inRange(-60, 60), [](int e) { return std::ldexp(1.0, e); })));
  const Plot plot(axis_around(kind, values, "x"), axis_around(kind, values, "y"));
  for (const double v : values) {
    RC_ASSERT(plot.px(v) >= 58 - 1e-6);
    RC_ASSERT(plot.px(v) <= 426 + 1e-6);
    RC_ASSERT(plot.py(v) >= 10 - 1e-6);
    for (const double w : values)
      if (w < v) RC_ASSERT(plot.px(w) <= plot.px(v));
  }
  RC_ASSERT(plot.svg("t", "d").find("nan") == std::string::npos);
}

/// Reports of the same run, cases dealt in turn.
std::vector<NamedReport> shards_of(const Report& report, std::size_t n) {
  std::vector<NamedReport> shards(n);
  for (std::size_t i = 0; i < n; ++i) {
    shards[i] = {std::to_string(i) + ".json", report};
    shards[i].report.cases.clear(), shards[i].report.properties.clear(), shards[i].report.self_test.clear();
    shards[i].report.unlisted = {};
  }
  for (std::size_t i = 0; i < report.cases.size(); ++i) shards[i % n].report.cases.push_back(report.cases[i]);
  return shards;
}

// Catches: a merge that loses, repeats or recounts cases.
TEST(Combine, ShardsAreTheRun) {
  const Report run = whole_report();
  const auto shards = shards_of(run, 3);
  require_shards(shards);
  const Report merged = combine(shards);
  EXPECT_EQ(merged.command, "check");
  EXPECT_EQ(merged.cases.size(), run.cases.size());
  EXPECT_EQ(merged.errors.n, run.errors.n);
  EXPECT_DOUBLE_EQ(merged.errors.median, run.errors.median);
  EXPECT_EQ(count_of(merged, Correctness::failed), 1);
}

// Catches: one shard given twice, or shards of two runs, that pass as one.
TEST(Combine, WhatIsNoShardIsRefused) {
  auto twice = shards_of(whole_report(), 2);
  twice.push_back(twice[0]);
  EXPECT_THROW(require_shards(twice), BadInput);
  auto mixed = shards_of(whole_report(), 2);
  mixed[1].report.executor = "cuda";
  EXPECT_THROW(require_shards(mixed), BadInput);
}

TEST(Combine, PropertiesAdd) {
  const Report one = whole_report();
  Report other = whole_report();
  other.properties[0].failed = 2;
  const Report both = combine({{"a", one}, {"b", other}});
  ASSERT_EQ(both.properties.size(), 2u);
  EXPECT_EQ(both.properties[0].failed, 3);
  EXPECT_EQ(both.properties[1].held, 8);
  EXPECT_EQ(both.properties[1].skips.at("small"), 4);
  EXPECT_EQ(both.unlisted.passed, 6);
}

// Catches: a census that takes variants for compilations, and one that accepts anything.
TEST(Combine, ACensusIsReadOrRefused) {
  const CompileCensus cache = census_from_json(
      R"({"schema":1,"tool":{"command":"audit-jit"},"source":"cache x","kernels":[{"function":"k","compiled":5,
          "distinct":3,"left":1,"causes":[{"property":"n","states":["int",""],"advice":"annotate it"}]}]})",
      "a.json");
  ASSERT_EQ(cache.kernels.size(), 1u);
  EXPECT_EQ(cache.kernels[0].left, 1);
  EXPECT_EQ(cache.kernels[0].causes[0], "n: int | folded; annotate it");
  for (const char* bad : {"", "[]", "{\"schema\":2}", "{\"schema\":1,\"source\":\"x\",\"kernels\":3}",
                          "{\"schema\":1,\"source\":\"x\",\"kernels\":[{}]}"})
    EXPECT_THROW(census_from_json(bad, "a.json"), BadInput) << bad;
}

}  // namespace
}  // namespace moe::harness
