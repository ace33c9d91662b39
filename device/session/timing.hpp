// How long does a pipeline take on a machine? Whole op and stage by stage, warm or with weights that L2
// cannot hold.
#pragma once
#include "device/executor.hpp"
#include "device/machine.hpp"
#include "device/session/pipeline.hpp"

namespace moe::device {

/// One sample is the mean of several runs back to back between two events, so that what the host needs to
/// launch them hides behind the run in front. Cold: the runs rotate over weight sets of which all but one
/// exceed twice the largest L2 of sm_90, so a run finds none of its weights there; activations stay warm, as
/// they do in a model. A stage's sample repeats that stage alone. `seconds` stays empty where the machine has
/// no clock. sm_clock_hz is the median of readings while the whole op was sampled.
Measurement time_pipeline(Machine& machine, Pipeline& pipeline, const TimingPlan& plan);

/// Weight sets that keep `bytes` of weights a run out of an L2 of kLargestL2Bytes.
int weight_sets_for(std::int64_t bytes);

}  // namespace moe::device
