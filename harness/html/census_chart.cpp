#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/html/charts.hpp"
#include "harness/html/plot.hpp"
#include "harness/units.hpp"

namespace moe::harness {
namespace {

constexpr double kWidth = 440, kTexts = 40, kBar = 9;
/// Kernels in one picture, those that compiled most; the table has all.
constexpr std::size_t kMostKernels = 12;

struct Bar {
  std::int64_t CensusKernel::*count;
  const char *style, *stream, *files;
};
const Bar kBars[] = {{&CensusKernel::all, "normal_mma", "without annotations", "compiled"},
                     {&CensusKernel::apart, "normal_wgmma", "as it stands", "told apart"},
                     {&CensusKernel::left, "swap_ab", "with what is enough", "left by all annotations"}};

std::string picture(const std::vector<CensusKernel>& kernels, bool stream, const std::string& title,
                    const std::string& note) {
  std::int64_t most = 1;
  for (const CensusKernel& k : kernels) most = std::max(most, k.all);
  std::string body;
  double y = 2;
  for (const CensusKernel& k : kernels) {
    body += svg_text(4, y + 12, Anchor::start, k.function);
    y += 17;
    for (const Bar& b : kBars) {
      const std::int64_t n = k.*b.count;
      body += svg_rect(4, y, (kWidth - 8 - kTexts) * double(n) / double(most), kBar,
                       fmt::format("bar {}", b.style),
                       fmt::format("{}, {}: {}", k.function, stream ? b.stream : b.files, n));
      body += svg_text(8 + (kWidth - 8 - kTexts) * double(n) / double(most), y + kBar, Anchor::start,
                       std::to_string(n));
      y += kBar + 2;
    }
    y += 6;
  }
  return svg_element(kWidth, y, title, note, body);
}

NumberTable numbers_of(const CompileCensus& census) {
  NumberTable table{{{"kernel"}}, {}};
  for (const Bar& b : kBars) table.heads.push_back({census.stream ? b.stream : b.files, true});
  table.heads.insert(table.heads.end(), {{"compiling", true}, {"avoidable", true}, {"because"}});
  for (const CensusKernel& k : census.kernels)
    table.rows.push_back({k.function, std::to_string(k.all), std::to_string(k.apart), std::to_string(k.left),
                          k.seconds ? seconds_text(*k.seconds) : "",
                          k.avoidable_s ? seconds_text(*k.avoidable_s) : "",
                          fmt::format("{}", fmt::join(k.causes, "; "))});
  return table;
}

}  // namespace

std::vector<Figure> census_charts(const std::vector<CompileCensus>& censuses) {
  std::vector<Figure> figures;
  for (const CompileCensus& census : censuses) {
    std::vector<CensusKernel> most = census.kernels;
    std::stable_sort(most.begin(), most.end(),
                     [](const CensusKernel& a, const CensusKernel& b) { return a.all > b.all; });
    if (most.size() > kMostKernels) most.resize(kMostKernels);
    Figure f;
    f.title = census.source;
    f.note = census.stream
                 ? "Variants that Triton compiles of this kernel."
                 : fmt::format("Compilations of {} kernels{}.", census.kernels.size(),
                               census.kernels.size() > most.size() ? "; the 12 with most are drawn" : "");
    for (const Bar& b : kBars) f.legend.push_back({b.style, census.stream ? b.stream : b.files, 1});
    f.svg = picture(most, census.stream, "Compilations, " + census.source, f.note);
    f.numbers = numbers_of(census);
    figures.push_back(std::move(f));
  }
  return figures;
}

}  // namespace moe::harness
