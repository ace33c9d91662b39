// How near to what the card can do is each measured stage, and is it faster than the best public kernel? One
// cell a stage of a bench case. Seconds, bytes.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record.hpp"
#include "sim/limits.hpp"

namespace moe::harness {

/// Best time of a public kernel on one shape, uniform routing, cold weights, as somebody measured it.
struct PublicTime {
  std::string model, stage, name;
  /// gemm; gemm_host_counts: needs the row counts on the host; layer_public_gemms_plain_glue: its GEMMs
  /// between small kernels that nobody tuned.
  std::string kind;
  int tp = 1, ep = 1;
  std::int64_t tokens = 0;
  double seconds = 0, bytes_per_s = 0;  // bytes_per_s: read-only stream of that run
};

/// A CSV with the columns model, tp, ep, tokens, stage, us, name, kind, read_tb_per_s. Throws BadInput with
/// the line that is wrong.
std::vector<PublicTime> parse_public_times(std::string_view text, std::string_view where);

struct LimitCell {
  Case trial;
  std::string stage;
  double seconds = 0, spread = 0;
  int samples = 0;
  std::string kernel_hash;
  sim::FewestWork fewest;
  double limit_s = 0, staged_limit_s = 0;
  std::optional<PublicTime> best_public;  // none of such a shape: of uneven loads
  bool fastest = false;                   // of the layouts measured
  double fraction() const { return limit_s / seconds; }
  double staged_fraction() const { return staged_limit_s / seconds; }
};

/// The cells of a bench report: gemm1, gemm2 and layer of each case with times. `stream_bytes_per_s`: the
/// best read-only stream of the run, 0 = not measured; it counts where it exceeds what is known.
std::vector<LimitCell> limit_cells(const Report& report, double stream_bytes_per_s,
                                   const std::vector<PublicTime>& known);

/// Time over the public kernel's, each times its run's bandwidth: below 1 = faster.
double ratio_to_public(const LimitCell& cell, double stream_bytes_per_s);

std::string limit_table(const std::vector<LimitCell>& cells, double stream_bytes_per_s);
/// One line a cell, that of its fastest layout, the others' times beside it.
std::string limit_json(const std::vector<LimitCell>& cells, double stream_bytes_per_s,
                       const std::string& commit);

}  // namespace moe::harness
