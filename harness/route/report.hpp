// How is a routing shown? A table of the points with every backend's time, the regret of each policy, where
// the best backend changes, and a rule to paste.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/route/points.hpp"

namespace moe::harness {

struct RouteReport {
  std::string subject;                          // "deepseek-v3 tp 8, block128" or a file
  std::string hardware;                         // of the predictions
  std::vector<std::vector<RoutePoint>> sweeps;  // points of one load (or of one model of a file), in order
  std::map<std::string, int> skipped;           // reason -> rows of a file

  std::vector<RoutePoint> points() const;
};

std::string route_table(const RouteReport& report);
std::string route_json(const RouteReport& report);
/// A Python function over the tokens of the first sweep's problem, by measured times where there are any.
std::string route_rule(const RouteReport& report);

}  // namespace moe::harness
