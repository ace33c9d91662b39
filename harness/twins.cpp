#include "harness/twins.hpp"

#include <fmt/format.h>

#include "fixtures/problem/errors.hpp"
#include "harness/exact_twin.hpp"
#include "harness/scales_twin.hpp"

namespace moe::harness {
namespace {

/// Bytes of weights that are drawn once more for a twin.
constexpr double kMostWeights = 1e9;
/// Those of a layer that shows `out` alone: they are read once for each set of roundings.
constexpr double kMostWeightsCarried = 1e8;

/// What a scales twin shows.
std::string factors(const Twin& twin) {
  return std::string("scales, routing weights or subnormal codes that are not kept whole") +
         (twin.pairs ? ", or sums that are rounded before their scales multiply them" : "");
}

const char* products(const Twin& twin) {
  return twin.pairs ? "one or two products a sum" : "one product a sum";
}

/// Elements with more than one right value, where they are many.
std::string open_text(const Verdict& v) {
  const double share = v.checked > 0 ? double(v.open) / double(v.checked) : 0;
  return share < 0.05
             ? ""
             : fmt::format(" ({:.0f} % of its elements have more than one right value)", 100 * share);
}

bool sums_products(Op op) { return op == Op::moe_layer || op == Op::grouped_gemm; }

double weight_bytes(const Problem& p) {
  const MoeShape& s = p.shape;
  const double first = double(s.up_rows()) * double(s.hidden), experts = double(s.local_experts());
  const double second = double(s.local_intermediate()) * double(s.hidden);
  if (p.op == Op::grouped_gemm) return experts * (p.gemm == 1 ? first : second);
  return experts * (first + second);
}

std::string obstacle_of(const Problem& p, bool carried) {
  if (weight_bytes(p) > (carried ? kMostWeightsCarried : kMostWeights))
    return carried ? "its weights exceed 100 MB" : "its weights exceed 1 GB";
  try {
    validate(p);
    return "";
  } catch (const BadInput& e) {
    return e.what();
  }
}

}  // namespace

std::vector<Twin> twins_of(const Case& c, const Verdict& v) {
  const bool passes = v.correctness == Correctness::passed;
  const bool carried =
      v.judged_by.starts_with("interval carried") && (passes || v.correctness == Correctness::mistrusted);
  const bool by_bounds = passes && v.judged_by.ends_with("probable bound");
  const bool designed = c.problem.data == DataMode::exact || c.problem.data == DataMode::coded;
  if (!(by_bounds || carried) || designed || !sums_products(c.problem.op)) return {};
  std::vector<Twin> twins;
  if (by_bounds) twins.push_back({TwinKind::exact, exact_twin(c), ""});
  twins.push_back({TwinKind::scales, scales_twin(c), "", !carried});
  for (Twin& twin : twins) twin.obstacle = obstacle_of(twin.trial.problem, carried);
  return twins;
}

TensorSet twin_inputs(const Twin& twin, const Routing& routing, int threads) {
  return twin.kind == TwinKind::exact ? exact_twin_inputs(twin.trial, routing, threads)
                                      : scales_twin_inputs(twin.trial, routing, twin.pairs, threads);
}

Verdict with_twin(Verdict v, const Twin& twin, const Verdict& on_twin) {
  const bool exact = twin.kind == TwinKind::exact;
  if (on_twin.correctness != Correctness::passed && on_twin.correctness != Correctness::mistrusted) {
    Verdict wrong = on_twin;
    wrong.reason = fmt::format("within bounds on its own data, wrong in the same case with {}: {}",
                               exact ? "exact data, which leave one answer"
                                     : fmt::format("{}, which shows {}", products(twin), factors(twin)),
                               on_twin.reason);
    return wrong;
  }
  if (!exact && 2 * on_twin.open > on_twin.checked)
    return without_twin(std::move(v), twin, "most of its elements have more than one right value");
  if (!exact && on_twin.correctness == Correctness::passed)
    v.reason += fmt::format("; its factors{}, by {} at this size: whole, within 16 fp32 roundings{}",
                            twin.pairs ? " and sums" : "", products(twin), open_text(on_twin));
  else if (!exact)
    return without_twin(std::move(v), twin, on_twin.reason);
  else if (on_twin.judged_by == "bits" || on_twin.judged_by.starts_with("bits and"))
    v.reason += "; its sums on exact data of this size, whose scales are powers of two: to the bit";
  return v;
}

Verdict without_twin(Verdict v, const Twin& twin, const std::string& why) {
  const bool exact = twin.kind == TwinKind::exact;
  v.reason += fmt::format("{}not excluded here: {} (no run {}: {})", v.reason.empty() ? "" : "; ",
                          exact ? "a small factor on the sums, or results that are cut" : factors(twin),
                          exact ? "on exact data" : fmt::format("with {}", products(twin)), why);
  return v;
}

}  // namespace moe::harness
