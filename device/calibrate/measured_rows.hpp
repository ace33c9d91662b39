// What did the micro-kernels measure? One row a kernel and setting: a number with its unit. The rows are all
// that the constants of a card are made of (harness/calibrate).
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moe::device {

struct MeasuredRow {
  std::string kernel;                                      // a name of calibrate_kernels.hpp
  std::vector<std::pair<std::string, double>> parameters;  // in the order of the table
  double value = 0;
  std::string unit;  // cycles, s, bytes/s, bytes/cycle, Hz
};

class MeasuredRows {
 public:
  using Parameters = std::vector<std::pair<std::string, double>>;

  void add(std::string_view kernel, Parameters parameters, double value, std::string unit) {
    rows_.push_back({std::string(kernel), std::move(parameters), value, std::move(unit)});
  }
  const std::vector<MeasuredRow>& all() const { return rows_; }

  /// The first row of `kernel` in `unit` with all of these parameters; null where there is none.
  const MeasuredRow* find(std::string_view kernel, std::string_view unit, const Parameters& parameters) const;

 private:
  std::vector<MeasuredRow> rows_;
};

/// "kernel,parameters,value,unit" lines with a head; parameters are name=value, joined by spaces.
std::string to_csv(const MeasuredRows& rows);
/// Reads them back; throws BadInput "WHERE:LINE: ..." on what is no such line.
MeasuredRows parse_measured_rows(std::string_view csv, std::string_view where);

}  // namespace moe::device
