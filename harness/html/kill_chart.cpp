#include <fmt/format.h>

#include <algorithm>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/kill_sums.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr double kWidth = 440, kNames = 92, kTexts = 70, kRow = 34;

std::string picture(const std::vector<KillSum>& sums, const std::string& title, const std::string& note) {
  const double width = kWidth - kNames - kTexts;
  std::string body;
  double y = 4;
  for (const KillSum& s : sums) {
    body += svg_text(kNames - 6, y + 18, Anchor::end, s.kind);
    for (int way = 0; way < 2; ++way) {
      const double share = s.seeds[way] > 0 ? double(s.killed[way]) / s.seeds[way] : 0;
      const double top = y + 3 + 12 * way;
      body += svg_rect(kNames, top, width, 10, "right", "");
      body += svg_rect(kNames, top, width * share, 10, way == 0 ? "bar swap_ab" : "bar normal_mma",
                       fmt::format("{}, {}: {} of {} seeds", s.kind, way == 0 ? "declared" : "undeclared",
                                   s.killed[way], s.seeds[way]));
      body +=
          svg_text(kWidth - 4, top + 9, Anchor::end, fmt::format("{} of {}", s.killed[way], s.seeds[way]));
    }
    y += kRow;
  }
  return svg_element(kWidth, y + 4, title, note, body);
}

/// "truth" first, then properties by number.
std::vector<std::string> finders_of(const std::vector<KillRow>& rows) {
  std::vector<std::string> finders;
  for (const KillRow& row : rows)
    for (const std::string& finder : row.killed_by)
      if (std::find(finders.begin(), finders.end(), finder) == finders.end()) finders.push_back(finder);
  std::sort(finders.begin(), finders.end(), [](const std::string& a, const std::string& b) {
    const bool property_a = a.starts_with('P'), property_b = b.starts_with('P');
    if (property_a != property_b) return property_b;
    return a.size() != b.size() && property_a ? a.size() < b.size() : a < b;
  });
  return finders;
}

}  // namespace

std::vector<Figure> kill_charts(const std::vector<KillRow>& rows) {
  if (rows.empty()) return {};
  const std::vector<KillSum> sums = kill_sums(rows);
  Figure f;
  f.title = "Seeds that find their fault, by the kind of fault";
  f.note =
      "Declared: judged to the bit. Undeclared: as an outsider's process. A seed is a run of random cases.";
  f.legend = {{"swap_ab", "declared", 1}, {"normal_mma", "undeclared", 1}};
  f.svg = picture(sums, f.title, f.note);
  f.numbers.heads = {{"kind"}, {"faults", true}, {"not tried", true}, {"declared"}, {"undeclared"}};
  for (const KillSum& s : sums)
    f.numbers.rows.push_back({s.kind, std::to_string(s.faults), std::to_string(s.not_tried),
                              fmt::format("{} of {}", s.killed[0], s.seeds[0]),
                              fmt::format("{} of {}", s.killed[1], s.seeds[1])});
  return {f};
}

NumberTable kill_matrix(const std::vector<KillRow>& rows) {
  const std::vector<std::string> finders = finders_of(rows);
  NumberTable table{{{"fault"}, {"kind"}, {"what"}, {"judged"}, {"seeds"}}, {}};
  for (const std::string& finder : finders) table.heads.push_back({finder});
  table.heads.insert(table.heads.end(), {{"first case", true}, {"times the trigger", true}});
  for (const KillRow& row : rows) {
    const bool tried = row.why_not.empty();
    if (!tried && !row.declared) continue;
    std::vector<std::string> cells{row.fault, row.kind, row.text,
                                   !tried         ? "not tried: " + row.why_not
                                   : row.declared ? "declared"
                                                  : "undeclared",
                                   tried ? fmt::format("{}/{}", row.killed, row.seeds) : ""};
    for (const std::string& finder : finders) {
      const bool finds = std::find(row.killed_by.begin(), row.killed_by.end(), finder) != row.killed_by.end();
      cells.push_back(finds ? "\u25cf" : "");
    }
    cells.push_back(row.killed > 0 ? std::to_string(row.cases) : "");
    cells.push_back(row.distance > 0 ? ratio_text(row.distance) : "");
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace moe::harness
