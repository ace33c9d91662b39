// Is the stated uncertainty true? Predictions of the layers that an H200 was timed on (fixtures/measured),
// each against its measured time.
#include "sim/uncertainty.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/case.hpp"
#include "sim/predict.hpp"

namespace moe {
namespace {

struct Layer {
  Case trial;
  double measured_s = 0;
};

/// Rows of h200_layer_<model>.csv; the case line is the last field, the measured time the ninth.
std::vector<Layer> layers_of(const std::string& model) {
  std::ifstream file(MOE_SOURCE_DIR "/fixtures/measured/h200_layer_" + model + ".csv");
  std::string line;
  std::getline(file, line);
  EXPECT_TRUE(line.starts_with("op,model,tokens,load,quant,layout,tile,predicted_s,measured_s,")) << line;
  std::vector<Layer> layers;
  while (std::getline(file, line)) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    layers.push_back({parse_case(fields.back()), std::stod(fields[8])});
  }
  return layers;
}

// Catches: a band that looks confident and does not hold the measurements of the project itself, or one so
// wide that it says nothing.
TEST(Uncertainty, HoldsNineOfTenMeasuredLayers) {
  const Hardware h200 = load_hardware("h200");
  int inside = 0, all = 0;
  double widths = 0;
  for (const char* model : {"deepseek-v3", "qwen3-235b", "mixtral-8x7b"})
    for (const Layer& layer : layers_of(model)) {
      const Prediction p = sim::predict(layer.trial.problem, layer.trial.choice, h200);
      ++all;
      widths += p.uncertainty;
      inside += std::abs(layer.measured_s / p.seconds - 1) <= p.uncertainty;
    }
  std::printf("%d of %d measured layers within the stated uncertainty, mean width %.2f\n", inside, all,
              widths / all);
  EXPECT_GE(all, 100);
  EXPECT_GE(inside, all * 9 / 10);
  EXPECT_LT(widths / all, 0.4);
}

// Catches: a gain that is promised closer than the project's own measurements bear out.
TEST(Uncertainty, HoldsNineOfTenMeasuredGains) {
  const Hardware h200 = load_hardware("h200");
  int inside = 0, all = 0;
  for (const char* model : {"deepseek-v3", "qwen3-235b", "mixtral-8x7b"}) {
    const std::vector<Layer> layers = layers_of(model);
    for (const Layer& swap : layers)
      for (const Layer& other : layers) {
        if (swap.trial.choice.layout != Layout::swap_ab || other.trial.choice.layout == Layout::swap_ab ||
            swap.trial.problem != other.trial.problem)
          continue;
        const auto time = [&](const Layer& l) {
          return sim::predict(l.trial.problem, l.trial.choice, h200).seconds;
        };
        const double predicted = time(other) / time(swap), measured = other.measured_s / swap.measured_s;
        ++all;
        inside += std::abs(measured / predicted - 1) <= sim::kGainWidth;
      }
  }
  std::printf("%d of %d measured gains within %.2f of the prediction\n", inside, all, sim::kGainWidth);
  EXPECT_GE(all, 60);
  EXPECT_GE(inside, all * 9 / 10);
}

}  // namespace
}  // namespace moe
