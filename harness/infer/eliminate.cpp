#include "harness/infer/eliminate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "harness/compare_output.hpp"
#include "reference/operands.hpp"
#include "reference/truth.hpp"

namespace moe::harness {
namespace {

using reference::StageTruth;
using reference::TensorTruth;

/// Candidates that agree so far, with the outputs of theirs that the run does not show.
struct Branch {
  TensorSet own;
  std::vector<int> candidates;
};

/// What one class of a branch gives for a stage.
struct Outcome {
  std::vector<int> candidates;
  StageTruth truth;
  Distance distance;
};

std::vector<std::int64_t> pairs_of(const Problem& p, std::span<const std::int64_t> tokens) {
  std::vector<std::int64_t> pairs;
  for (const std::int64_t t : tokens)
    for (int j = 0; j < p.shape.top_k; ++j) pairs.push_back(t * p.shape.top_k + j);
  return pairs;
}

std::vector<std::int64_t> owned_rows(const Evidence& e) {
  std::vector<std::int64_t> rows;
  for (const reference::GemmRow& r : reference::contract_gemm(e.problem, e.inputs).rows)
    rows.push_back(r.out);
  return rows;
}

TensorSet together(const TensorSet& shown, const TensorSet& own) {
  TensorSet both;
  for (const Tensor& t : shown.all()) both.add(t);
  for (const Tensor& t : own.all())
    if (!both.has(t.name())) both.add(t);
  return both;
}

StageTruth stage_truth(const Evidence& e, LayerStage stage, const TensorSet& outputs,
                       std::span<const std::int64_t> tokens, const Semantics& s) {
  const reference::TruthOptions options{&s, true, false, e.threads};
  const reference::StageTensors tensors{e.inputs, outputs};
  switch (stage) {
    case LayerStage::quantize:
      return reference::quantize_truth(e.problem, tensors, tokens, options);
    case LayerStage::gemm1:
      return reference::gemm_truth(e.problem, 1, tensors, pairs_of(e.problem, tokens), options);
    case LayerStage::act_quant:
      return reference::act_quant_truth(e.problem, tensors, pairs_of(e.problem, tokens), options);
    case LayerStage::gemm2:
      return reference::gemm_truth(e.problem, 2, tensors, pairs_of(e.problem, tokens), options);
    case LayerStage::grouped_gemm:
      return reference::grouped_gemm_truth(e.problem, e.inputs, owned_rows(e), options);
    case LayerStage::combine:
      break;
  }
  return reference::combine_truth(e.problem, tensors, tokens, options);
}

/// The tensor of a truth that the run shows in the right type and size; null where it does not.
const Tensor* shown(const Evidence& e, const TensorTruth& truth) {
  const Tensor* t = e.outputs.find(truth.tensor);
  if (t == nullptr || t->dtype() != truth.type || truth.columns == 0) return nullptr;
  const std::int64_t last = truth.rows.empty() ? -1 : *std::max_element(truth.rows.begin(), truth.rows.end());
  return t->size() >= (last + 1) * truth.columns && t->size() % truth.columns == 0 ? t : nullptr;
}

/// Equal bits, or both NaN: payloads do not count.
void compare(const Tensor& got, const TensorTruth& truth, Distance& d) {
  const std::size_t size = size_of(truth.type);
  for (std::size_t r = 0; r < truth.rows.size(); ++r) {
    for (std::int64_t c = 0; c < truth.columns; ++c) {
      const std::int64_t at = truth.rows[r] * truth.columns + c, i = std::int64_t(r) * truth.columns + c;
      ++d.checked;
      if (!truth.least.empty()) {
        if (is_between(got, at, truth.least, truth.most, i)) continue;
      } else if (std::memcmp(got.data() + std::size_t(at) * size, truth.bits.data() + std::size_t(i) * size,
                             size) == 0) {
        continue;
      }
      const double seen = value_of(truth.type, got.data(), at),
                   due = value_of(truth.type, truth.bits.data(), i);
      if (std::isnan(seen) && std::isnan(due)) continue;
      if (d.wrong++ == 0)
        d.place = fmt::format("{} row {} column {}: got {:.9g}, it gives {:.9g}", truth.tensor, truth.rows[r],
                              c, seen, due);
    }
  }
}

/// The rows of a truth put into a tensor of all rows.
Tensor whole(const Problem& p, const TensorTruth& truth) {
  const bool pairs = truth.tensor.starts_with("gemm") || truth.tensor.starts_with("act_");
  const bool one = truth.tensor.ends_with("_scale") && p.quant.tensor();
  Tensor full(truth.tensor, truth.type, {one ? 1 : pairs ? p.shape.pairs() : p.shape.tokens, truth.columns});
  const std::size_t bytes = std::size_t(truth.columns) * size_of(truth.type);
  for (std::size_t r = 0; r < truth.rows.size(); ++r)
    std::memcpy(full.data() + std::size_t(truth.rows[r]) * bytes, truth.bits.data() + r * bytes, bytes);
  return full;
}

std::vector<Outcome> outcomes(const Evidence& e, LayerStage stage, const Branch& branch,
                              std::span<const std::int64_t> tokens) {
  std::map<std::uint64_t, std::vector<int>> classes;
  for (const int c : branch.candidates)
    classes[stage_key(stage, e.space.all[std::size_t(c)], e.one_hot)].push_back(c);
  const TensorSet outputs = together(e.outputs, branch.own);
  std::vector<Outcome> all;
  for (auto& [key, members] : classes) {
    const Semantics& s = e.space.all[std::size_t(members.front())];
    Outcome o{std::move(members), stage_truth(e, stage, outputs, tokens, s), {}};
    bool carried = false;  // an open result that nothing shows: no later stage follows from it to the bit
    for (const TensorTruth& t : o.truth.tensors) {
      const Tensor* got = shown(e, t);
      if (got != nullptr) compare(*got, t, o.distance);
      carried = carried || (got == nullptr && !t.least.empty());
    }
    if (!carried) all.push_back(std::move(o));
  }
  return all;
}

/// Branches behind a stage: outcomes that leave the same unshown bytes go on together. Only the stage's own
/// tensors are kept: no later stage reads earlier ones.
class Continuation {
 public:
  void add(const Evidence& e, const Outcome& o) {
    std::string key;
    for (const TensorTruth& t : o.truth.tensors)
      if (shown(e, t) == nullptr) key.append(reinterpret_cast<const char*>(t.bits.data()), t.bits.bytes());
    const auto [place, fresh] = number_.try_emplace(std::move(key), branches_.size());
    if (fresh) {
      Branch& b = branches_.emplace_back();
      if (e.problem.op == Op::moe_layer)  // another op has no stage behind this one
        for (const TensorTruth& t : o.truth.tensors)
          if (shown(e, t) == nullptr) b.own.add(whole(e.problem, t));
    }
    auto& members = branches_[place->second].candidates;
    members.insert(members.end(), o.candidates.begin(), o.candidates.end());
  }
  std::vector<Branch> take() { return std::move(branches_); }

 private:
  std::map<std::string, std::size_t> number_;
  std::vector<Branch> branches_;
};

/// Every (field, value) that only candidates outside `left` have, with the least distance among them.
void rule_out(const Evidence& e, const std::vector<Outcome>& all, StageFinding& f) {
  for (std::size_t field = 0; field < CandidateSpace::kFields; ++field) {
    std::vector<const Distance*> least(e.space.values[field].size(), nullptr);
    for (const Outcome& o : all) {
      for (const int c : o.candidates) {
        const Distance*& d = least[e.space.value[std::size_t(c)][field]];
        if (d == nullptr || o.distance.wrong < d->wrong) d = &o.distance;
      }
    }
    for (std::size_t v = 0; v < least.size(); ++v)
      if (least[v] != nullptr && least[v]->wrong > 0)
        f.ruled_out.push_back({field, std::uint8_t(v), *least[v]});
  }
}

}  // namespace

std::vector<int> eliminate(const Evidence& e, std::vector<int> from, std::span<const std::int64_t> tokens,
                           std::vector<StageFinding>& findings) {
  std::vector<Branch> branches(1);
  branches[0].candidates = from;
  for (const LayerStage stage : stages_of(e.problem.op)) {
    std::vector<Outcome> all;
    for (const Branch& b : branches)
      for (Outcome& o : outcomes(e, stage, b, tokens)) all.push_back(std::move(o));
    StageFinding f;
    f.stage = stage;
    f.stage_only = branches.size() == 1 && branches[0].own.all().empty();
    std::int64_t checked = 0;
    const Outcome* nearest = nullptr;
    for (const Outcome& o : all) {
      checked += o.distance.checked;
      if (o.distance.wrong == 0) {
        f.left.insert(f.left.end(), o.candidates.begin(), o.candidates.end());
      }
      if (nearest == nullptr || o.distance.wrong < nearest->distance.wrong) nearest = &o;
    }
    const bool contradiction = f.left.empty();
    Continuation next;
    for (const Outcome& o : all)
      if (contradiction || o.distance.wrong == 0) next.add(e, o);
    if (checked > 0) {
      f.nearest = nearest->candidates.front();
      f.nearest_distance = nearest->distance;
      if (!contradiction) rule_out(e, all, f);
      findings.push_back(std::move(f));
    }
    branches = next.take();
  }
  std::vector<int> left;
  for (const Branch& b : branches) left.insert(left.end(), b.candidates.begin(), b.candidates.end());
  std::sort(left.begin(), left.end());
  return left;
}

}  // namespace moe::harness
