// Which constants of a card follow from what its micro-kernels measured? A pure function of the rows: each
// constant names the rows it is made of. Nothing else is asked, so no time of a GEMM or of a MoE layer can
// get in.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "device/calibrate/measured_rows.hpp"

namespace moe::harness {

/// One key of a hardware file (fixtures/problem/hardware.hpp): a number, or the points of a curve.
struct CardConstant {
  std::string key;
  double number = 0;
  std::vector<std::pair<double, double>> points;  // empty: a number
  std::string row;                                // what it rests on
};

struct CardFacts {
  std::string name;  // "NVIDIA H200"
  int sms = 0;
  double l2_bytes = 0;
};

/// Throws BadInput naming the row that is missing.
std::vector<CardConstant> derive_constants(const device::MeasuredRows& rows, int sms);

}  // namespace moe::harness
