// What may answer a problem, and what does each of them take? One point a problem, one arm a backend; a
// backend is a path of the built-in layer or another's kernel. Seconds.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/routing.hpp"

namespace moe::harness {

struct Arm {
  std::string backend;  // "fused"
  Choice choice;        // as predicted (and measured)
  double predicted = 0;
  std::optional<double> measured;
};

struct RoutePoint {
  std::string label;  // "16 tokens, uniform"
  Problem problem;
  double rows_per_expert = 0;  // of those that have any
  std::vector<Arm> arms;

  const Arm* arm(const std::string& backend) const;
  bool measured() const;  // every arm is
};

/// The backends of the built-in layer: scatter, fused, grouped (device/README.md).
const std::vector<std::pair<std::string, std::string>>& path_backends();  // name -> kernel

/// Each path in the layout, swap_ab or normal_wgmma, that the model calls fastest, tiles settled.
RoutePoint path_point(const Problem& problem, const Routing& routing, const Hardware& hardware);

/// A rule that names a backend for a point.
struct Policy {
  std::string name;
  std::function<std::string(const RoutePoint&)> pick;
};

/// A gain that the model knows no better than this is not decided by it (sim/README.md).
inline constexpr double kDecidedBeyond = 0.12;

/// The predicted best; the predicted best where it gains more than kDecidedBeyond on a default, else that
/// default, which is the backend of least predicted regret; always each backend of the points; behind these,
/// where the points have the paths of the built-in layer, the orders of vLLM's oracle and of its pull request
/// 50040.
std::vector<Policy> policies(const std::vector<RoutePoint>& points);

enum class TimeOf { predicted, measured };
double seconds(const Arm& arm, TimeOf time);
const Arm& best(const RoutePoint& point, TimeOf time);

/// How much longer a policy's pick takes than the best arm, 0.02 = 2 %, over the points whose arms all have
/// that time; a pick that a point does not have is not counted, and `points` says how many were.
struct Regret {
  double mean = 0, worst = 0;
  std::size_t points = 0;
};
Regret regret(const std::vector<RoutePoint>& points, const Policy& policy, TimeOf time);

/// "fused" where the points, which follow one another in one sweep, change their best arm: "16 tokens".
struct Crossover {
  std::string from, to, last, first;  // backends; labels of the last point before and the first behind
};
std::vector<Crossover> crossovers(const std::vector<RoutePoint>& points, TimeOf time);

/// The backend that is best at every point; empty where none is.
std::string only_winner(const std::vector<RoutePoint>& points, TimeOf time);

}  // namespace moe::harness
