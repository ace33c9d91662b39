// How far may a measured time lie from a prediction? Relative, both sides.
#pragma once
#include "fixtures/problem/prediction.hpp"

namespace moe::sim {

/// Widths by what a part is. They are the model's own errors on the layers of fixtures/measured (H200, three
/// models, 13 token counts, three layouts), of which 94 % lie within the sum; no time is taken from there. A
/// GEMM that HBM limits is known best; what the others wait for (L2, issue slots, the clock) is known less;
/// of the small kernels the model has the floor and the bytes, and they took up to 2.5 times that.
constexpr double kHbmGemmWidth = 0.15, kOtherGemmWidth = 0.35, kSmallKernelWidth = 1.5;

/// A gain is the ratio of two predictions whose errors mostly cancel: nine of ten measured gains lie within
/// this of it.
constexpr double kGainWidth = 0.12;

/// Of the parts' widths, weighted by their seconds; errors are taken to add, since the model errs on one
/// side. 0 where nothing is launched.
double uncertainty(const Prediction& prediction);

}  // namespace moe::sim
