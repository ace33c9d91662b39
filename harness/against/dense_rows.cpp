#include <fmt/format.h>

#include "harness/against/rows.hpp"
#include "sim/cutlass_dense.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kMost = std::int64_t(1) << 24;

/// out[m][n] over k as the one expert of an ungated up projection.
Problem dense_problem(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p;
  p.op = Op::grouped_gemm;
  p.shape.tokens = m;
  p.shape.hidden = k;
  p.shape.intermediate = n;
  p.shape.experts = p.shape.top_k = 1;
  p.shape.activation = Activation::relu2;
  return p;
}

}  // namespace

MeasuredFile dense_rows(const Csv& csv) {
  MeasuredFile file;
  file.layout = "dense GEMMs";
  file.total = csv.rows.size();
  for (const Csv::Row& row : csv.rows) {
    const std::int64_t m = csv.integer(row, "m", 1, kMost), n = csv.integer(row, "n", 1, kMost),
                       k = csv.integer(row, "k", 1, kMost);
    MeasuredRow r;
    r.line = row.line;
    r.problem = dense_problem(m, n, k);
    r.choice.kernel = sim::kCutlassDenseKernel;
    r.load.rows = {m};
    r.conditions = {.warm = true, .stream = true};
    r.seconds = csv.positive(row, "time_us") * 1e-6;
    const sim::GemmShape gemm = sim::dense_gemm_shape(r.problem, r.choice);
    r.regimes = {"tiles " + range_text(gemm.blocks(m) * gemm.panels(), {16, 66, 132, 660}),
                 "k-blocks " + range_text(gemm.kblocks(), {6, 20, 40}),
                 sim::footprint_bytes(r.problem, r.load) > 57.8e6 ? "inputs beyond L2" : "inputs within L2"};
    file.rows.push_back(std::move(r));
  }
  return file;
}

}  // namespace moe::harness
