// How well does the model know a kernel that is not ours? Predictions of the Triton fused-MoE family against
// the layers that an H200 was timed on in both operand orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "fixtures/files/hardware_file.hpp"
#include "sim/predict.hpp"
#include "sim/uncertainty.hpp"

namespace moe {
namespace {

/// The shapes of swap_ab_gain.py: hidden, intermediate of a rank, experts, top_k.
const std::map<std::string, MoeShape> kShapes{
    {"deepseek-r1 tp 2", {.hidden = 7168, .intermediate = 1024, .experts = 256, .top_k = 8}},
    {"qwen3-next tp 2", {.hidden = 2048, .intermediate = 256, .experts = 512, .top_k = 10}},
    {"deepseek-v3 tp 8", {.hidden = 7168, .intermediate = 256, .experts = 256, .top_k = 8}}};

Prediction predicted(MoeShape shape, std::int64_t tokens, Layout layout) {
  static const Hardware h200 = load_hardware("h200");
  Problem p;
  p.shape = shape;
  p.shape.tokens = tokens;
  Choice choice;
  choice.kernel = sim::kTritonKernel;
  choice.layout = layout;
  choice.tile = parse_tile("16x128x128/s3/w4");
  return sim::predict(p, choice, h200);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Catches: a family that does not know which order is faster, times outside the stated width, and figures of
// sim/README.md that no longer hold.
TEST(TritonTimes, AgreeWithTheCard) {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_triton_swap_ab.csv");
  std::string line;
  std::getline(file, line);
  ASSERT_TRUE(line.starts_with("shape,tokens,layer_normal_us,layer_swap_us,layer_gain,")) << line;
  std::vector<double> errors, gains;
  int inside = 0, wrong_way = 0;
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    double seconds[2];
    for (int swapped = 0; swapped < 2; ++swapped) {
      const Prediction p = predicted(kShapes.at(fields[0]), std::stol(fields[1]),
                                     swapped ? Layout::swap_ab : Layout::normal_mma);
      const double measured = std::stod(fields[std::size_t(2 + swapped)]) * 1e-6;
      seconds[swapped] = p.seconds;
      errors.push_back(std::abs(p.seconds / measured - 1));
      inside += std::abs(measured / p.seconds - 1) <= p.uncertainty;
    }
    const double gain = seconds[0] / seconds[1], measured = std::stod(fields[4]);
    gains.push_back(std::abs(gain / measured - 1));
    wrong_way += (gain > 1) != (measured > 1);
  }
  std::printf(
      "%zu layers: off by %.1f %% in the median, %.1f %% at most, %d within the stated width; gains off "
      "by %.1f %% in the median, %.1f %% at most\n",
      errors.size(), 100 * median(errors), 100 * *std::max_element(errors.begin(), errors.end()), inside,
      100 * median(gains), 100 * *std::max_element(gains.begin(), gains.end()));
  ASSERT_EQ(errors.size(), 42u);
  EXPECT_GE(inside, 38);
  EXPECT_EQ(wrong_way, 0);
  EXPECT_LE(*std::max_element(gains.begin(), gains.end()), sim::kGainWidth);
  EXPECT_LT(median(errors), 0.1);
}

}  // namespace
}  // namespace moe
