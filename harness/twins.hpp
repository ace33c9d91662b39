// What does a pass by bounds not show, and which data show it? Such a case is run again on data of its size
// that leave less room (its twins), and its verdict says what came of it: a twin that is wrong is the
// verdict, one that could not be run is named with the reason and with what is therefore not proven.
#pragma once
#include <string>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/routing.hpp"
#include "fixtures/problem/tensor.hpp"
#include "fixtures/problem/verdict.hpp"

namespace moe::harness {

enum class TwinKind {
  exact,  // sums that every right kernel gives to the bit: a factor of 1.005, results that are cut
          // (exact_twin)
  scales  // one or two products a sum under scales of 24 bits: factors and sums that are not kept whole
          // (scales_twin)
};

struct Twin {
  TwinKind kind = TwinKind::exact;
  Case trial;
  std::string obstacle;  // why it is not run; empty = it is
  bool pairs = false;    // of a scales twin: sums of two products, too
};

/// Empty where `v` is no pass by bounds, where the data are designed already or where no products are summed.
/// A layer that shows `out` alone has no exact twin: exact data leave it no one answer.
std::vector<Twin> twins_of(const Case& c, const Verdict& v);

TensorSet twin_inputs(const Twin& twin, const Routing& routing, int threads);

/// `v`, which passed by bounds, with what the twin's verdict says: a twin that is wrong is the verdict.
Verdict with_twin(Verdict v, const Twin& twin, const Verdict& on_twin);
/// `v` of a case whose twin was not run, because of `why`.
Verdict without_twin(Verdict v, const Twin& twin, const std::string& why);

}  // namespace moe::harness
