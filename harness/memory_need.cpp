#include "harness/memory_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/session/timing.hpp"
#include "fixtures/problem/weights.hpp"

namespace moe::harness {
namespace {

/// A code has a 32nd of its bytes in scales where they are finest (block128: 4 bytes a 128 codes).
constexpr double kWithScales = 1 + 4.0 / kScaleBlock;

/// Numbers of a problem that all estimates share.
struct Sizes {
  double tokens, pairs, hidden, up, inter;
  bool up_gemm, down_gemm;  // which GEMMs the op has
};

Sizes sizes_of(const Problem& p) {
  const MoeShape& s = p.shape;
  const bool layer = p.op == Op::moe_layer, gemm = p.op == Op::grouped_gemm;
  return {double(s.tokens),
          double(s.pairs()),
          double(s.hidden),
          double(s.up_rows()),
          double(s.local_intermediate()),
          layer || (gemm && p.gemm == 1),
          layer || (gemm && p.gemm == 2)};
}

/// Products of one pair row = bytes of one expert's codes.
double macs_of(const Sizes& z) {
  return (z.up_gemm ? z.up * z.hidden : 0) + (z.down_gemm ? z.hidden * z.inter : 0);
}

/// Rows of grouped_gemm with what its contract pads.
double gemm_rows(const Problem& p, const Sizes& z, const ExpertLoad& load) {
  constexpr double kLongestBlock = 128;
  if (p.contract != Contract::masked) return z.pairs + kLongestBlock * load.active();
  const auto most = std::max_element(load.rows.begin(), load.rows.end());
  return most == load.rows.end() ? 0 : double(load.rows.size()) * (double(*most) + kLongestBlock);
}

/// Bytes of an op's tensors beside the weights (fixtures/README.md): what it takes, what it gives, and what
/// lies in expert order between its launches.
struct Flow {
  double inputs, outputs, work;
};

Flow flow_of(const Problem& p, const Sizes& z, const ExpertLoad& load) {
  const double routing = 8 * z.pairs, logits = 4 * z.tokens * p.shape.experts;
  const double hidden = 2 * z.tokens * z.hidden, x = z.tokens * z.hidden * kWithScales,
               act = z.pairs * z.inter * kWithScales, gemm1 = 2 * z.pairs * z.up,
               gemm2 = 2 * z.pairs * z.hidden;
  switch (p.op) {
    case Op::topk:
    case Op::align:
      return {logits + routing, 4 * routing, 4 * routing};
    case Op::quantize:
      return {hidden, x, x};
    case Op::act_quant:
      return {gemm1, act, act + gemm1};
    case Op::inv_rope_quant: {
      const double values = z.tokens * double(p.local_heads()) * double(HeadShape::kDim);
      return {2 * values, values * kWithScales, values * kWithScales};
    }
    case Op::combine:
      return {gemm2 + routing, hidden, hidden + gemm2};
    case Op::grouped_gemm: {
      const double rows = gemm_rows(p, z, load), k = p.gemm == 1 ? z.hidden : z.inter,
                   n = p.gemm == 1 ? z.up : z.hidden;
      return {rows * k * kWithScales, 2 * rows * n, rows * (k * kWithScales + 2 * n)};
    }
    default: {
      constexpr double kRowAlign = 8;  // an expert's rows begin at a multiple of it
      const double padded =
          z.pairs > 0 ? 1 + (kRowAlign - 1) * std::min(double(p.shape.local_experts()), z.pairs) / z.pairs
                      : 1;
      const double sorted = padded * (z.pairs * z.hidden * kWithScales + gemm1 + act + gemm2);
      return {hidden + logits + routing, x + gemm1 + act + gemm2 + hidden + routing,
              sorted + x + hidden + routing};
    }
  }
}

/// What the reference holds while it judges its largest stage: bits, or an interval, its middle and its sums
/// an element (reference/truth.hpp), and a list and a set of the rows.
double judging_of(const Sizes& z, const ExpertLoad& load, const MemoryUse& use) {
  constexpr double kInterval = 3 * 4 + 2 * 8, kRowList = 128;
  const bool intervals =
      use.executor != "emulated" && use.executor != "cuda";  // whose roundings are declared
  const double local = double(load.total()), macs = macs_of(z);
  const double judged = macs > 0 ? std::min(local, use.judge_budget / macs + 2.0 * load.active()) : local;
  const double gemm = judged * std::max(z.up, z.hidden) * (intervals ? kInterval : 2),
               act = z.pairs * z.inter * (intervals ? kInterval : 1),
               tokens = z.tokens * z.hidden * (intervals ? kInterval : 2);
  return std::max({gemm, act, tokens}) + kRowList * z.pairs;
}

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

}  // namespace

MemoryNeed memory_need(const Problem& p, const ExpertLoad& load, const MemoryUse& use) {
  const Sizes z = sizes_of(p);
  const Flow flow = flow_of(p, z, load);
  const bool card = use.executor == "cuda", emulated = use.executor == "emulated";
  const double codes = load.active() * macs_of(z) * kWithScales;
  const int processes = use.isolated || card ? 2 : 1;
  MemoryNeed need;
  need.weights = codes * (processes + (emulated ? 1 : 0));  // the emulated card has its own memory
  need.activations = flow.inputs * processes + flow.outputs * (use.two_runs ? 2 : 1);
  if (processes == 2) need.activations += 2 * flow.outputs;  // the worker's, and the file that both map
  if (emulated) need.activations += flow.inputs + flow.work;
  need.judging = judging_of(z, load, use);
  if (use.executor == "reference")  // computes all rows, then judges some
    need.judging = std::max(need.judging, z.pairs * (2 * std::max(z.up, z.hidden) + 128));
  if (!card) return need;
  const int sets = use.timed ? device::weight_sets_for(std::int64_t(load.active() * macs_of(z))) : 1;
  need.card = p.shape.local_experts() * macs_of(z) * kWithScales * sets + flow.inputs + flow.work;
  return need;
}

namespace {

bool fits(const MemoryNeed& need, const MemoryRoom& room) {
  return need.host() <= room.host && need.card <= room.card;
}

/// The most tokens that fit when the same experts stay busy; 0 = none.
std::int64_t tokens_that_fit(const Problem& p, const ExpertLoad& load, const MemoryUse& use,
                             const MemoryRoom& room) {
  const auto fit = [&](std::int64_t tokens) {
    Problem fewer = p;
    fewer.shape.tokens = tokens;
    ExpertLoad share = load;
    for (std::int64_t& rows : share.rows)
      rows = std::int64_t(std::ceil(double(rows) * double(tokens) / double(p.shape.tokens)));
    return fits(memory_need(fewer, share, use), room);
  };
  std::int64_t most = 0;
  for (std::int64_t end = p.shape.tokens; end - most > 1;) {
    const std::int64_t middle = most + (end - most) / 2;
    (fit(middle) ? most : end) = middle;
  }
  return most;
}

std::string advice(const Problem& p, const ExpertLoad& load, const MemoryUse& use, const MemoryRoom& room) {
  const std::int64_t tokens = tokens_that_fit(p, load, use, room);
  MemoryUse unjudged = use;
  unjudged.judge_budget = 0;
  std::string text = tokens > 0 ? fmt::format("{} tokens would fit", tokens) : "fewer tokens are not enough";
  text += p.shape.local_experts() > 1 ? "; a larger --tp or --ep needs less" : "; a larger --tp needs less";
  if (fits(memory_need(p, load, unjudged), room)) text += ", a smaller --judge-budget would do";
  return text;
}

}  // namespace

std::string memory_refusal(const Problem& p, const ExpertLoad& load, const MemoryUse& use,
                           const MemoryRoom& room) {
  const MemoryNeed need = memory_need(p, load, use);
  if (fits(need, room)) return "";
  const std::string text = advice(p, load, use, room);
  if (need.host() <= room.host)
    return fmt::format("needs {} of the card's memory, {} are free; {}", gigabytes(need.card),
                       gigabytes(room.card), text);
  return fmt::format("needs {} of memory ({} weights, {} activations, {} to judge), {} are available; {}",
                     gigabytes(need.host()), gigabytes(need.weights), gigabytes(need.activations),
                     gigabytes(need.judging), gigabytes(room.host), text);
}

}  // namespace moe::harness
