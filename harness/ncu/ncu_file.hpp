// What did Nsight Compute count, launch by launch? Two forms of file: what `ncu --csv` prints (a line a
// metric, words of the profiled program between them), and a table of a line a launch with the columns
// layout, stage and counts (fixtures/measured/h200_ncu.csv).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moe::harness {

/// The metrics that `profile` asks for, as Nsight Compute names them.
namespace metric {
inline constexpr std::string_view kTensorInstructions = "sm__inst_executed_pipe_tensor.sum",
                                  kTensorActive =
                                      "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
                                  kDramRead = "dram__bytes_read.sum", kDramWrite = "dram__bytes_write.sum",
                                  kL2Bytes = "lts__t_bytes.sum", kTime = "gpu__time_duration.sum",
                                  kSharedLoads =
                                      "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
                                  kSharedStores =
                                      "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
                                  kSharedAll = "memory_l1_wavefronts_shared",
                                  kSharedIdeal = "memory_l1_wavefronts_shared_ideal";
}  // namespace metric

struct NcuLaunch {
  int id = 0;
  std::string kernel;         // as ncu names it
  std::string layout, stage;  // of a table; empty in ncu's own form
  std::map<std::string, double, std::less<>>
      metrics;  // in base units: bytes, seconds, instructions, per cent

  std::optional<double> value(std::string_view name) const;
  /// Passes of loads and stores of shared memory. The counters by instruction: those of the whole pipe
  /// (l1tex__data_pipe_lsu_..) hold waits on mbarriers and what TMA and wgmma get in the way too.
  std::optional<double> shared_passes() const;
  /// Passes beyond the least.
  std::optional<double> bank_conflicts() const;
};

/// In the order of launches. Throws BadInput "WHERE ...: ..." on what is neither form.
std::vector<NcuLaunch> parse_ncu(std::string_view text, std::string_view where);

/// The words of the ncu command that counts `case_line` run by `program` on the card.
std::vector<std::string> ncu_command(const std::string& program, const std::string& case_line);

}  // namespace moe::harness
