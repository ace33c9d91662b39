#include "harness/route/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fixtures/problem/auto_tile.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

/// vLLM main ac7509e2b (2026-08-14), fused_moe/oracle/fp8.py, on Hopper: block scales go to Triton, to
/// FlashInfer's CUTLASS under expert parallelism; static scales of whole tensors to FlashInfer's CUTLASS;
/// what that does not take (dynamic, per channel) comes to Triton. Triton gathers in its GEMM: fused.
std::string vllm_order(const Problem& p) {
  if (p.quant.block()) return p.shape.ep > 1 ? "grouped" : "fused";
  return p.quant.kind == QuantKind::tensor_static ? "grouped" : "fused";
}

/// vLLM pull request 50040: scales of whole tensors go to Triton on Hopper, static ones too.
std::string aws_rule(const Problem& p) { return p.quant.tensor() ? "fused" : vllm_order(p); }

double predicted(const Problem& p, const Choice& choice, const Hardware& hardware, const ExpertLoad& load) {
  return sim::predict(p, choice, hardware, load).seconds;
}

}  // namespace

const Arm* RoutePoint::arm(const std::string& backend) const {
  for (const Arm& a : arms)
    if (a.backend == backend) return &a;
  return nullptr;
}

bool RoutePoint::measured() const {
  return !arms.empty() && std::ranges::all_of(arms, [](const Arm& a) { return a.measured.has_value(); });
}

const std::vector<std::pair<std::string, std::string>>& path_backends() {
  static const std::vector<std::pair<std::string, std::string>> table{
      {"scatter", std::string(sim::kOwnKernel)},
      {"fused", std::string(sim::kFusedKernel)},
      {"grouped", std::string(sim::kGroupedKernel)}};
  return table;
}

RoutePoint path_point(const Problem& problem, const Routing& routing, const Hardware& hardware) {
  RoutePoint point;
  point.problem = problem;
  const ExpertLoad load = sim::local_load(problem, routing);
  const auto active = std::ranges::count_if(load.rows, [](std::int64_t r) { return r > 0; });
  point.rows_per_expert = active > 0 ? double(load.total()) / double(active) : 0;
  for (const auto& [backend, kernel] : path_backends()) {
    Arm fastest;
    for (const Layout layout : {Layout::swap_ab, Layout::normal_wgmma}) {
      Choice choice;
      choice.kernel = kernel;
      choice.layout = layout;
      choice = resolve_tiles(choice, problem, load);
      const double s = predicted(problem, choice, hardware, load);
      if (fastest.backend.empty() || s < fastest.predicted) fastest = {backend, choice, s, {}};
    }
    point.arms.push_back(fastest);
  }
  return point;
}

double seconds(const Arm& arm, TimeOf time) {
  return time == TimeOf::predicted ? arm.predicted : arm.measured.value();
}

const Arm& best(const RoutePoint& point, TimeOf time) {
  return *std::ranges::min_element(
      point.arms, [&](const Arm& a, const Arm& b) { return seconds(a, time) < seconds(b, time); });
}

std::vector<Policy> policies(const std::vector<RoutePoint>& points) {
  std::vector<Policy> all{
      {"predicted best", [](const RoutePoint& p) { return best(p, TimeOf::predicted).backend; }}};
  std::vector<std::string> names;
  for (const RoutePoint& p : points)
    for (const Arm& a : p.arms)
      if (std::ranges::find(names, a.backend) == names.end()) names.push_back(a.backend);
  std::string standard;
  double least = 0;
  for (const std::string& name : names) {
    const Regret r = regret(points, {name, [&](const RoutePoint&) { return name; }}, TimeOf::predicted);
    if (r.points == points.size() && (standard.empty() || r.mean < least)) standard = name, least = r.mean;
  }
  if (!standard.empty())
    all.push_back(
        {fmt::format("predicted where decided, else {}", standard), [standard](const RoutePoint& p) {
           const Arm& fastest = best(p, TimeOf::predicted);
           const double gain = p.arm(standard)->predicted / fastest.predicted - 1;
           return gain > kDecidedBeyond ? fastest.backend : standard;
         }});
  for (const std::string& name : names)
    all.push_back({"always " + name, [name](const RoutePoint&) { return name; }});
  const bool paths = std::ranges::all_of(
      path_backends(), [&](const auto& b) { return std::ranges::find(names, b.first) != names.end(); });
  if (paths) {
    all.push_back({"vLLM's order", [](const RoutePoint& p) { return vllm_order(p.problem); }});
    all.push_back({"vLLM PR 50040", [](const RoutePoint& p) { return aws_rule(p.problem); }});
  }
  return all;
}

Regret regret(const std::vector<RoutePoint>& points, const Policy& policy, TimeOf time) {
  Regret r;
  for (const RoutePoint& p : points) {
    if (p.arms.empty() || (time == TimeOf::measured && !p.measured())) continue;
    const Arm* picked = p.arm(policy.pick(p));
    if (picked == nullptr) continue;
    const double more = seconds(*picked, time) / seconds(best(p, time), time) - 1;
    r.mean += more;
    r.worst = std::max(r.worst, more);
    ++r.points;
  }
  if (r.points > 0) r.mean /= double(r.points);
  return r;
}

std::vector<Crossover> crossovers(const std::vector<RoutePoint>& points, TimeOf time) {
  std::vector<Crossover> found;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const RoutePoint &a = points[i - 1], &b = points[i];
    if (time == TimeOf::measured && (!a.measured() || !b.measured())) continue;
    const Arm &before = best(a, time), &behind = best(b, time);
    if (before.backend != behind.backend) found.push_back({before.backend, behind.backend, a.label, b.label});
  }
  return found;
}

std::string only_winner(const std::vector<RoutePoint>& points, TimeOf time) {
  std::set<std::string> winners;
  for (const RoutePoint& p : points)
    if (time == TimeOf::predicted || p.measured()) winners.insert(best(p, time).backend);
  return winners.size() == 1 ? *winners.begin() : std::string();
}

}  // namespace moe::harness
