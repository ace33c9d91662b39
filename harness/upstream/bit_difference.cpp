#include "harness/upstream/bit_difference.hpp"

#include <algorithm>
#include <cstring>

#include "fixtures/problem/generate.hpp"
#include "harness/compare_output.hpp"
#include "reference/operands.hpp"

namespace moe::harness {
namespace {

std::int64_t columns_of(const Tensor& t) { return t.shape().size() > 1 ? t.shape().back() : 1; }

bool is_pair_tensor(const Problem& p, const std::string& stage) {
  if (stage == "act_scale") return !p.quant.tensor();
  return stage == "gemm1" || stage == "gemm2" || stage == "act_codes";
}

std::int64_t rows_of(const Tensor& t) { return columns_of(t) > 0 ? t.size() / columns_of(t) : 0; }

/// Of the first `rows` rows of a tensor those that somebody owns; others may hold anything.
std::vector<JudgedRow> owned_rows(const Case& c, const TensorSet& inputs, const Tensor& t,
                                  std::int64_t rows) {
  const Problem& p = c.problem;
  if (p.op == Op::moe_layer && is_pair_tensor(p, t.name())) {
    const int local = p.shape.local_experts();
    return expert_rows(routing_of(p), p.rank * local, local);
  }
  if (p.op != Op::grouped_gemm || t.name() != "c") return plain_rows(rows);
  std::vector<JudgedRow> owned;
  for (const reference::GemmRow& r : reference::contract_gemm(p, inputs).rows)
    if (r.out < rows) owned.push_back({r.out, r.expert, -1});
  return owned;
}

/// The rows of `t`, one behind the other.
Tensor gather(const Tensor& t, const std::vector<JudgedRow>& rows) {
  const std::int64_t columns = columns_of(t);
  Tensor out(t.name(), t.dtype(), {std::int64_t(rows.size()), columns});
  const std::size_t bytes = std::size_t(columns) * size_of(t.dtype());
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(out.data() + i * bytes, t.data() + std::size_t(rows[i].row) * bytes, bytes);
  return out;
}

StageDifference difference(const Case& c, const TensorSet& inputs, const Tensor& before,
                           const Tensor& after) {
  // Rows behind the last owned one may be there or not.
  const std::int64_t common = std::min(rows_of(before), rows_of(after));
  const std::vector<JudgedRow> rows = owned_rows(c, inputs, before, common);
  StageDifference d{before.name(), std::int64_t(rows.size()) * columns_of(before), 0, {}};
  if (d.elements == 0) return d;
  const Tensor due = gather(before, rows);
  const Tensor flat = gather(after, rows);
  std::vector<JudgedRow> in_order = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) in_order[i].row = std::int64_t(i);
  StagePair pair;
  pair.stage = before.name();
  pair.got = &flat;
  pair.type = before.dtype();
  pair.columns = columns_of(before);
  pair.rows = in_order;
  pair.bits = &due;
  const StageFindings found = compare_stage(pair);
  d.different = found.wrong;
  d.worst = found.worst;
  if (d.worst) d.worst->row = rows[std::size_t(d.worst->row)].row;
  return d;
}

}  // namespace

std::vector<StageDifference> bit_differences(const Case& c, const TensorSet& inputs, const TensorSet& before,
                                             const TensorSet& after) {
  std::vector<StageDifference> stages;
  for (const Tensor& t : before.all()) {
    const Tensor* other = after.find(t.name());
    if (other != nullptr && other->dtype() == t.dtype() && columns_of(*other) == columns_of(t))
      stages.push_back(difference(c, inputs, t, *other));
  }
  return stages;
}

StageDifference all_stages(const std::vector<StageDifference>& stages) {
  StageDifference all;
  for (const StageDifference& s : stages) {
    all.elements += s.elements;
    all.different += s.different;
    if (s.worst) all.worst = s.worst;
  }
  return all;
}

}  // namespace moe::harness
