#include "harness/propose.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <cmath>

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

/// Where kernels break: nothing, one row, one more or less than a tile, several tiles. An idle rank has few
/// ways to fail, and is drawn a little more often where a kernel of this program may have them all.
Gen<std::int64_t> tokens(int size, bool plain) {
  const std::int64_t most = 4 + size;
  const std::size_t times = plain ? 1 : 2;
  return gen::map(gen::weightedOneOf<std::int64_t>(
                      {{6 * times, pick<std::int64_t>(1, most + 1)},
                       {3 * times, gen::map(gen::tuple(gen::element<std::int64_t>(8, 16, 32, 64, 128),
                                                       gen::element<std::int64_t>(-2, -1, 0, 1, 2)),
                                            [](const auto& t) { return std::get<0>(t) + std::get<1>(t); })},
                       {2 * times - 1, gen::element<std::int64_t>(0, 1)}}),
                  [most](std::int64_t t) { return std::min(t, 2 * most); });
}

/// A multiple of `unit` up to `units` of them.
Gen<std::int64_t> multiple(std::int64_t unit, int units) {
  return gen::map(pick(1, units + 1), [unit](int n) { return unit * n; });
}

/// Empty experts at the front, at the end, in the middle; all but as many as a token needs.
void choose_range(LoadSpec& spec, const MoeShape& s) {
  const int kind = *pick(0, 4), last = s.experts - 1;
  spec.kind = kind == 3 ? LoadKind::only : LoadKind::except;
  spec.first = kind == 0 ? 0 : kind == 1 ? last : *pick(0, s.experts);
  spec.last = spec.first;
  if (kind == 3) {
    spec.first = std::max(0, std::min(spec.first, s.experts - s.top_k));
    spec.last = spec.first + s.top_k - 1;
  }
}

Gen<LoadSpec> load(const MoeShape& s) {
  return gen::exec([s] {
    LoadSpec spec;
    const int kind = *pick(0, 7), tenths = *pick(1, 11);
    if (kind >= 5) {
      choose_range(spec, s);
      return spec;
    }
    spec.kind = LoadKind(kind);
    if (spec.kind == LoadKind::zipf) spec.parameter = tenths / 5.0;
    if (spec.kind == LoadKind::hot) spec.parameter = tenths / 10.0;
    if (spec.kind == LoadKind::empty) spec.parameter = std::min(tenths, 9) / 10.0;
    return spec;
  });
}

/// A grouped router with as many slots as its kept groups have experts, most of them dead: a group that was
/// masked wrongly then wins.
void choose_scarce_groups(Problem& p) {
  RouterSpec& r = p.routing.router;
  MoeShape& s = p.shape;
  s.experts = 4 * *pick(2, 9);
  r = RouterSpec{};
  r.kind = *pick(0, 4) > 0 ? RouterKind::sigmoid_grouped : RouterKind::softmax_grouped;
  r.groups = s.experts / 4;
  r.topk_groups = r.groups > 4 ? *pick(1, 3) : 1;
  r.scale = 2.5;
  s.top_k = 4 * r.topk_groups;
  p.routing.load = LoadSpec{};
  p.routing.load.kind = LoadKind::empty;
  p.routing.load.parameter = std::floor(10.0 * (s.experts - s.top_k) / s.experts) / 10;  // as many as may be
  p.routing.logits = LogitKind::drawn;
}

/// The router by itself costs little: each fourth case has scarce groups, experts at the edges of the bodies
/// that routers are built with, NaN, or equal logits, and tokens enough to show it.
void choose_router_case(Problem& p, int turn) {
  MoeShape& s = p.shape;
  s.weight_on_input = false;
  s.tokens = std::max<std::int64_t>(s.tokens, 8);
  if (turn % 4 == 0) return choose_scarce_groups(p);
  if (turn % 4 == 1 || (turn % 4 == 2 && *pick(0, 2) == 0))
    s.experts = *gen::element(33, 65, 72, 96, 100, 112, 127, 128, 129, 256);
  if (turn % 4 == 2) p.routing.logits = LogitKind::nan;
  if (turn % 4 == 3) p.routing.logits = *gen::element(LogitKind::equal, LogitKind::ties);
  s.ep = 1, p.rank = 0;
  s.experts = std::max(s.experts, 2);
  s.top_k = std::min(s.top_k, s.experts);
  p.routing.router.groups = p.routing.router.topk_groups = 1;
  if (s.experts >= 64) p.routing.load = LoadSpec{};
}

/// Ties, NaN and negative logits; slots without an expert, stale bits, an expert twice. The contract of other
/// people's kernels knows -1 and no more.
void choose_ids(Problem& p, const ProposalFrame& frame) {
  p.routing.logits = LogitKind(*gen::weightedElement<int>({{p.op == Op::topk ? 4 : 12, int(LogitKind::drawn)},
                                                           {1, int(LogitKind::ties)},
                                                           {1, int(LogitKind::equal)},
                                                           {1, int(LogitKind::negative)},
                                                           {1, int(LogitKind::nan)}}));
  const bool behind = p.op != Op::topk && p.op != Op::quantize;
  const int kind = *gen::weightedElement<int>({{8, int(IdKind::routed)},
                                               {1, int(IdKind::given)},
                                               {1, int(IdKind::none)},
                                               {1, int(IdKind::stale)},
                                               {1, int(IdKind::twice)}});
  if (!behind || (frame.plain && IdKind(kind) > IdKind::none)) return;
  if (IdKind(kind) == IdKind::twice && p.shape.top_k < 2) return;
  p.routing.ids = IdKind(kind);
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
    if (s.weight_on_input && *pick(0, 2) == 0) r.kind = RouterKind::top1_sigmoid;
    const bool grouped = r.kind == RouterKind::softmax_grouped || r.kind == RouterKind::sigmoid_grouped;
    if (grouped && s.experts % 4 == 0 && s.experts <= 128) {
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
  s.bias = *pick(0, 3) == 0;
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

/// Of sixteen trials seven are whole layers, four grouped GEMMs of the next contract, two the router, two
/// another op by itself and one inv_rope_quant, where the user named none; somebody else's kernel is asked
/// with layers and grouped GEMMs.
void choose_op(Problem& p, const ProposalFrame& frame, int trial) {
  constexpr std::array kSmall{Op::align, Op::quantize, Op::act_quant, Op::combine};
  p.op = frame.op, p.contract = frame.contract, p.gemm = frame.gemm;
  if (frame.op_given) return;
  if (trial % 8 == 1 && !frame.plain) p.op = Op::topk;
  if (trial % 8 == 5 && !frame.plain) p.op = kSmall[std::size_t(trial / 8) % kSmall.size()];
  if (trial % 16 == 14 && !frame.plain) p.op = Op::inv_rope_quant;
  if (trial % 4 != 3) return;
  p.op = Op::grouped_gemm;
  p.contract = frame.contracts.empty() ? Contract(trial / 4 % 4)
                                       : frame.contracts[std::size_t(trial / 4) % frame.contracts.size()];
  p.gemm = 1 + *pick(0, 2);
}

/// Columns: mostly a few units; one draw in eight goes once round a pipeline of stages (6, 8, 12 or 16 of 128
/// columns), mostly by one. A ragged one in two is no multiple of 16, so that rows lie further apart than
/// they are wide.
std::int64_t width(std::int64_t unit, std::int64_t few, bool ragged) {
  std::int64_t whole = *multiple(unit, int(few));
  if (*pick(0, 8) == 0)
    whole = 128 * *gen::weightedElement<std::int64_t>({{2, 6}, {4, 7}, {2, 8}, {6, 9}, {1, 13}, {1, 17}});
  return ragged && *pick(0, 2) == 0 ? whole - *pick<std::int64_t>(1, unit) : whole;
}

/// Few experts, where all rows crowd, as often as many.
int expert_count(int size) { return *pick(0, 3) == 0 ? *pick(1, 4) : *pick(1, 4 + size / 4); }

/// align by itself, in turn: experts of another rank, and more ids than are ranked (128) or counted by one
/// warp (2048), which each second case has.
void choose_align_case(Problem& p, int turn) {
  MoeShape& s = p.shape;
  if (turn % 2 == 0) {
    s.experts = 2 * s.experts;
    s.ep = 2, p.rank = *pick(0, 2);
  }
  if (turn % 4 == 2) s.tokens = 136 / s.top_k;
  if (turn % 2 == 1) s.tokens = *gen::element<std::int64_t>(2056, 2300, 2600) / s.top_k;
}

/// Two ranks: what belongs to another one must be skipped, and ids count from the first expert of this one.
/// Of the contracts only `routed` has rows of other ranks' experts: each second of its cases has some.
void choose_ranks(Problem& p, const ProposalFrame& frame) {
  MoeShape& s = p.shape;
  const bool routed = p.op == Op::grouped_gemm && p.contract == Contract::routed;
  if (frame.plain) {
    s.ep = s.experts % 2 == 0 && *pick(0, 4) == 0 ? 2 : 1;
  } else if (*pick(0, routed ? 2 : 4) == 0) {
    s.experts += s.experts % 2;
    s.ep = 2;
  }
  p.rank = s.ep == 2 ? *pick(0, 2) : 0;
}

/// combine by itself: each second case on one of two ranks, in turn.
void choose_combine_case(Problem& p, int turn) {
  if (turn % 2 != 0) return;
  p.shape.experts += p.shape.experts % 2;
  p.shape.ep = 2, p.rank = turn / 2 % 2;
}

/// inv_rope_quant has heads instead of experts, and one scheme whose scales have two formats, in turn.
void choose_heads(Problem& p, bool quant_given, int turn) {
  p.shape = {.tokens = p.shape.tokens, .experts = 1, .top_k = 1};
  p.routing = RoutingSpec{};
  p.rank = 0;
  p.quant.kind = QuantKind::block128;
  if (!quant_given) p.quant.scale_format = turn % 2 == 0 ? ScaleFormat::f32 : ScaleFormat::ue8m0;
  p.heads.groups = *pick(1, 5);
  p.heads.heads = p.heads.groups * *pick(1, 6);
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
    s.experts = expert_count(size);
    s.top_k = *pick(0, 4) == 0 ? 1 : *pick(1, std::min(s.experts, 8) + 1);
    choose_ranks(p, frame);
    const std::int64_t unit = p.quant.block() ? 128 : 16, few = p.quant.block() ? 3 : 24;
    const bool ragged = !p.quant.block() && !frame.plain;
    s.hidden = width(unit, few, ragged);
    s.intermediate = width(unit, few, ragged);
    if (!frame.plain) choose_activation(s);
    p.routing.router = *router(s);
    s.tokens = *tokens(size, frame.plain);
    p.routing.load = *load(s);
    choose_ids(p, frame);
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
    const int round = frame.op_given ? trial : trial / 8;
    if (p.op == Op::topk) choose_router_case(p, round);
    if (p.op == Op::align) choose_align_case(p, frame.op_given ? round : round / 4);
    if (p.op == Op::quantize) p.routing.logits = LogitKind::drawn;
    if (p.op == Op::combine && !frame.plain) choose_combine_case(p, frame.op_given ? round : round / 4);
    if (p.op == Op::inv_rope_quant) choose_heads(p, frame.quant_given, frame.op_given ? trial : trial / 16);
    if (!exists(p)) p.routing = RoutingSpec{};  // too few experts left for top_k, or groups too small
    return p;
  });
}

/// Tokens of the tiles that each layout has.
const std::vector<int>& blocks_of(Layout layout) {
  static const std::vector<int> blocks[3] = {{16, 32}, {64, 128}, {8, 16, 32, 64, 128}};
  return blocks[int(layout)];
}

/// `two_gemms`: the second may have a tile of its own.
Gen<Choice> choice(const ProposalFrame& frame, int trial, bool two_gemms) {
  return gen::exec([frame, trial, two_gemms] {
    Choice c;
    c.kernel = frame.kernel;
    c.layout = Layout(2 - trial % 3);  // every layout in any three trials
    const auto& legal = blocks_of(c.layout);
    const auto any = [&] {
      return TileConfig{.block_m = legal[*pick<std::size_t>(0, legal.size())], .block_n = 128};
    };
    if (*pick(0, 3) > 0) c.tile = any();
    if (c.tile.block_m == legal[0] && *pick(0, 2) > 0) c.tile.block_n = 64;
    if (c.tile.block_m > 0 && two_gemms && *pick(0, 3) == 0) c.tile_down = any();
    return c;
  });
}

/// splitmix64: every trial has bits of its own, whatever came before it.
std::uint64_t seed_of(std::uint64_t seed, int trial) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15u * (std::uint64_t(trial) + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Every tile of a layout: the smallest number of tokens has half the columns too.
std::vector<TileConfig> tiles_of(Layout layout) {
  std::vector<TileConfig> tiles{{.block_m = blocks_of(layout).front(), .block_n = 64}};
  for (const int block_m : blocks_of(layout)) tiles.push_back({.block_m = block_m, .block_n = 128});
  return tiles;
}

template <class T>
bool is_among(const std::vector<T>& allowed, T value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

}  // namespace

bool fits(const ProposalFrame& frame, const Case& c) {
  const Problem& p = c.problem;
  const bool gemm = p.op == Op::grouped_gemm;
  if (frame.op_given && p.op != frame.op) return false;
  if (frame.op_given && gemm && (p.contract != frame.contract || p.gemm != frame.gemm)) return false;
  if (frame.quant_given && !(p.quant == frame.quant)) return false;
  if (!is_among(frame.quants, p.quant.kind) || (gemm && !is_among(frame.contracts, p.contract))) return false;
  if (!frame.plain) return true;
  const MoeShape& s = p.shape;
  const bool plain_shape = s.activation == Activation::silu_mul && !s.bias && !s.weight_on_input && s.ep == 1;
  return (frame.op_given || gemm || p.op == Op::moe_layer) && plain_shape &&
         p.quant.scale_format == ScaleFormat::f32 && p.routing.ids <= IdKind::none;
}

Case propose_case(const ProposalFrame& frame, std::uint64_t seed, int trial) {
  const int size = std::min(4 + trial, frame.largest);
  rc::Random own(seed_of(seed, trial));
  Case c;
  c.problem = problem(frame, size, trial)(own, size).value();
  rc::Random other = own.split();
  c.choice = choice(frame, trial, c.problem.op == Op::moe_layer)(other, size).value();
  const MoeShape& s = c.problem.shape;
  const Routing routing = make_routing(c.problem.routing, s, c.problem.seed);
  c.choice =
      resolve_tiles(c.choice, c.problem, routing.load(c.problem.rank * s.local_experts(), s.local_experts()));
  return c;
}

std::vector<Choice> other_choices(const Case& c) {
  const bool layer = c.problem.op == Op::moe_layer;
  if (!layer && c.problem.op != Op::grouped_gemm) return {};
  const bool two_tiles = layer && !(c.choice.tile == c.choice.tile_down);
  struct Place {
    bool behind;  // of another kind than the case's
    std::uint64_t turn;
    Choice choice;
  };
  std::vector<Place> places;
  for (const Layout layout : {Layout::normal_mma, Layout::normal_wgmma, Layout::swap_ab})
    for (const TileConfig& tile : tiles_of(layout))
      for (const TileConfig& down : layer ? tiles_of(layout) : std::vector<TileConfig>{tile}) {
        Choice choice = c.choice;
        choice.layout = layout, choice.tile = tile, choice.tile_down = down;
        places.push_back({(tile == down) == two_tiles, seed_of(c.problem.seed, int(places.size())), choice});
      }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.behind, a.turn) < std::pair(b.behind, b.turn);
  });
  std::vector<Choice> choices;
  for (Place& place : places) choices.push_back(std::move(place.choice));
  return choices;
}

}  // namespace moe::harness
