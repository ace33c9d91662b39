#include "harness/infer/probes.hpp"

#include <functional>
#include <utility>

#include "fixtures/problem/auto_tile.hpp"
#include "harness/infer/candidates.hpp"
#include "harness/infer/gemm_probes.hpp"
#include "harness/infer/op_probes.hpp"
#include "harness/infer/probe_fill.hpp"

namespace moe::harness {
namespace {

constexpr std::int64_t kTokens = 6;

/// Ids and weights are inputs of the layer, so that no router stands between the probe and what it asks.
Case probe_case(Case c, std::int64_t tokens = kTokens) {
  Problem& p = c.problem;
  p.model.clear();
  p.shape.tokens = tokens;
  p.routing = {};
  p.routing.load.kind = LoadKind::trace;
  p.routing.load.path = "probe";
  p.data = DataMode::normal;
  p.files = {};
  p.seed = 1;
  c.choice = resolve_tiles(c.choice, c.problem, ExpertLoad{{tokens}});  // where the caller left them open
  return c;
}

std::vector<Probe> make_layer_probes(const Case& c);

}  // namespace

Case small_case(const Case& c) {
  Case small = probe_case(c);
  MoeShape& s = small.problem.shape;
  s.tp = s.ep = 1;
  small.problem.rank = 0;
  s.hidden = c.problem.quant.block() ? 640 : 1152;  // a last group of 128 for constants; chains of 512 twice
  s.intermediate = 256;
  const bool gemm = small.problem.op == Op::grouped_gemm;
  // what is summed or quantised is the longer
  if ((gemm && c.problem.gemm == 2) || small.problem.op == Op::act_quant)
    std::swap(s.hidden, s.intermediate);
  else if (gemm)
    s.intermediate = 128;
  s.experts = 4;
  s.top_k = s.top_k == 1 ? 1 : gemm ? 2 : 3;
  s.shared_experts = 0;
  return small;
}

Case own_case(const Case& c) { return probe_case(c); }

Case full_case(const Case& c) { return probe_case(c, c.problem.shape.tokens); }

std::vector<Probe> make_probes(const Case& c) {
  if (c.problem.op == Op::grouped_gemm) return make_gemm_probes(c);
  return c.problem.op == Op::moe_layer ? make_layer_probes(c) : make_op_probes(c);
}

namespace {

std::vector<Probe> make_layer_probes(const Case& c) {
  const QuantScheme& q = c.problem.quant;
  std::vector<Probe> probes;
  const auto add = [&](const std::string& name, bool one_hot, const std::function<void(ProbeInputs&)>& fill) {
    ProbeInputs in(c, 0x51ED + probes.size());
    fill(in);
    probes.push_back({name, c, std::move(in.tensors), one_hot});
  };
  const auto add_each = [&](const std::string& name, bool one_hot, int count,
                            void (*fill)(ProbeInputs&, int)) {
    for (int i = 0; i < count; ++i)
      add(count == 1 ? name : name + " " + std::to_string(i + 1), one_hot,
          [&](ProbeInputs& in) { fill(in, i); });
  };
  add("gates", true, fill_gates);
  // one scale a layer: one amax a run
  if (!exact_scales(c.problem))
    add_each("ties", true, q.kind == QuantKind::tensor_dynamic ? 4 : 1, fill_ties);
  if (q.kind != QuantKind::tensor_static)
    add_each("tiny", true, q.kind == QuantKind::tensor_dynamic ? 2 : 1, fill_tiny);
  if (c.problem.shape.top_k > 1) add("combine", true, fill_combine);
  add("chains", false, fill_chains);
  if (!exact_scales(c.problem)) add_each("orders", false, q.tensor() ? 3 : 1, fill_orders);
  add("rounding", false, fill_rounding);
  add("ordinary", false, fill_ordinary);
  return probes;
}

}  // namespace

}  // namespace moe::harness
