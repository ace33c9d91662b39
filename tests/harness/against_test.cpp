// Scores against times that others measured: the three layouts of columns, the figures, the picks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "harness/against/contests.hpp"
#include "harness/against/score.hpp"

namespace moe::harness {
namespace {

Csv csv_of(const std::string& text) { return parse_csv(text, "t.csv"); }

const std::string kLayerHeader =
    "kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
    "distribution,"
    "latency_ms\n";
const std::string kConfigHeader = "run,kind,model,T,peer,us_median,note\n";

Score scored(const MeasuredFile& file) { return score(file, load_hardware("h200"), 1); }

// By hand: errors +100 %, 0, -50 %, +10 %. Would catch errors relative to the prediction, and a median of the
// wrong end.
TEST(Against, ErrorsAreRelativeToTheMeasurement) {
  const std::vector<std::pair<double, double>> pairs{{2, 1}, {3, 3}, {1, 2}, {4.4, 4}};
  const Errors e = errors_of(pairs);
  EXPECT_EQ(e.n, 4u);
  EXPECT_NEAR(e.mean, 0.4, 1e-12);
  EXPECT_NEAR(e.median, 0.3, 1e-12);
  EXPECT_NEAR(e.p90, 1.0, 1e-12);
  EXPECT_NEAR(e.bias, 0.15, 1e-12);
  EXPECT_NEAR(e.spearman, 0.8, 1e-12);  // ranks 2 3 1 4 against 1 3 2 4: 1 - 6 * 2 / 60
}

// Any rising function of the measured times has rank correlation 1, a falling one -1.
RC_GTEST_PROP(Against, RankCorrelationSeesOnlyTheOrder, ()) {
  const auto measured =
      *rc::gen::unique<std::vector<int>>(2 + *rc::gen::inRange(0, 20), rc::gen::inRange(1, 1000));
  std::vector<std::pair<double, double>> up, down;
  for (const int x : measured) up.emplace_back(double(x) * x + 5, x), down.emplace_back(1.0 / x, x);
  RC_ASSERT(std::abs(errors_of(up).spearman - 1) < 1e-9);
  RC_ASSERT(std::abs(errors_of(down).spearman + 1) < 1e-9);
}

// Would catch m, n and k in another's place and times in another unit.
TEST(Against, ReadsDenseRows) {
  const MeasuredFile file = dense_rows(csv_of("m,n,k,time_us\n128,4096,7168,25.5\n"));
  ASSERT_EQ(file.rows.size(), 1u);
  const MeasuredRow& r = file.rows[0];
  EXPECT_EQ(r.problem.shape.tokens, 128);
  EXPECT_EQ(r.problem.shape.up_rows(), 4096);
  EXPECT_EQ(r.problem.shape.hidden, 7168);
  EXPECT_NEAR(r.seconds, 25.5e-6, 1e-15);
  EXPECT_TRUE(r.conditions.stream);
  const Score s = scored(file);
  EXPECT_EQ(s.model.n, 1u);
  EXPECT_LT(s.model.mean, 0.5);  // 56 k-blocks of 0.34 us and the fixed part
}

// The public balanced routing: all experts alike once the tokens reach the stride, few tokens spread. Would
// catch experts that are left out, rows that are lost and the wrong framework's tile.
TEST(Against, ReadsLayerRows) {
  const MeasuredFile file = layer_rows(
      csv_of(kLayerHeader + "sglang_fused_moe_triton,fp8_block,64,2048,768,8,128,1,1,balanced,0.2\n"
                            "vllm_fused_moe,fp8_block,1,2048,768,8,128,2,1,balanced,0.03\n"
                            "vllm_fused_moe,fp8_block,32,2048,768,8,128,1,4,balanced,0.1\n"
                            "vllm_fused_moe,fp8_block,32,7168,2048,8,256,1,1,balanced,0.1\n"
                            "vllm_fused_moe,fp8,32,2048,768,8,128,1,1,balanced,0.1\n"
                            "vllm_fused_moe,fp8_block,32,2048,768,8,128,1,1,power_law_1.2,0.1\n"
                            "other,fp8_block,32,2048,768,8,128,1,1,balanced,0.1\n"),
      {});
  EXPECT_EQ(file.total, 7u);
  ASSERT_EQ(file.rows.size(), 4u);
  EXPECT_EQ(file.skipped.size(), 3u);
  EXPECT_EQ(file.rows[0].load.rows, std::vector<std::int64_t>(128, 4));
  EXPECT_EQ(file.rows[0].choice.tile, parse_tile("64x128x128/s3/w4/g32"));
  EXPECT_EQ(file.rows[0].unscored, "");
  EXPECT_FALSE(file.rows[0].beside.empty());
  EXPECT_EQ(file.rows[1].load.active(), 8);
  EXPECT_EQ(file.rows[1].load.total(), 8);
  EXPECT_EQ(file.rows[1].choice.tile, parse_tile("16x128x128/s3/w4"));
  EXPECT_TRUE(file.rows[1].conditions.capped);
  EXPECT_EQ(file.rows[2].load.rows.size(), 32u);
  EXPECT_EQ(file.rows[2].unscored, "ep > 1");
  EXPECT_NE(file.rows[3].unscored, "");
}

// What a framework's module launches beside its experts: a router's kernels that are forgotten or counted
// twice.
TEST(Against, AddsWhatVllmsModuleLaunches) {
  const auto beside = [&](const char* shape) {
    const std::string row = std::string("fp8_block,64,") + shape + ",1,1,balanced,0.2\n";
    const MeasuredFile file = layer_rows(
        csv_of(kLayerHeader + "vllm_fp8moe_triton_tritonexperts," + row + "vllm_fused_moe," + row), {});
    EXPECT_TRUE(file.rows.at(1).beside.empty());  // behind the router, sums straight into its output
    return file.rows[0].beside;
  };
  EXPECT_EQ(beside("2048,768,8,128").size(), 2u);  // top-k, copy
  EXPECT_EQ(beside("2048,768,8,160").size(), 3u);  // softmax by itself
  EXPECT_EQ(beside("5120,8192,1,16").size(), 7u);  // Llama 4's
  EXPECT_EQ(beside("5120,8192,1,16").back().read, 64 * 5120 * 2);
}

// Every token's experts are distinct and all its rows arrive somewhere.
RC_GTEST_PROP(Against, BalancedRowsAreAllThere, ()) {
  const int experts = *rc::gen::inRange(1, 130), top_k = *rc::gen::inRange(1, std::min(experts, 9) + 1),
            tokens = *rc::gen::inRange(1, 300);
  const MeasuredFile file =
      layer_rows(csv_of(kLayerHeader + "vllm_fused_moe,fp8_block," + std::to_string(tokens) + ",2048,768," +
                        std::to_string(top_k) + "," + std::to_string(experts) + ",1,1,balanced,0.1\n"),
                 {});
  const ExpertLoad& load = file.rows.at(0).load;
  RC_ASSERT(load.total() == std::int64_t(tokens) * top_k);
  for (const std::int64_t rows : load.rows) RC_ASSERT(rows <= tokens);
}

TEST(Against, TakesTheTableWhereOneApplies) {
  const auto tables = parse_tuned_csv(
      "E,N,device,dtype,block,triton_version,M_key,BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,GROUP_SIZE_M,num_"
      "warps,num_stages\n"
      "128,768,NVIDIA_H200,fp8_w8a8,128,,64,16,64,256,1,4,5\n",
      "t.csv");
  const std::string row = "vllm_fp8moe_triton_tritonexperts,fp8_block,64,2048,768,8,128,1,1,balanced,0.2\n";
  const MeasuredFile file = layer_rows(csv_of(kLayerHeader + row), tables);
  EXPECT_EQ(file.rows.at(0).choice.tile, parse_tile("16x64x128/s5/w4"));
  EXPECT_EQ(file.rows.at(0).choice.layout, Layout::swap_ab);
}

// Would catch sides of a tile in another's place, a swapped tile taken for a normal one, and TMA rows that
// are scored.
TEST(Against, ReadsConfigRows) {
  const std::string rows =
      "run1,gemm1,dsv3_tp8,4,vllm_triton,50,cfg=16/64/128/32/4/3 swap=1 naive=0\n"
      "run1,sweep2,dsv3_tp8,4,triton_sweep_ptr,60,cfg=64/128/128/1/8/4 swap=0 naive=1\n"
      "run1,gemm1,dsv3_tp8,4,sgl_triton_tma,50,cfg=16/64/128/32/4/3 swap=1 tmaB\n"
      "run1,layer,dsv3_tp8,4,vllm_triton,50,swap=0\n"
      "run1,gemm1,dsv3_tp8,4,dg_masked,50,x\n"
      "run1,gemm1,nobody,4,vllm_triton,50,cfg=16/64/128/32/4/3 swap=1\n";
  const MeasuredFile file = config_rows(csv_of(kConfigHeader + rows));
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.skipped.size(), 4u);
  EXPECT_EQ(file.rows[0].choice.tile, parse_tile("16x64x128/s3/w4/g32"));
  EXPECT_EQ(file.rows[0].choice.layout, Layout::swap_ab);
  EXPECT_EQ(file.rows[0].contest, "");
  EXPECT_EQ(file.rows[1].problem.gemm, 2);
  EXPECT_EQ(file.rows[1].choice.tile.warps, 8);
  EXPECT_EQ(file.rows[1].load.total(), 32);
  EXPECT_EQ(file.rows[1].load.active(), 32);  // naive: a block a row
  EXPECT_NE(file.rows[1].contest, "");
  EXPECT_THROW(config_rows(csv_of(kConfigHeader + "run1,gemm1,dsv3_tp8,4,vllm_triton,50,cfg=16/64 swap=1\n")),
               BadInput);
}

// Would catch tokens and weights of a tile in each other's place, pairs across kernels, and times of other
// kernels that are scored as if they were modelled.
TEST(Against, OtherKernelsFormPairs) {
  const std::string rows =
      "run1,gemm1,dsv3_tp8,4,trt_norm,50,\"[64, 128, 8, 215392, False]\"\n"
      "run1,gemm1,dsv3_tp8,4,trt_swap,40,\"[128, 16, 8, 152928, True]\"\n"
      "run1,gemm2,dsv3_tp8,4,vllm_cutlass,30,m64\n"
      "run1,gemm2,dsv3_tp8,4,vllm_cutlass_noswap,35,default\n"
      "run1,layer,dsv3_tp8,4,trt_swap,90,swap\n";
  const MeasuredFile file = config_rows(csv_of(kConfigHeader + rows));
  ASSERT_EQ(file.rows.size(), 4u);
  EXPECT_EQ(file.rows[0].choice.layout, Layout::normal_wgmma);
  EXPECT_EQ(file.rows[0].choice.tile, parse_tile("64x128x128/s8"));
  EXPECT_EQ(file.rows[1].choice.layout, Layout::swap_ab);
  EXPECT_EQ(file.rows[1].choice.tile, parse_tile("16x128x128/s8"));
  EXPECT_EQ(file.rows[2].choice.tile.block_m, 16);
  EXPECT_EQ(file.rows[2].problem.quant.kind, QuantKind::token_channel);
  EXPECT_EQ(file.rows[3].choice.layout, Layout::normal_wgmma);
  for (const MeasuredRow& r : file.rows) EXPECT_NE(r.unscored, "");
  const Score s = score(file, load_hardware("h200"), 1);
  EXPECT_EQ(s.model.n, 0u);
  ASSERT_EQ(s.swaps.size(), 2u);
  EXPECT_EQ(s.swaps[0].pairs, 1u);
  EXPECT_EQ(s.swaps[1].pairs, 1u);
  for (const Scored& r : s.rows)
    EXPECT_GT(r.predicted, 5e-6) << r.row->line;  // the GEMM's own time, not a launch's
  EXPECT_NEAR(s.swaps[0].mean_gain + s.swaps[1].mean_gain, 0.25 + 35.0 / 30 - 1, 1e-12);
  EXPECT_THROW(config_rows(csv_of(kConfigHeader + "run1,gemm1,dsv3_tp8,4,trt_norm,50,[64]\n")), BadInput);
}

// Would catch layouts of one problem that are paired with another than the true baseline.
TEST(Against, OwnLayersArePairedWithTheirBaseline) {
  const MeasuredFile file = read_measured(MOE_SOURCE_DIR "/fixtures/measured/h200_layer_deepseek-v3.csv", {});
  EXPECT_EQ(file.rows.size(), 39u);
  const Score s = score(file, load_hardware("h200"), 0);
  EXPECT_EQ(s.model.n, 39u);
  ASSERT_EQ(s.swaps.size(), 1u);
  EXPECT_EQ(s.swaps[0].pairs, 13u);
  EXPECT_EQ(s.swaps[0].name, "built-in kernels");
}

MeasuredRow tiled(const char* contest, const char* twin, bool swapped, double seconds) {
  MeasuredRow r;
  r.contest = contest, r.twin = twin, r.swapped = swapped, r.seconds = seconds;
  r.load.rows = {8};
  return r;
}

// By hand: the predicted best (row 1) takes 2 where 1 is the best: 0.5; the best is among the first four: 1.
// Would catch a pick by the measured times and four that are counted from the wrong end.
TEST(Against, PicksAreJudgedByMeasuredTime) {
  std::vector<MeasuredRow> rows;
  for (const double s : {1.0, 2.0, 3.0, 4.0, 5.0}) rows.push_back(tiled("a", "", false, s));
  const double predicted[] = {4, 1, 2, 3, 5};
  std::vector<Scored> scores;
  for (std::size_t i = 0; i < rows.size(); ++i) scores.push_back({&rows[i], predicted[i], 0, 0});
  const auto picks = picks_of(scores);
  ASSERT_TRUE(picks);
  EXPECT_EQ(picks->contests, 1u);
  EXPECT_NEAR(picks->first, 0.5, 1e-12);
  EXPECT_NEAR(picks->of_four, 1.0, 1e-12);
  EXPECT_FALSE(picks_of({scores[0]}));
}

// Gains +100 % (predicted +50 %) and -50 % (predicted +100 %). Would catch normal and swapped in each other's
// place.
TEST(Against, GainsAreNormalOverSwapped) {
  std::vector<MeasuredRow> rows{tiled("", "as shipped x", false, 2), tiled("", "as shipped x", true, 1),
                                tiled("", "as shipped y", false, 1), tiled("", "as shipped y", true, 2)};
  const double predicted[] = {3, 2, 4, 2};
  std::vector<Scored> scores;
  for (std::size_t i = 0; i < rows.size(); ++i) scores.push_back({&rows[i], predicted[i], 0, 0});
  const auto swaps = swaps_of(scores);
  ASSERT_EQ(swaps.size(), 1u);
  EXPECT_EQ(swaps[0].name, "as shipped");
  EXPECT_EQ(swaps[0].pairs, 2u);
  EXPECT_NEAR(swaps[0].mean_gain, 0.25, 1e-12);
  EXPECT_NEAR(swaps[0].model_error, (0.5 + 1.5) / 2, 1e-12);
  EXPECT_NEAR(swaps[0].rule_error, (0 + 1.5) / 2, 1e-12);  // all have 8 rows an expert: their median gain
  EXPECT_NEAR(swaps[0].model_accuracy, 0.5, 1e-12);
  EXPECT_EQ(swaps[0].decided, 2u);
  EXPECT_EQ(swaps[0].decided_right, 1u);
}

// A row that the model refuses is counted with its reason, and the rest is scored. Would catch a whole file
// that fails.
TEST(Against, CountsWhatTheModelRefuses) {
  const MeasuredFile file = config_rows(
      csv_of(kConfigHeader + "run1,gemm1,dsv3_tp8,4,vllm_triton,50,cfg=16/64/128/32/4/3 swap=1\n"
                             "run1,gemm1,dsv3_tp8,4,vllm_triton,50,cfg=256/256/256/32/4/5 swap=0\n"));
  const Score s = scored(file);
  EXPECT_EQ(s.model.n, 1u);
  ASSERT_EQ(s.skipped.size(), 1u);
  EXPECT_NE(s.skipped[0].first.find("do not fit"), std::string::npos);
  const auto json = nlohmann::json::parse(score_json(s, "f.csv", "NVIDIA H200"));
  EXPECT_EQ(json.at("against").at("n_total"), 2);
  EXPECT_EQ(json.at("against").at("n_scored"), 1);
  EXPECT_EQ(json.at("against").at("n_skipped").size(), 1u);
  EXPECT_EQ(json.at("against").at("regimes").at(0).at("errors").at("n"), 1);
}

}  // namespace
}  // namespace moe::harness
