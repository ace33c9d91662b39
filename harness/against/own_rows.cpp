#include <fmt/format.h>

#include <map>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "fixtures/problem/text.hpp"
#include "harness/against/rows.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

/// A problem's text, the same for all of its layouts.
std::string problem_text(const Csv& csv, const Csv::Row& row) {
  return fmt::format("{} T={} {}", csv.text(row, "model"), csv.text(row, "tokens"), csv.text(row, "load"));
}

/// Which layout each problem's swap_ab row was compared with.
std::map<std::string, std::string> baselines(const Csv& csv) {
  std::map<std::string, std::string> found;
  for (const Csv::Row& row : csv.rows)
    if (!csv.text(row, "baseline").empty()) found[problem_text(csv, row)] = csv.text(row, "baseline");
  return found;
}

}  // namespace

MeasuredFile own_rows(const Csv& csv) {
  MeasuredFile file;
  file.layout = "layers of the built-in kernels";
  file.total = csv.rows.size();
  const auto baseline = baselines(csv);
  std::map<std::string, ExpertLoad> loads;
  for (const Csv::Row& row : csv.rows) {
    if (csv.text(row, "measured_s").empty()) {
      ++file.skipped["not measured"];
      continue;
    }
    const Case trial = parse_case(csv.text(row, "case"));
    const std::string text = problem_text(csv, row);
    MeasuredRow r;
    r.line = row.line;
    r.problem = trial.problem;
    r.choice = trial.choice;
    ExpertLoad& load = loads[text];
    if (load.rows.empty()) load = sim::local_load(r.problem, routing_of(r.problem));
    r.load = load;
    r.seconds = csv.positive(row, "measured_s");
    r.swapped = r.choice.layout == Layout::swap_ab;
    r.regimes = {std::string(name(r.choice.layout)),
                 "tokens " + range_text(r.problem.shape.tokens, {4, 64, 512}),
                 one_line(csv.text(row, "model"))};
    const auto other = baseline.find(text);
    const bool compared = other != baseline.end() && (r.swapped || name(r.choice.layout) == other->second);
    if (compared) r.twin = "built-in kernels " + text;
    file.rows.push_back(std::move(r));
  }
  return file;
}

}  // namespace moe::harness
