#include "harness/against/rows.hpp"

#include <fmt/format.h>

#include "fixtures/files/gzip.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {

std::string range_text(std::int64_t x, const std::vector<std::int64_t>& edges) {
  std::int64_t first = 1;
  for (const std::int64_t edge : edges) {
    if (x <= edge) return first == edge ? fmt::format("{}", edge) : fmt::format("{}-{}", first, edge);
    first = edge + 1;
  }
  return fmt::format("> {}", edges.back());
}

MeasuredFile read_measured(const std::string& path, const std::vector<TunedTable>& tuned) {
  const Csv csv = parse_csv(read_plain_or_gzip(path), path);
  if (csv.rows.empty()) throw BadInput(fmt::format("{}: no row below the column names", path));
  if (csv.has("time_us") && csv.has("m")) return dense_rows(csv);
  if (csv.has("latency_ms") && csv.has("num_tokens")) return layer_rows(csv, tuned);
  if (csv.has("us_median") && csv.has("note")) return config_rows(csv);
  if (csv.has("measured_s") && csv.has("case")) return own_rows(csv);
  throw BadInput(fmt::format(
      "{}: its columns are none of the known layouts: m,n,k,time_us (dense GEMMs); num_tokens,..,latency_ms "
      "(MoE layers); kind,model,T,peer,us_median,note (Triton configs); case,measured_s,baseline (bench "
      "--csv)",
      path));
}

}  // namespace moe::harness
