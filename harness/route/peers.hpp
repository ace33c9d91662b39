// What would routing between other people's kernels have cost? Reads a file of measured times (columns kind,
// model, T, peer, us_median, note, as compare --against), keeps the kernels that a CUDA graph can hold and
// that ran as their projects ship them, predicts each, and makes a point of every GEMM and token count.
#pragma once
#include <string>

#include "harness/route/report.hpp"

namespace moe::harness {

/// Throws BadInput for a file that cannot be read or has no such row.
RouteReport peer_report(const std::string& path, const Hardware& hardware);

}  // namespace moe::harness
