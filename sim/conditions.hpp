// Under which conditions is a kernel timed? The card file describes a card that is cool, with weights that
// come from HBM and kernels that a graph launches. `under` gives the card as a kernel finds it under other
// conditions, so that the rest of the model needs no knowledge of them. Bytes, seconds.
#pragma once
#include "fixtures/problem/hardware.hpp"
#include "fixtures/problem/problem.hpp"

namespace moe::sim {

struct Conditions {
  bool warm = false;  // run again and again on the same inputs, caches not flushed: what fits is found in L2
  bool stream = false;  // launched by itself on a stream instead of as a node of a graph
  bool capped =
      false;  // at the card's power limit all the time: the clock of a full tensor load, L2's with it
  bool operator==(const Conditions&) const = default;
};

/// Bytes up to which repeated runs find their inputs in L2: the last footprint at which the card's file has a
/// rate.
double warm_capacity(const Hardware& hardware);

/// `footprint`: bytes that one run reads and writes. A warm footprint up to warm_capacity is read at L2's
/// rate for it and with L2's latency, by the small kernels too; a larger one finds nothing.
Hardware under(Hardware hardware, const Conditions& conditions, double footprint);

/// Weights of the experts with rows, activations in, between and out, of the problem's GEMMs.
double footprint_bytes(const Problem& problem, const ExpertLoad& load);

}  // namespace moe::sim
