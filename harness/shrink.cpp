#include "harness/shrink.hpp"

#include <algorithm>
#include <cctype>

#include "fixtures/problem/errors.hpp"

namespace moe::harness {
namespace {

bool is_valid(const Case& c) {
  try {
    validate(c.problem);
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

/// Collects changed copies that differ from the original and exist.
class Moves {
 public:
  explicit Moves(const Case& original) : original_(original) {}
  template <class Change>
  void add(Change change) {
    Case c = original_;
    change(c);
    if (!(c == original_) && is_valid(c)) cases_.push_back(c);
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  const Case& original_;
  std::vector<Case> cases_;
};

std::int64_t halve(std::int64_t value, std::int64_t unit) {
  const std::int64_t half = value / 2 / unit * unit;
  return half >= unit ? half : value;
}

/// As many experts as a token has slots, each with every token: loads and routers that name experts, or that
/// need many, would hold smaller shapes back.
void crowd(Case& c, int top_k) {
  c.problem.routing = RoutingSpec{};
  c.problem.shape.ep = 1, c.problem.rank = 0;
  c.problem.shape.experts = c.problem.shape.top_k = top_k;
}

void add_sizes(Moves& moves) {
  moves.add([](Case& c) { crowd(c, 1); });
  moves.add([](Case& c) { crowd(c, c.problem.shape.top_k); });
  moves.add([](Case& c) { c.problem.shape.tokens /= 2; });
  moves.add([](Case& c) {
    MoeShape& s = c.problem.shape;
    s.experts = int(halve(s.experts, s.ep));
    s.top_k = std::min(s.top_k, s.experts);
  });
  for (const std::int64_t unit : {std::int64_t(128), std::int64_t(16)}) {
    moves.add([unit](Case& c) { c.problem.shape.hidden = halve(c.problem.shape.hidden, unit); });
    moves.add([unit](Case& c) {
      MoeShape& s = c.problem.shape;
      s.intermediate = halve(s.intermediate, unit * s.tp);
    });
  }
  moves.add([](Case& c) { c.problem.shape.top_k = 1; });
  moves.add([](Case& c) { c.problem.shape.tokens -= c.problem.shape.tokens > 0; });
  moves.add([](Case& c) {
    MoeShape& s = c.problem.shape;
    if (s.experts > s.top_k && s.ep == 1) --s.experts;
  });
  moves.add([](Case& c) { c.problem.shape.top_k -= c.problem.shape.top_k > 1; });
}

/// inv_rope_quant has heads instead of experts and widths.
void add_heads(Moves& moves) {
  moves.add([](Case& c) { c.problem.heads = {1, 1}; });
  moves.add([](Case& c) { c.problem.heads = {c.problem.heads.heads / c.problem.heads.groups, 1}; });
  moves.add([](Case& c) {
    HeadShape& h = c.problem.heads;
    h.heads -= h.heads > h.groups ? h.groups : 0;
  });
}

void add_kinds(Moves& moves) {
  moves.add([](Case& c) { c.problem.shape.ep = 1, c.problem.rank = 0; });
  moves.add([](Case& c) { c.problem.routing = RoutingSpec{}; });
  moves.add([](Case& c) { c.problem.routing.load = LoadSpec{}; });
  moves.add([](Case& c) { c.problem.routing.logits = LogitKind::drawn; });
  moves.add([](Case& c) { c.problem.routing.ids = IdKind::routed; });
  moves.add([](Case& c) { c.problem.routing.router = RouterSpec{}; });
  moves.add([](Case& c) {
    MoeShape& s = c.problem.shape;
    s.activation = Activation::silu_mul;
    s.limit = MoeShape{}.limit, s.alpha = MoeShape{}.alpha, s.beta = MoeShape{}.beta;
  });
  moves.add([](Case& c) { c.problem.shape.bias = false; });
  moves.add([](Case& c) { c.problem.shape.weight_on_input = false; });
  moves.add([](Case& c) { c.problem.data = DataMode::exact; });
  moves.add([](Case& c) { c.problem.quant.scale_format = ScaleFormat::f32; });
}

/// A stage by itself instead of a layer: the one of the tensor that is wrong keeps the way of failing.
void add_ops(Moves& moves) {
  for (const Op op : {Op::topk, Op::quantize, Op::act_quant, Op::combine})
    moves.add([op](Case& c) {
      if (c.problem.op == Op::moe_layer) c.problem.op = op;
    });
}

}  // namespace

std::vector<Case> simpler_cases(const Case& c) {
  if (c.problem.data == DataMode::file || c.problem.routing.load.kind == LoadKind::trace) return {};
  Moves moves(c);
  add_ops(moves);
  if (c.problem.op == Op::inv_rope_quant) add_heads(moves);
  add_sizes(moves);
  add_kinds(moves);
  return moves.take();
}

double case_size(const Case& c) {
  const MoeShape& s = c.problem.shape;
  if (c.problem.op == Op::inv_rope_quant)
    return double(std::max<std::int64_t>(1, s.tokens)) * c.problem.local_heads();
  const double unit = c.problem.quant.block() ? 128 : 16;
  const auto units = [unit](std::int64_t n) { return std::max(1.0, double(n) / unit); };
  return double(std::max<std::int64_t>(1, s.pairs())) * s.experts * units(s.hidden) * units(s.intermediate);
}

std::string failure_kind(const Verdict& verdict) {
  std::string kind = std::string(name(verdict.correctness)) + ":", word;
  if (verdict.correctness == Correctness::timed_out) return kind;
  std::string reason = verdict.reason;
  constexpr std::string_view wrong = "are wrong";
  if (const auto end = reason.find(wrong); end != std::string::npos) reason.resize(end + wrong.size());
  for (const char* rest : {" fails (", ";", " (semantics inferred", " (its rounding", " (probes left"})
    reason = reason.substr(0, reason.find(rest));
  for (const char letter : reason + " ") {
    if (std::isalnum(static_cast<unsigned char>(letter)) || letter == '_') {
      word += letter;
      continue;
    }
    if (!word.empty() && !std::isdigit(static_cast<unsigned char>(word.front()))) kind += " " + word;
    word.clear();
  }
  return kind;
}

Shrunk shrink_case(const Case& failing, const std::function<bool(const Case&)>& fails,
                   const ShrinkBudget& budget) {
  Shrunk result{failing};
  for (int i = 0; i < kRepeats && (i == 0 || result.runs < budget.runs); ++i) {
    ++result.runs;
    if (fails(failing)) continue;
    result.flaky = true;
    return result;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (const Case& candidate : simpler_cases(result.smallest)) {
      if (result.runs >= budget.runs || budget.out_of_time()) return result;
      ++result.runs;
      if (!fails(candidate)) continue;
      result.smallest = candidate;
      ++result.steps;
      moved = true;
      break;
    }
  }
  return result;
}

}  // namespace moe::harness
