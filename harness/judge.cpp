#include "harness/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/group_rows.hpp"
#include "harness/court.hpp"
#include "harness/due_outputs.hpp"
#include "harness/same_bits.hpp"
#include "reference/inv_rope.hpp"
#include "reference/layer.hpp"
#include "reference/open_activation.hpp"
#include "reference/operands.hpp"
#include "reference/topk.hpp"
#include "reference/truth.hpp"

namespace moe::harness {
namespace {

std::vector<std::int64_t> first_rows(std::int64_t n) {
  std::vector<std::int64_t> rows(std::size_t(n), 0);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::vector<std::int64_t> row_numbers(const std::vector<JudgedRow>& rows) {
  std::vector<std::int64_t> numbers;
  for (const JudgedRow& r : rows) numbers.push_back(r.row);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// Rows that `budget` multiply-adds pay for.
std::int64_t affordable(double budget, double macs_per_row) {
  return std::int64_t(std::min(budget / std::max(macs_per_row, 1.0), 1e15));
}

/// To the bit, or by the real scores: ids may differ where scores tie within the error of fp32.
void judge_topk(Court& court, const JudgeCase& j) {
  const auto tokens = first_rows(j.problem().shape.tokens);
  if (court.to_the_bit()) return court.add(reference::topk_truth(j.problem(), j.tensors(), tokens));
  court.add(reference::judge_topk(j.problem(), j.tensors(), tokens, j.plan.threads));
}

/// The ids by which the later stages are judged; false where a router named experts that do not exist. Ids
/// that are inputs may be anything: what is no expert is none.
bool read_routing(const JudgeCase& j, Routing& routing) {
  const Problem& p = j.problem();
  const Tensor* ids = j.outputs.has("topk_ids") ? j.outputs.find("topk_ids") : j.inputs.find("topk_ids");
  if (ids == nullptr || ids->dtype() != DType::i32 || ids->size() != p.shape.pairs()) return false;
  routing = {p.shape.tokens, p.shape.top_k, {}, {}};
  for (const std::int32_t id : ids->as<std::int32_t>()) routing.ids.push_back(id);
  const auto exists = [&](std::int32_t id) { return id >= -1 && id < p.shape.experts; };
  if (!j.inputs.has("topk_ids")) return std::all_of(routing.ids.begin(), routing.ids.end(), exists);
  for (std::int32_t& id : routing.ids) id = exists(id) ? id : -1;
  return true;
}

/// Some pair's expert is on this rank.
bool has_local_pairs(const JudgeCase& j) {
  const MoeShape& s = j.problem().shape;
  Routing routing;
  return read_routing(j, routing) &&
         !expert_rows(routing, j.problem().rank * s.local_experts(), s.local_experts()).empty();
}

/// A stage of a layer, or of an op that is nothing else.
void judge_stage(Court& court, const JudgeCase& j, JudgedStage stage, std::span<const std::int64_t> rows) {
  const Problem& p = j.problem();
  court.judge(stage, rows, [&](std::span<const std::int64_t> some, const reference::TruthOptions& options) {
    switch (stage) {
      case JudgedStage::quantize:
        return reference::quantize_truth(p, j.tensors(), some, options);
      case JudgedStage::gemm1:
        return p.op == Op::grouped_gemm ? reference::grouped_gemm_truth(p, j.inputs, some, options)
                                        : reference::gemm_truth(p, 1, j.tensors(), some, options);
      case JudgedStage::act_quant:
        return reference::act_quant_truth(p, j.tensors(), some, options);
      case JudgedStage::gemm2:
        return reference::gemm_truth(p, 2, j.tensors(), some, options);
      case JudgedStage::combine:
        break;
    }
    return reference::combine_truth(p, j.tensors(), some, options);
  });
}

void judge_stages(Court& court, const JudgeCase& j) {
  const Problem& p = j.problem();
  const MoeShape& s = p.shape;
  if (!j.inputs.has("topk_ids")) judge_topk(court, j);  // a trace brings its routing
  Routing routing;
  if (!read_routing(j, routing))
    return court.fail("topk_ids names experts that do not exist; nothing behind it is judged");
  const auto local = expert_rows(routing, p.rank * s.local_experts(), s.local_experts());
  court.set_pairs(local, s.pairs());
  const double macs = double(s.hidden) * double(s.up_rows() + s.local_intermediate());
  const auto sample = sample_rows(local, j.c.choice.tile.block_m, affordable(j.plan.budget, macs), p.seed);
  court.leave_out(std::int64_t(local.size() - sample.size()) * (s.up_rows() + s.hidden));
  const auto tokens = first_rows(s.tokens), pairs = row_numbers(local), judged = row_numbers(sample);
  judge_stage(court, j, JudgedStage::quantize, tokens);
  judge_stage(court, j, JudgedStage::gemm1, judged);
  judge_stage(court, j, JudgedStage::act_quant, pairs);
  judge_stage(court, j, JudgedStage::gemm2, judged);
  judge_stage(court, j, JudgedStage::combine, tokens);
  if (local.empty()) court.expect_zeros();
}

/// A kernel that shows nothing but `out` is judged to the bit of the whole layer, or by the intervals carried
/// through it.
bool shows_only_out(const TensorSet& outputs) { return outputs.all().size() == 1 && outputs.has("out"); }

void judge_whole_layer(Court& court, const JudgeCase& j) {
  const auto tokens = first_rows(j.problem().shape.tokens);
  if (j.inputs.has("topk_ids") && !has_local_pairs(j)) court.expect_zeros();
  const auto bits = [&](const Semantics& s) {
    TensorSet due = reference::exact_layer(j.problem(), s, j.inputs, j.plan.threads);
    reference::TensorTruth out;
    out.tensor = "out";
    out.columns = j.problem().shape.hidden;
    out.rows = tokens;
    out.bits = std::move(due.at("out"));
    reference::StageTruth layer{"moe_layer", {}};
    layer.tensors.push_back(std::move(out));
    return layer;
  };
  court.judge_layer(tokens, bits, [&](std::span<const std::int64_t> some, const auto& options) {
    return reference::layer_truth(j.problem(), j.inputs, some, options);
  });
}

/// Part of a tensor's rows as a truth of its own.
reference::TensorTruth truth_of(std::string name, const std::vector<std::int32_t>& due, std::int64_t rows) {
  reference::TensorTruth truth;
  truth.type = DType::i32;
  truth.columns = 1;
  truth.rows = first_rows(rows);
  truth.bits = Tensor(name, DType::i32, {rows, 1});
  std::copy_n(due.begin(), rows, truth.bits.as<std::int32_t>().begin());
  truth.tensor = std::move(name);
  return truth;
}

/// Blocks behind num_tokens_post_padded are nobody's.
void judge_align(Court& court, const JudgeCase& j) {
  const Problem& p = j.problem();
  Routing routing;
  if (!read_routing(j, routing)) throw BadInput("op align needs topk_ids that name experts");
  const int block = j.c.choice.tile.block_m, local = p.shape.local_experts();
  const AlignedBlocks due = align_blocks(routing, p.shape.experts, p.rank * local, local, block);
  reference::StageTruth truth{"align", {}};
  truth.tensors.push_back(truth_of("num_tokens_post_padded", {due.num_tokens_post_padded}, 1));
  truth.tensors.push_back(truth_of("expert_ids", due.expert_ids, due.num_tokens_post_padded / block));
  truth.tensors.push_back(truth_of("sorted_token_ids", due.sorted_token_ids, due.num_tokens_post_padded));
  court.judge_bits();
  court.add(truth);
}

void judge_grouped_gemm(Court& court, const JudgeCase& j) {
  const reference::GroupedGemm gemm = reference::contract_gemm(j.problem(), j.inputs);
  std::vector<std::int64_t> seen;  // rows of each expert so far
  std::vector<JudgedRow> rows;
  for (const reference::GemmRow& r : gemm.rows) {
    if (r.expert >= 0 && std::size_t(r.expert) >= seen.size()) seen.resize(std::size_t(r.expert) + 1, 0);
    rows.push_back({r.out, r.expert, r.expert < 0 ? -1 : seen[std::size_t(r.expert)]++});
  }
  const auto most = affordable(j.plan.budget, double(gemm.w.n) * double(gemm.w.k));
  const auto sample = sample_rows(rows, j.c.choice.tile.block_m, most, j.problem().seed);
  court.set_pairs(rows, rows.empty() ? 0 : row_numbers(rows).back() + 1);
  court.leave_out(std::int64_t(rows.size() - sample.size()) * gemm.w.n);
  judge_stage(court, j, JudgedStage::gemm1, row_numbers(sample));
  const bool owned = std::any_of(rows.begin(), rows.end(), [](const JudgedRow& r) { return r.expert >= 0; });
  if (!owned) court.expect_zeros();
}

void judge_by_op(Court& court, const JudgeCase& j) {
  const Problem& p = j.problem();
  Routing routing;
  switch (p.op) {
    case Op::moe_layer:
      return shows_only_out(j.outputs) ? judge_whole_layer(court, j) : judge_stages(court, j);
    case Op::grouped_gemm:
      return judge_grouped_gemm(court, j);
    case Op::topk:
      return judge_topk(court, j);
    case Op::quantize:
      return judge_stage(court, j, JudgedStage::quantize, first_rows(p.shape.tokens));
    case Op::act_quant:
      return judge_stage(court, j, JudgedStage::act_quant, first_rows(p.shape.pairs()));
    case Op::combine:
      if (!has_local_pairs(j)) court.expect_zeros();
      return judge_stage(court, j, JudgedStage::combine, first_rows(p.shape.tokens));
    case Op::align:
      return judge_align(court, j);
    case Op::inv_rope_quant:
      return court.judge(JudgedStage::quantize, {}, [&](std::span<const std::int64_t>, const auto& options) {
        return reference::inv_rope_truth(p, j.tensors(), options);
      });
  }
}

}  // namespace

Judgement judge_stages_of(const Case& c, const TensorSet& inputs, const TensorSet& outputs,
                          const JudgePlan& given) {
  if (c.problem.shape.tokens == 0) {
    Verdict v;
    v.correctness = Correctness::passed;
    v.reason = "no tokens: nothing to launch, nothing to write";
    v.judged_by = "bits";
    v.coverage = 1;
    return {v, {}};
  }
  const bool whole = c.problem.op == Op::moe_layer && shows_only_out(outputs);
  JudgePlan plan =
      given;  // an exp that is known up to an error leaves no bits behind a stage that is not shown
  if (whole && plan.semantics && reference::leaves_exp_open(c.problem.shape, *plan.semantics))
    plan.semantics.reset();
  std::erase_if(plan.layer.likely,
                [&](const Semantics& s) { return reference::leaves_exp_open(c.problem.shape, s); });
  const JudgeCase j{c, inputs, outputs, plan};
  Court court(j);
  // Rows behind the last may be there or not; where experts have their own dimension, each has what is due.
  const Tensor* product = c.problem.op == Op::grouped_gemm ? outputs.find("c") : nullptr;
  const bool by_expert = product != nullptr && product->shape().size() == 3;
  const auto due = by_expert ? all_due_outputs(c, inputs) : due_outputs(c.problem);
  const std::string misfit = first_misfit(whole ? std::vector<DueTensor>{} : due, outputs);
  if (misfit.empty())
    judge_by_op(court, j);
  else
    court.fail(misfit);
  return {court.verdict(), court.stages()};
}

Verdict judge(const Case& c, const TensorSet& inputs, const TensorSet& outputs, const JudgePlan& plan) {
  return judge_stages_of(c, inputs, outputs, plan).verdict;
}

}  // namespace moe::harness
