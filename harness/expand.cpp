#include "harness/expand.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "fixtures/files/checkpoint.hpp"
#include "fixtures/files/models.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"

namespace moe::harness {
namespace {

void override_sizes(const ShapeOverrides& given, MoeShape& shape) {
  if (given.hidden) shape.hidden = *given.hidden;
  if (given.intermediate) shape.intermediate = *given.intermediate;
  if (given.experts) shape.experts = *given.experts;
  if (given.top_k) shape.top_k = *given.top_k;
}

void require_sizes(const ProblemOptions& o) {
  const ShapeOverrides& s = o.shape;
  if (o.op == Op::inv_rope_quant) return;  // has heads, of some size
  if (!o.model.empty() || (s.hidden && s.intermediate && s.experts && s.top_k)) return;
  throw BadInput(
      "no problem given: name a --model (moeproof list models), a --case line, or all of --hidden "
      "--intermediate "
      "--experts --top-k");
}

/// A token's router logits and picks are held whatever is asked; a machine without room for them would be
/// killed.
void require_room(const MoeShape& s) {
  const double bytes = double(s.tokens) * (4.0 * s.experts + 16.0 * s.top_k);
  const double memory = double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
  if (bytes > memory)
    throw BadInput(fmt::format(
        "tokens {}: routing them to {} experts takes {:.0f} GB, this machine has {:.0f}; use fewer", s.tokens,
        s.experts, bytes / 1e9, memory / 1e9));
}

/// Files that are named are read by check; a command that needs none of their bytes still says when they are
/// unreadable.
void require_files(const FileData& files) {
  if (!files.weights_dir.empty()) Checkpoint{files.weights_dir};
  if (!files.activations.empty()) Safetensors{files.activations};
}

Work work_of(Problem problem, const ProblemOptions& o) {
  validate(problem);
  require_room(problem.shape);
  const MoeShape& s = problem.shape;
  const Routing routing = routing_of(problem);
  const ExpertLoad load = routing.load(problem.rank * s.local_experts(), s.local_experts());
  return {problem, choices_for(o.layout, o.choice, problem, load)};
}

}  // namespace

Problem base_problem(const ProblemOptions& o) {
  require_sizes(o);
  Problem p;
  if (!o.model.empty()) {
    const ModelPreset model = load_model(o.model);
    p.model = model.name;
    p.shape = model.shape;
    p.routing.router = model.router;
    p.quant = model.quant;
  }
  override_sizes(o.shape, p.shape);
  p.heads = o.shape.heads;
  if (o.op == Op::inv_rope_quant)
    p.shape = {.experts = 1, .top_k = 1}, p.routing.router = {}, p.model.clear();
  p.shape.tp = o.tp;
  p.shape.ep = o.ep;
  p.rank = o.rank;
  p.op = o.op;
  p.contract = o.contract;
  p.gemm = o.gemm;
  if (o.quant) p.quant = *o.quant;
  p.data = o.data.front();
  p.files = o.files;
  p.seed = o.seed;
  return p;
}

void require_problem(const ProblemOptions& o) {
  if (!o.replay) base_problem(o);
}

std::vector<Work> expand(const ProblemOptions& o, const Shard& shard) {
  if (o.replay) {
    require_room(o.replay->problem.shape);
    require_files(o.replay->problem.files);
    return {{o.replay->problem, {o.replay->choice}}};
  }
  const Problem base = base_problem(o);
  require_files(base.files);
  std::vector<Work> works;
  std::size_t number = 0;
  for (const LoadSpec& load : o.loads) {
    for (const std::int64_t tokens : o.tokens) {
      for (const DataMode data : o.data) {
        if (!shard.owns(number++)) continue;
        Problem p = base;
        p.shape.tokens = tokens;
        p.routing.load = load;
        p.data = data;
        works.push_back(work_of(p, o));
      }
    }
  }
  return works;
}

}  // namespace moe::harness
