#include "harness/propose.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>

#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

using rc::Gen;
namespace gen = rc::gen;

/// An even draw whatever the size: RapidCheck's own inRange stays at its begin while the size is small, and
/// the ranges here grow with the trial by themselves.
template <class T>
Gen<T> pick(T begin, T end) {
  return gen::resize(rc::kNominalSize, gen::inRange<T>(begin, end));
}

/// Where kernels break: nothing, one row, one more or less than a tile, several tiles.
Gen<std::int64_t> tokens(int size) {
  const std::int64_t most = 4 + size;
  return gen::map(gen::weightedOneOf<std::int64_t>(
                      {{6, pick<std::int64_t>(1, most + 1)},
                       {3, gen::map(gen::tuple(gen::element<std::int64_t>(8, 16, 32, 64, 128),
                                               gen::element<std::int64_t>(-1, 0, 1)),
                                    [](const auto& t) { return std::get<0>(t) + std::get<1>(t); })},
                       {1, gen::element<std::int64_t>(0, 1)}}),
                  [most](std::int64_t t) { return std::min(t, 2 * most); });
}

/// A multiple of `unit` up to `units` of them.
Gen<std::int64_t> multiple(std::int64_t unit, int units) {
  return gen::map(pick(1, units + 1), [unit](int n) { return unit * n; });
}

Gen<LoadSpec> load() {
  return gen::map(gen::tuple(pick(0, 5), pick(1, 10)), [](const std::tuple<int, int>& t) {
    const auto [kind, tenths] = t;
    LoadSpec spec;
    spec.kind = LoadKind(kind);
    const bool parameter =
        spec.kind == LoadKind::zipf || spec.kind == LoadKind::hot || spec.kind == LoadKind::empty;
    spec.parameter = parameter ? tenths / (spec.kind == LoadKind::zipf ? 5.0 : 10.0) : 0;
    return spec;
  });
}

/// Block scales, the most used, have every second turn of three trials.
constexpr std::array kTurns{QuantKind::block128,      QuantKind::tensor_static, QuantKind::block128,
                            QuantKind::token_channel, QuantKind::block128,      QuantKind::tensor_dynamic};

QuantScheme quant_of(const ProposalFrame& frame, QuantKind kind, bool power_of_two) {
  if (frame.quant_given) return frame.quant;
  QuantScheme q;
  q.kind = kind;
  q.scale_format = power_of_two && q.block() ? ScaleFormat::ue8m0 : ScaleFormat::f32;
  return q;
}

/// Grouped routers need groups of at least two experts, and enough of them for top_k
/// (fixtures/problem/problem.hpp).
Gen<RouterSpec> router(const MoeShape& s) {
  return gen::exec([s] {
    RouterSpec r;
    r.kind = RouterKind(*pick(0, int(RouterKind::topk_softmax) + 1));
    if (r.kind == RouterKind::top1_sigmoid && s.top_k > 1) r.kind = RouterKind::softmax;
    const bool grouped = r.kind == RouterKind::softmax_grouped || r.kind == RouterKind::sigmoid_grouped;
    if (grouped && s.experts % 4 == 0) {
      r.groups = s.experts / 4;
      const int least = (s.top_k + 3) / 4;
      r.topk_groups = *pick(std::min(least, r.groups), r.groups + 1);
    }
    r.renormalise = *pick(0, 2) == 1;
    r.scale = *gen::element(1.0, 2.5);
    return r;
  });
}

void choose_activation(MoeShape& s) {
  s.activation = Activation(*pick(0, int(Activation::relu2) + 1));
  if (s.activation == Activation::silu_mul_clamped) s.limit = 7, s.alpha = 1.702, s.beta = 1;  // GPT-OSS
  s.bias = *pick(0, 4) == 0;
  s.weight_on_input = s.top_k == 1 && *pick(0, 2) == 0;
}

bool exists(const Problem& p) {
  try {
    validate(p);
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

/// Whole layers, and one trial in four a grouped GEMM of the next contract, where the user named no op.
void choose_op(Problem& p, const ProposalFrame& frame, int trial) {
  p.op = frame.op, p.contract = frame.contract, p.gemm = frame.gemm;
  if (frame.op_given || trial % 4 != 3) return;
  p.op = Op::grouped_gemm;
  p.contract = frame.contracts.empty() ? Contract(trial / 4 % 4)
                                       : frame.contracts[std::size_t(trial / 4) % frame.contracts.size()];
  p.gemm = 1 + *pick(0, 2);
}

/// Columns: mostly a few units; one draw in six is long enough to go round a pipeline of stages.
std::int64_t width(std::int64_t unit, std::int64_t few) {
  const std::int64_t units = *pick(0, 6) == 0 ? 10 * 128 / unit : few;
  return *multiple(unit, int(units));
}

Gen<Problem> problem(const ProposalFrame& frame, int size, int trial) {
  return gen::exec([frame, size, trial] {
    Problem p;
    choose_op(p, frame, trial);
    const std::size_t turn = std::size_t(trial / 3);
    const QuantKind kind =
        frame.quants.empty() ? kTurns[turn % kTurns.size()] : frame.quants[turn % frame.quants.size()];
    p.quant = quant_of(frame, kind, *pick(0, 4) == 0 && !frame.plain);
    MoeShape& s = p.shape;
    s.experts = *pick(1, 4 + size / 4);
    s.top_k = *pick(1, std::min(s.experts, 8) + 1);
    s.ep = s.experts % 2 == 0 && *pick(0, 4) == 0 ? 2 : 1;
    p.rank = s.ep == 2 ? *pick(0, 2) : 0;
    const std::int64_t unit = p.quant.block() ? 128 : 16;
    s.hidden = width(unit, p.quant.block() ? 3 : 24);
    s.intermediate = width(unit, p.quant.block() ? 3 : 24);
    if (!frame.plain) choose_activation(s);
    p.routing.router = *router(s);
    s.tokens = *tokens(size);
    p.routing.load = *load();
    p.data = DataMode(*gen::weightedElement<int>({{5, int(DataMode::normal)},
                                                  {2, int(DataMode::exact)},
                                                  {2, int(DataMode::nasty)},
                                                  {1, int(DataMode::coded)},
                                                  {1, int(DataMode::impulse)}}));
    // A few nasty rows may all be zero, and such a trial proves nothing.
    // So may squares of a dead expert's outputs (relu2 of 1e-23).
    if (p.data == DataMode::nasty && (s.tokens < 8 || s.activation == Activation::relu2))
      p.data = DataMode::normal;
    p.seed = *pick<std::uint64_t>(1, 1'000'000);
    if (!exists(p)) p.routing = RoutingSpec{};  // too few experts left for top_k, or groups too small
    return p;
  });
}

Gen<Choice> choice(const ProposalFrame& frame, int trial) {
  return gen::exec([frame, trial] {
    Choice c;
    c.kernel = frame.kernel;
    c.layout = Layout(2 - trial % 3);  // every layout in any three trials
    static const std::vector<int> blocks[3] = {{16, 32}, {64, 128}, {8, 16, 32, 64, 128}};
    const auto& legal = blocks[int(c.layout)];
    if (*pick(0, 3) > 0) c.tile = {.block_m = legal[*pick<std::size_t>(0, legal.size())], .block_n = 128};
    if (c.tile.block_m == legal[0] && *pick(0, 2) > 0) c.tile.block_n = 64;
    return c;
  });
}

}  // namespace

Case propose_case(const ProposalFrame& frame, std::uint64_t seed, int trial) {
  const int size = std::min(4 + trial, 100);
  const rc::Random random = rc::Random(seed).split();
  rc::Random own = random;
  for (int i = 0; i < trial; ++i) own = own.split();
  Case c;
  c.problem = problem(frame, size, trial)(own, size).value();
  rc::Random other = own.split();
  c.choice = choice(frame, trial)(other, size).value();
  const MoeShape& s = c.problem.shape;
  const Routing routing = make_routing(c.problem.routing, s, c.problem.seed);
  c.choice =
      resolve_tiles(c.choice, c.problem, routing.load(c.problem.rank * s.local_experts(), s.local_experts()));
  return c;
}

}  // namespace moe::harness
