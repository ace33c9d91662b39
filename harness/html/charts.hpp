// Which charts does a page have? One function a chart, one file each; all are pure. A chart that the report
// has nothing for gives no figure. A page shows at most kMostFigures of one kind and says how many it left
// out: the table below has every case.
#pragma once
#include <vector>

#include "harness/html/compile_census.hpp"
#include "harness/html/figure.hpp"
#include "harness/html/token_sweep.hpp"
#include "harness/record.hpp"

namespace moe::harness {

constexpr std::size_t kMostFigures = 8;

/// Measured over predicted time, with y = x and the band of the stated uncertainty.
std::vector<Figure> agreement_charts(const Report&);
/// Gain of swap_ab over each baseline by tokens, predicted and measured: a figure a sweep.
std::vector<Figure> gain_charts(const std::vector<TokenSweep>&);
/// Time that the tightest resource needs over the time taken, by tokens: a figure a sweep.
/// `hbm_bytes_per_s`: what the card's memory gives at most; 0 = not known, then the tensor pipe alone.
std::vector<Figure> limit_charts(const std::vector<TokenSweep>&, double hbm_bytes_per_s);
/// Where a predicted time goes, launch by launch, beside the measured stages: a figure a case.
std::vector<Figure> waterfall_charts(const Report&);
/// Blocks of outputs by their worst |got - want| / bound, of what bounds judged.
std::vector<Figure> ratio_charts(const Report&);
/// Wrong outputs by expert and 128-column block, with the worst element: a figure a failed case.
std::vector<Figure> fault_maps(const Report&);
/// What finds which planted fault.
std::vector<Figure> kill_charts(const std::vector<KillRow>&);
/// The same, fault by fault: truth and properties as columns.
NumberTable kill_matrix(const std::vector<KillRow>&);
/// Compilations by kernel: all, those that were told apart, those that annotations leave.
std::vector<Figure> census_charts(const std::vector<CompileCensus>&);

}  // namespace moe::harness
