#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "fixtures/problem/text.hpp"
#include "harness/against/score.hpp"
#include "harness/record.hpp"
#include "harness/reporters.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

double percent(double fraction) { return 100 * fraction; }

std::string line(const std::string& name, const Errors& model, const Errors& naive) {
  return fmt::format("{:<36}{:>7}{:>7.1f}{:>7.1f}{:>7.1f}{:>+7.1f}{:>8.4f}{:>8.1f}{:>7.1f}\n", name, model.n,
                     percent(model.mean), percent(model.median), percent(model.p90), percent(model.bias),
                     model.spearman, percent(naive.mean), percent(naive.median));
}

std::string picks_text(const Picks& p) {
  return fmt::format(
      "\n{} problems measured in several tiles: the predicted best reaches {:.3f} of the measured best\n"
      "(geometric mean; {:.3f} at worst), the best of the first four {:.3f}\n",
      p.contests, p.first, p.worst_first, p.of_four);
}

std::string swaps_text(const Swaps& s) {
  const std::string decided = s.decided == 0 ? "decides none"
                                             : fmt::format("decides {}, {} right (balanced accuracy {:.2f})",
                                                           s.decided, s.decided_right, s.decided_accuracy);
  return fmt::format(
      "Swap-AB {}: {} pairs, mean gain {:+.1f} %\n"
      "  gain off by {:.1f} points (best constant {:.1f}, swap below 32 rows an expert {:.1f})\n"
      "  which is faster: balanced accuracy {:.2f} (best constant 0.50, swap below 32 rows {:.2f}); {}, {} "
      "to measure\n",
      s.name, s.pairs, percent(s.mean_gain), percent(s.model_error), percent(s.constant_error),
      percent(s.rule_error), s.model_accuracy, s.rule_accuracy, decided, s.pairs - s.decided);
}

Json json_of(const Errors& e) {
  return {{"n", e.n},     {"mean", e.mean}, {"median", e.median},
          {"p90", e.p90}, {"bias", e.bias}, {"spearman", e.spearman}};
}

Json json_of(const std::vector<Regime>& regimes) {
  Json list = Json::array();
  for (const Regime& r : regimes)
    list.push_back({{"regime", r.name}, {"errors", json_of(r.model)}, {"naive", json_of(r.naive)}});
  return list;
}

Json json_of(const Swaps& s) {
  return {{"pairs", s.name},
          {"n", s.pairs},
          {"mean_gain", s.mean_gain},
          {"gain_error", s.model_error},
          {"constant_error", s.constant_error},
          {"rule_error", s.rule_error},
          {"balanced_accuracy", s.model_accuracy},
          {"rule_accuracy", s.rule_accuracy},
          {"decided", s.decided},
          {"measure", s.pairs - s.decided},
          {"decided_balanced_accuracy", s.decided_accuracy},
          {"decided_right", s.decided_right}};
}

}  // namespace

std::string score_table(const Score& s, const std::string& file, const std::string& hardware) {
  std::string text =
      fmt::format("{}: {} of {}, predicted for {}\n", one_line(file), s.layout, s.total, hardware);
  for (const auto& [reason, rows] : s.skipped)
    text += fmt::format("  skipped {:>6}: {}\n", rows, one_line(reason));
  text += fmt::format("\n{:<36}{:>7}{:>7}{:>7}{:>7}{:>7}{:>8}{:>8}{:>7}\n", "error in % of the measured time",
                      "rows", "mean", "median", "p90", "bias", "rank", "naive", "median");
  text += line("all", s.model, s.naive);
  for (const Regime& r : s.regimes) text += line("  " + r.name, r.model, r.naive);
  for (const Regime& r : s.unscored) text += line("not scored: " + r.name, r.model, r.naive);
  if (s.picks) text += picks_text(*s.picks);
  for (const Swaps& swaps : s.swaps) text += swaps_text(swaps);
  return text;
}

std::string score_json(const Score& s, const std::string& file, const std::string& hardware) {
  Json j;
  j["schema"] = 1;
  j["tool"] = {
      {"name", "moeproof"}, {"version", tool_version()}, {"command", "compare"}, {"hardware", hardware}};
  Json& a = j["against"];
  a["file"] = one_line(file);
  a["layout"] = s.layout;
  a["n_total"] = s.total;
  a["n_scored"] = s.model.n;
  std::size_t unscored = 0;
  for (const Regime& r : s.unscored) unscored += r.model.n;
  a["n_unscored"] = unscored;
  a["n_skipped"] = Json::object();
  for (const auto& [reason, rows] : s.skipped) a["n_skipped"][one_line(reason)] = rows;
  a["errors"] = json_of(s.model);
  a["naive"] = json_of(s.naive);
  a["regimes"] = json_of(s.regimes);
  a["unscored"] = json_of(s.unscored);
  if (s.picks)
    a["picks"] = {{"problems", s.picks->contests},
                  {"best", s.picks->first},
                  {"best_of_four", s.picks->of_four},
                  {"worst", s.picks->worst_first}};
  for (const Swaps& swaps : s.swaps) a["swap_ab"].push_back(json_of(swaps));
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string score_csv(const Score& s) {
  std::string text = "line,scored,measured_s,predicted_s,naive_s,layout,tile,regimes\n";
  for (const Scored& r : s.rows) {
    std::string regimes = r.row->unscored;
    for (const std::string& regime : r.row->regimes) regimes += (regimes.empty() ? "" : "; ") + regime;
    text += fmt::format("{},{},{},{},{},{},{},\"{}\"\n", r.row->line, int(r.row->unscored.empty()),
                        r.row->seconds, r.predicted, r.naive, name(r.row->choice.layout),
                        to_string(r.row->choice.tile), regimes);
  }
  return text;
}

}  // namespace moe::harness
