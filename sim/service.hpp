// What does the time of a MoE layer mean for a service? A step of all layers: the MoE layers' time is a
// prediction with its interval, the other layers are bytes and FLOP over what the card reaches of its rates,
// all-reduces over NVLink, and what the host adds. Every number that is no count is an assumption with a
// least and a most; they stand in ServiceAssumptions and are printed. Seconds.
#pragma once
#include <cstdint>

#include "fixtures/problem/hardware.hpp"
#include "sim/service_models.hpp"

namespace moe::sim {

/// least <= middle <= most.
struct Range {
  double least = 0, middle = 0, most = 0;
  bool holds(double x) const { return x >= least && x <= most; }
};
Range operator+(const Range& a, const Range& b);
Range operator*(double factor, const Range& r);

struct ServiceAssumptions {
  Range weight_bytes{1, 1, 1};         // an element of the other layers' weights
  Range efficiency{0.55, 0.75, 0.95};  // of the rate of HBM, or of the tensor cores, that they reach
  Range kernels{4, 8, 14};             // launches of one layer besides its MoE, as graph nodes
  Range all_reduce_latency{6e-6, 10e-6, 20e-6};
  Range nvlink{280e9, 360e9,
               430e9};  // bytes/s of 450e9 in one direction (NVIDIA H200 data sheet: 900 GB/s both ways)
  Range host{1e-4, 5e-4, 2e-3};  // a step: scheduling and sampling that no kernel hides
  Range eager{0, 0, 0};          // seconds a launch where a step is no graph (prefill)
};

struct ServiceLoad {
  double sequences = 1;  // whose tokens a step computes
  double tokens = 1;     // of one sequence in the step: 1 decodes, a prompt's length prefills
  double context = 0;    // tokens behind each sequence
  int tp = 1;
};

struct StepTime {
  Range moe, attention, dense, other, head, all_reduce, host, total;
  Range share;  // of the MoE layers in the step
};

/// `moe_layer`: seconds of one routed MoE layer at sequences * tokens tokens.
StepTime step_time(const ServiceModel& model, const ServiceLoad& load, const Range& moe_layer,
                   const Hardware& hardware, const ServiceAssumptions& assumptions);

/// How much faster a step becomes when its MoE layers take 1 / (1 + gain) of their time: old / new - 1.
double step_gain(double share, double layer_gain);
Range step_gain(const Range& share, const Range& layer_gain);

}  // namespace moe::sim
