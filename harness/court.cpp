#include "harness/court.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/fault_class.hpp"
#include "reference/bound.hpp"

namespace moe::harness {
namespace {

using reference::TensorTruth;

/// "expert 5, its row 3 (row 131 of c), column 7: got 1.5, due 2 (64 ulp)". The row of the tensor counts over
/// all outer dimensions, an expert's row over its own.
std::string place_text(const StageFindings& f, bool to_the_bit) {
  const Place& p = *f.worst;
  std::string text =
      p.expert >= 0 && f.worst_rank >= 0
          ? fmt::format("expert {}, its row {} (row {} of {}), ", p.expert, f.worst_rank, p.row, p.stage)
          : fmt::format("row {} ", p.row);
  text += fmt::format("column {}: ", p.column);
  if (f.worst_unwritten) return text + fmt::format("never written, due {:.6g}", p.want);
  text += two_values("got {}, due {}", p.got, p.want);
  if (!to_the_bit) return text + fmt::format(" (allowed distance {:.3g})", p.bound);
  return p.ulp == std::numeric_limits<std::int64_t>::max() ? text : text + fmt::format(" ({} ulp)", p.ulp);
}

bool is_scale(const TensorTruth& t) { return t.tensor.ends_with("_scale"); }

/// Tensors with one row a (token, slot) pair or a row of a grouped GEMM.
bool has_pair_rows(const TensorTruth& t, const QuantScheme& quant) {
  if (t.tensor == "act_scale") return !quant.tensor();
  return t.tensor == "gemm1" || t.tensor == "gemm2" || t.tensor == "act_codes" || t.tensor == "c";
}

/// Codes and scales of a layer may well be all zero; sums and the codes that an op is about may not.
bool must_not_be_blind(const std::string& stage, Op op) {
  if (stage == "x_codes") return op == Op::quantize;
  if (stage == "act_codes") return op == Op::act_quant;
  if (stage == "o_codes") return true;
  return stage == "gemm1" || stage == "gemm2" || stage == "c" || stage == "out";
}

// Part of a stage's elements that may be weak before it is mistrusted. Carried through a layer a bound is
// seldom tight; where more than a tenth of it is wide, a layer that is some per cent too large would pass.
constexpr double kMostWeak = 0.01, kMostWeakCarried = 0.1;

// What makes a wide bound needless.
constexpr const char* kDeclare = "declare or infer the kernel's Semantics, or use --data exact";
constexpr const char* kShowMore =
    "show the stages (outputs=STAGES in the adapter; STAGES[2:] where topk_ids is an input), declare the "
    "kernel's semantics, or use --data exact "
    "with "
    "--load trace:FILE, a file without weights, and top_k 1, 2, 4 or 8";

// Where every correct kernel gives the same bits, any Semantics tells them.
const Semantics kAny;

/// Whether the router gives every slot the weight 1: a sum over one expert, divided by itself.
bool weighs_by_one(const Problem& p) {
  const RouterSpec& router = p.routing.router;
  const bool divides = router.kind == RouterKind::topk_softmax ||
                       (router.renormalise && router.kind != RouterKind::top1_sigmoid);
  return p.shape.top_k == 1 && divides && router.scale == 1 && p.routing.load.kind != LoadKind::trace;
}

/// What the data of a pass could not show, whatever was judged; empty where they show all.
std::string not_shown(const Problem& p) {
  if (p.op == Op::topk || p.op == Op::align) return "";
  const bool activates = p.op == Op::moe_layer || p.op == Op::act_quant;
  if (p.data == DataMode::exact)
    return activates ? "exact data cannot show the activation or a rounding"
                     : "exact data cannot show a rounding";
  const bool coded = p.data == DataMode::coded, combines = p.op == Op::moe_layer || p.op == Op::combine;
  if (coded && (p.op == Op::moe_layer || p.op == Op::grouped_gemm || p.op == Op::combine))
    return "coded data cannot show a sum or a rounding";
  return combines && weighs_by_one(p) ? "one expert a token has the weight 1: no routing weight shows" : "";
}

/// Numbers of a truth's bits: what is due where zeros may have either sign.
std::vector<float> values_of(const Tensor& bits) {
  std::vector<float> values(std::size_t(bits.size()), 0.0f);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = float(value_of(bits.dtype(), bits.data(), std::int64_t(i)));
  return values;
}

}  // namespace

Court::Court(const JudgeCase& j) : j_(j) {
  truth_.semantics = j.plan.semantics ? &*j.plan.semantics : nullptr;
  truth_.bits = j.plan.semantics.has_value() && !j.plan.by_interval;
  truth_.bounds = !truth_.bits;
  truth_.probable = !j.plan.semantics && !j.plan.hard_bounds && !j.plan.sparse_weights;
  truth_.threads = j.plan.threads;
  truth_.weight_in_gemm2 = j.plan.weight_in_gemm2;
  truth_.sparse_weights = j.plan.sparse_weights;
  only_one_answer_ = !j.plan.semantics;
  v_.correctness = Correctness::passed;
  v_.judged_by = truth_.bits ? "bits" : truth_.probable ? "probable bound" : "interval";
}

void Court::one_answer(bool one) {
  one_answer_ = one;
  only_one_answer_ = only_one_answer_ && one;
  use_bits(one ? &kAny : nullptr);
}

void Court::use_bits(const Semantics* semantics) {
  truth_.semantics = semantics;
  truth_.bits = semantics != nullptr;
  truth_.bounds = !truth_.bits;
  truth_.probable = !truth_.bits && !j_.plan.hard_bounds && !truth_.sparse_weights;
}

void Court::judge_bits() {
  truth_.bits = true;
  truth_.bounds = only_one_answer_ = false;
  v_.judged_by = "bits";
}

void Court::set_pairs(const std::vector<JudgedRow>& local, std::int64_t count) {
  by_pair_.clear();
  for (std::int64_t i = 0; i < count; ++i) by_pair_.push_back({i, -1, -1});
  for (const JudgedRow& r : local) by_pair_[std::size_t(r.row)] = r;
}

void Court::fail(const std::string& reason) {
  if (v_.correctness != Correctness::failed) v_.reason = reason;
  v_.correctness = Correctness::failed;
}

void Court::add(const reference::StageTruth& truth) {
  for (const TensorTruth& t : truth.tensors) add(t);
}

Court::Due Court::due_of(const TensorTruth& truth) const {
  const bool by_pair = has_pair_rows(truth, j_.problem().quant);
  Due due;
  for (const std::int64_t row : truth.rows)
    due.rows.push_back(by_pair && row < std::int64_t(by_pair_.size()) ? by_pair_[std::size_t(row)]
                                                                      : JudgedRow{row, -1, -1});
  StagePair& pair = due.pair;
  pair.stage = truth.tensor;
  pair.got = j_.outputs.find(truth.tensor);
  pair.type = truth.type;
  pair.columns = truth.columns;
  pair.rows = due.rows;
  pair.bits = truth_.bits && !one_answer_ ? &truth.bits : nullptr;
  if (pair.bits != nullptr && !truth.least.empty()) pair.bits = &truth.least, pair.most = &truth.most;
  pair.want = truth.want, pair.low = truth.low, pair.high = truth.high;
  const bool probable = !truth.probable_low.empty();
  if (probable) {
    pair.hard_low = truth.low, pair.hard_high = truth.high;
    pair.low = truth.probable_low, pair.high = truth.probable_high;
  }
  if (one_answer_) due.answer = values_of(truth.bits);
  if (one_answer_) pair.want = pair.low = pair.high = due.answer;
  pair.block_columns = is_scale(truth) ? 1 : kScaleBlock;
  const TileConfig& down = j_.c.choice.tile_down;
  const bool second = truth.tensor == "gemm2" && !down.automatic();
  if (by_pair && !is_scale(truth)) pair.block_m = second ? down.block_m : j_.c.choice.tile.block_m;
  return due;
}

void Court::add(const TensorTruth& truth) {
  note_weak(truth);
  const Due due = due_of(truth);
  if (j_.plan.sparse_weights && !is_scale(truth) && truth.type == DType::bf16)
    for (std::size_t i = 0; i < truth.low.size(); ++i) v_.open += truth.low[i] != truth.high[i];
  add(due.pair, compare_stage(due.pair));
}

void Court::add(const StagePair& pair, const StageFindings& f) {
  v_.checked += f.checked;
  v_.wrong += f.wrong;
  v_.open += f.open;
  if (!truth_.bits) bounded_ += f.checked;
  v_.blocks.insert(v_.blocks.end(), f.blocks.begin(), f.blocks.end());
  if (!f.shape_error.empty()) return fail(f.shape_error);
  if (f.checked > 0 && !f.could_fail && must_not_be_blind(pair.stage, j_.problem().op) && blind_.empty())
    blind_ = pair.stage;
  if (f.wrong == 0) return;
  if (v_.correctness != Correctness::failed) {
    v_.worst = f.worst;
    const Tensor* ids = pair.stage == "out" ? j_.inputs.find("topk_ids") : nullptr;
    if (ids != nullptr) v_.fault_class = guess_slots(pair, f, *ids, j_.problem().shape.experts);
    if (v_.fault_class.empty()) v_.fault_class = guess_fault(pair, f);
  }
  fail(wrong_text(pair, f));
}

std::string Court::wrong_text(const StagePair& pair, const StageFindings& f) const {
  const std::string worst = "; worst " + place_text(f, pair.to_the_bit());
  if (one_answer_)
    return fmt::format("{} of {} elements of {} are wrong, where every correct kernel gives one answer{}",
                       f.wrong, f.checked, pair.stage, worst);
  if (pair.hard_low.empty())
    return fmt::format("{} of {} elements of {} are wrong{}", f.wrong, f.checked, pair.stage, worst);
  return fmt::format(
      "{} of {} elements of {} are wrong: outside the probable bound, where a correct kernel's are with "
      "probability "
      "{:.0e} at most, {} of them outside the bound of any order of sums{}",
      f.wrong, f.checked, pair.stage, reference::kFailureProbability, f.outside_hard, worst);
}

void Court::note_weak(const TensorTruth& truth) {
  if (truth.weak.empty() || !weak_.empty()) return;
  const double share =
      double(std::count(truth.weak.begin(), truth.weak.end(), 1)) / double(truth.weak.size());
  if (share <= kMostWeak) return;
  weak_share_ = share;
  weak_ = fmt::format("the bound of {} is too wide to judge {:.0f} % of its elements: {}", truth.tensor,
                      std::ceil(100 * share), carried_ ? kShowMore : kDeclare);
}

void Court::mistrust(const std::string& reason) {
  v_.correctness = Correctness::mistrusted;
  v_.reason = reason;
}

void Court::add(const std::vector<reference::TopkRow>& rows) {
  only_one_answer_ = false;  // scores may tie
  if (j_.problem().op == Op::topk) v_.judged_by = "interval";
  const std::int64_t slots = j_.problem().shape.top_k;
  for (const reference::TopkRow& row : rows) {
    v_.checked += 2 * slots;  // ids and weights
    if (row.right) continue;
    v_.wrong += 2 * slots;
    if (v_.correctness != Correctness::failed) {
      Place place;
      place.stage = "topk_ids";
      place.row = row.token;
      v_.worst = place;
      v_.fault_class = guess_routing(j_.outputs.find("topk_ids"), j_.problem().shape.experts);
    }
    fail(fmt::format("routing of token {}: {}", row.token, row.wrong));
  }
}

Verdict Court::verdict() {
  const double all = double(v_.checked + unjudged_);
  v_.coverage = all > 0 ? double(v_.checked) / all : 1;
  const bool passed = v_.correctness == Correctness::passed && !zeros_expected_;
  if (passed && !blind_.empty())
    mistrust(fmt::format("an all-zero {} would have passed: the trial proves nothing", blind_));
  else if (passed && weak_share_ > (carried_ ? kMostWeakCarried : kMostWeak))
    mistrust(weak_);
  else if (passed && !weak_.empty())
    v_.reason = weak_;
  if (v_.correctness == Correctness::passed && v_.reason.empty() && v_.checked > 0)
    v_.reason = not_shown(j_.problem());
  if (v_.correctness == Correctness::passed && v_.reason.empty() && v_.open > 0)
    v_.reason = fmt::format("exp is known up to an error: {} of {} elements had more than one right value",
                            v_.open, v_.checked);
  const bool all_bits = only_one_answer_ || (!stages_.empty() && bounded_ == 0);
  if (all_bits && v_.checked > 0) v_.judged_by = "bits";
  if (v_.judged_by == "probable bound" && bounded_ < v_.checked && !stages_.empty()) {
    v_.judged_by = "bits and probable bound";
    v_.bounded = bounded_;
  }
  return v_;
}

}  // namespace moe::harness
