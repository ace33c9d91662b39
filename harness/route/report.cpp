#include "harness/route/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fixtures/problem/text.hpp"
#include "harness/record.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

TimeOf time_shown(const std::vector<RoutePoint>& points) {
  const bool any = std::ranges::any_of(points, [](const RoutePoint& p) { return p.measured(); });
  return any ? TimeOf::measured : TimeOf::predicted;
}

std::string_view name(TimeOf time) { return time == TimeOf::measured ? "measured" : "predicted"; }

std::vector<std::string> backends_of(const std::vector<RoutePoint>& points) {
  std::vector<std::string> names;
  for (const Policy& policy : policies(points))
    if (policy.name.starts_with("always ")) names.push_back(policy.name.substr(7));
  return names;
}

/// How much the best arm gains on the next one; 0 where it is alone.
double margin(const RoutePoint& p, TimeOf time) {
  double first = 0, second = 0;
  for (const Arm& a : p.arms) {
    const double s = seconds(a, time);
    if (first == 0 || s < first)
      second = first, first = s;
    else if (second == 0 || s < second)
      second = s;
  }
  return second > 0 ? second / first - 1 : 0;
}

std::string cell(const RoutePoint& p, const std::string& backend) {
  const Arm* a = p.arm(backend);
  if (a == nullptr) return "-";
  std::string text = seconds_text(a->predicted);
  if (a->measured) text += " / " + seconds_text(*a->measured);
  return text;
}

std::string points_text(const std::vector<RoutePoint>& points, const std::vector<std::string>& backends,
                        TimeOf time) {
  const int width = time == TimeOf::measured ? 20 : 11;
  std::string text = fmt::format("  {:<26}{:>11}", "", "rows/expert");
  for (const std::string& b : backends)
    text += fmt::format("{:>{}}", b, std::max<int>(width, int(b.size()) + 2));
  text += "   best by prediction";
  if (time == TimeOf::measured) text += ", measured";
  text += "\n";
  for (const RoutePoint& p : points) {
    text += fmt::format("  {:<26}{:>11.1f}", p.label, p.rows_per_expert);
    for (const std::string& b : backends)
      text += fmt::format("{:>{}}", cell(p, b), std::max<int>(width, int(b.size()) + 2));
    const double by = margin(p, TimeOf::predicted);
    text += fmt::format("   {} by {:.1f} %{}", best(p, TimeOf::predicted).backend, 100 * by,
                        by < kDecidedBeyond ? " (undecided)" : "");
    if (p.measured())
      text += fmt::format("; {} by {:.1f} %", best(p, TimeOf::measured).backend,
                          100 * margin(p, TimeOf::measured));
    text += "\n";
  }
  return text;
}

std::string policies_text(const std::vector<RoutePoint>& points, TimeOf time) {
  std::string text = fmt::format("\n  regret ({} times){:>31}{:>8}\n", name(time), "mean", "worst");
  for (const Policy& policy : policies(points)) {
    const Regret r = regret(points, policy, time);
    if (r.points == 0) continue;
    text += fmt::format("  {:<46}{:>7.2f} %{:>6.1f} %", policy.name, 100 * r.mean, 100 * r.worst);
    if (r.points < points.size()) text += fmt::format("   of {} of {} points", r.points, points.size());
    text += "\n";
  }
  return text;
}

std::string crossings_text(const RouteReport& report, TimeOf time) {
  std::string text;
  for (const auto& sweep : report.sweeps)
    for (const Crossover& c : crossovers(sweep, time))
      text += fmt::format("  {} until {}, {} from {}\n", c.from, c.last, c.to, c.first);
  return text;
}

Json json_of(const RoutePoint& p) {
  Json j{{"label", p.label},
         {"tokens", p.problem.shape.tokens},
         {"rows_per_expert", p.rows_per_expert},
         {"arms", Json::array()},
         {"predicted_best", best(p, TimeOf::predicted).backend},
         {"decided", margin(p, TimeOf::predicted) >= kDecidedBeyond}};
  for (const Arm& a : p.arms) {
    Json arm{{"backend", a.backend}, {"case", to_line({p.problem, a.choice})}, {"predicted_s", a.predicted}};
    if (a.measured) arm["measured_s"] = *a.measured;
    j["arms"].push_back(arm);
  }
  if (p.measured()) j["measured_best"] = best(p, TimeOf::measured).backend;
  return j;
}

}  // namespace

std::vector<RoutePoint> RouteReport::points() const {
  std::vector<RoutePoint> all;
  for (const auto& sweep : sweeps) all.insert(all.end(), sweep.begin(), sweep.end());
  return all;
}

std::string route_rule(const RouteReport& report) {
  if (report.sweeps.empty() || report.sweeps[0].empty()) return {};
  const std::vector<RoutePoint>& sweep = report.sweeps[0];
  const TimeOf time = time_shown(sweep);
  std::string text = fmt::format("# {} by moeproof route: {}, {}\ndef backend(tokens):\n", name(time),
                                 report.subject, report.hardware);
  std::string last =
      best(sweep.front(), time == TimeOf::measured && !sweep.front().measured() ? TimeOf::predicted : time)
          .backend;
  for (std::size_t i = 1; i < sweep.size(); ++i) {
    if (time == TimeOf::measured && !sweep[i].measured()) continue;
    const std::string& now = best(sweep[i], time).backend;
    if (now == last) continue;
    text +=
        fmt::format("    if tokens <= {}:\n        return \"{}\"\n", sweep[i - 1].problem.shape.tokens, last);
    last = now;
  }
  return text + fmt::format("    return \"{}\"\n", last);
}

std::string route_table(const RouteReport& report) {
  const std::vector<RoutePoint> points = report.points();
  const TimeOf time = time_shown(points);
  std::string text = fmt::format("route  {}  on {}{}\n", report.subject, report.hardware,
                                 time == TimeOf::measured ? "  (predicted / measured)" : "");
  text += points_text(points, backends_of(points), time);
  text += policies_text(points, TimeOf::predicted);
  if (time == TimeOf::measured) text += policies_text(points, TimeOf::measured);
  const std::string crossings = crossings_text(report, time);
  const std::string winner = only_winner(points, time);
  text += "\n";
  if (!winner.empty())
    text += fmt::format("  {} is the fastest at every point ({} times): there is nothing to route\n", winner,
                        name(time));
  else
    text += crossings;
  text += fmt::format("  (undecided): the gain is below the {:.0f} % that the model is known to\n",
                      100 * kDecidedBeyond);
  for (const auto& [reason, rows] : report.skipped)
    text += fmt::format("  {} rows left out: {}\n", rows, one_line(reason));
  return text;
}

std::string route_json(const RouteReport& report) {
  const std::vector<RoutePoint> points = report.points();
  Json j;
  j["schema"] = 1;
  j["tool"] = {
      {"name", "moeproof"}, {"version", tool_version()}, {"command", "route"}, {"hardware", report.hardware}};
  Json& r = j["route"];
  r["subject"] = report.subject;
  r["points"] = Json::array();
  for (const RoutePoint& p : points) r["points"].push_back(json_of(p));
  r["policies"] = Json::array();
  for (const TimeOf time : {TimeOf::predicted, TimeOf::measured})
    for (const Policy& policy : policies(points)) {
      const Regret g = regret(points, policy, time);
      if (g.points == 0) continue;
      r["policies"].push_back({{"policy", policy.name},
                               {"by", name(time)},
                               {"regret_mean", g.mean},
                               {"regret_worst", g.worst},
                               {"points", g.points}});
    }
  const TimeOf time = time_shown(points);
  r["crossovers"] = Json::array();
  for (const auto& sweep : report.sweeps)
    for (const Crossover& c : crossovers(sweep, time))
      r["crossovers"].push_back({{"from", c.from}, {"to", c.to}, {"last", c.last}, {"first", c.first}});
  r["only_winner"] = only_winner(points, time);
  r["rule"] = route_rule(report);
  if (!report.skipped.empty()) r["skipped"] = report.skipped;
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moe::harness
