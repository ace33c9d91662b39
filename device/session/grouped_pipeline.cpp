// One grouped GEMM under each of the four contracts (fixtures/README.md): the contract's own way to name
// groups becomes an expert a row, rows are gathered into the sorted order that the kernel reads, and the
// kernel writes `c` in the caller's order. expert_of_rows -> [count_rows ->] place_rows -> gather_rows ->
// grouped_gemm.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "device/session/gemm_stage.hpp"
#include "device/session/launches.hpp"
#include "device/session/pipeline.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generated_values.hpp"

namespace moe::device {
namespace {

struct Grouped {
  Grouped(Machine& machine, const Case& c) : machine(machine), c(c) {}
  Machine& machine;
  Case c;
  std::int64_t sources = 0;  // rows of c
  std::int64_t owned = 0;    // rows that a group claims, at most
  std::vector<std::int64_t> out_shape;
  bool derive = false;  // expert_of_row is computed, not given
  ExpertOfRowsParams groups;
  Address expert_of_row = 0;
  RowPlan plan;
  GatherRowsParams gather;
  QuantizedRows tokens;
  Rows out;
  std::vector<WeightSet> weights;  // [set]
  std::vector<GemmStage> gemm;     // [set]
};

std::span<const std::int32_t> words(const Tensor& tensor) { return tensor.as<std::int32_t>(); }

[[noreturn]] void refuse(const Tensor& tensor, std::size_t at, std::int64_t value, const std::string& right) {
  throw BadInput(fmt::format("{}[{}] is {}; {}", tensor.name(), at, value, right));
}

/// Every entry lies in [least, most].
void require_range(const Tensor& tensor, std::int64_t least, std::int64_t most) {
  const auto values = words(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] > most)
      refuse(tensor, i, values[i], fmt::format("it must lie in {}..{}", least, most));
  }
}

void take_routed(Grouped& g, const TensorSet& inputs, std::int32_t experts) {
  const std::int64_t pairs = g.c.problem.shape.pairs();
  const Tensor& sorted = inputs.at("sorted_token_ids");
  const Tensor& expert_ids = inputs.at("expert_ids");
  const Tensor& padded = inputs.at("num_tokens_post_padded");
  const int block_m = g.c.choice.tile.block_m;
  require_range(expert_ids, -1, experts - 1);
  require_range(padded, 0, std::min<std::int64_t>(sorted.size(), expert_ids.size() * block_m));
  g.sources = g.owned = pairs;
  g.out_shape = {pairs};
  g.groups.groups = RowGroups::routed;
  g.groups.sorted_token_ids = pointer<std::int32_t>(upload_tensor(g.machine, sorted));
  g.groups.expert_ids = pointer<std::int32_t>(upload_tensor(g.machine, expert_ids));
  g.groups.padded_rows = pointer<std::int32_t>(upload_tensor(g.machine, padded));
  g.groups.entries = sorted.size();
  g.groups.block_m = block_m;
  g.derive = true;
}

void take_contiguous(Grouped& g, const TensorSet& inputs, std::int32_t experts) {
  const Tensor& group = inputs.at("group_of_row");
  require_range(group, -1, experts - 1);
  g.sources = group.size();
  g.owned = std::ranges::count_if(words(group), [](std::int32_t e) { return e >= 0; });
  g.out_shape = {g.sources};
  g.expert_of_row = upload_tensor(g.machine, group);
}

void take_masked(Grouped& g, const TensorSet& inputs, std::int32_t experts) {
  const Tensor& counts = inputs.at("counts");
  const std::int64_t max_m = inputs.at("a_codes").dim(1);
  require_range(counts, 0, max_m);
  g.sources = experts * max_m;
  for (std::int32_t count : words(counts)) g.owned += count;
  g.out_shape = {experts, max_m};
  g.groups.groups = RowGroups::masked;
  g.groups.counts = pointer<std::int32_t>(upload_tensor(g.machine, counts));
  g.groups.max_m = std::int32_t(std::max<std::int64_t>(max_m, 1));
  g.derive = true;
}

void take_offsets(Grouped& g, const TensorSet& inputs) {
  const Tensor& offsets = inputs.at("offsets");
  const std::int64_t rows = inputs.at("a_codes").dim(0);
  require_range(offsets, 0, rows);
  const auto values = words(offsets);
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] < values[i - 1])
      refuse(offsets, i, values[i], fmt::format("offsets ascend, and entry {} is {}", i - 1, values[i - 1]));
  }
  g.sources = rows;
  g.owned = values.back() - values.front();
  g.out_shape = {rows};
  g.groups.groups = RowGroups::offsets;
  g.groups.offsets = pointer<std::int32_t>(upload_tensor(g.machine, offsets));
  g.derive = true;
}

void take_groups(Grouped& g, const TensorSet& inputs) {
  const auto experts = std::int32_t(inputs.at("w").dim(0));
  switch (g.c.problem.contract) {
    case Contract::routed:
      take_routed(g, inputs, experts);
      break;
    case Contract::contiguous:
      take_contiguous(g, inputs, experts);
      break;
    case Contract::masked:
      take_masked(g, inputs, experts);
      break;
    case Contract::offsets:
      take_offsets(g, inputs);
      break;
  }
  if (g.derive) {
    g.expert_of_row = allocate(g.machine, 4 * g.sources, BufferUse::workspace, "expert_of_row");
    g.machine.fill(g.expert_of_row, 0xFF, std::size_t(4 * g.sources));  // kNoExpert
  }
  g.groups.experts = experts;
  g.groups.rows = g.sources;
  g.groups.expert_of_row = pointer<std::int32_t>(g.expert_of_row);
  const int block_m = g.c.choice.tile.block_m;
  g.plan = allocate_plan(g.machine, g.expert_of_row, g.sources, 0, experts, block_m, block_m, true);
}

/// Where the caller's scales lie, and the rows that gather moves.
void prepare_gather(Grouped& g, const TensorSet& inputs) {
  const Problem& problem = g.c.problem;
  const Rows codes = upload_tensor_rows(g.machine, inputs.at("a_codes"));
  const Tensor& scale = inputs.at("a_scale");
  const Address scales = upload_tensor(g.machine, scale);
  g.tokens =
      allocate_sorted(g.machine, problem.quant, g.plan.capacity, codes.columns, g.plan.block_m[0], "a");
  GatherRowsParams& p = g.gather;
  p.codes = pointer<std::uint8_t>(codes.address);
  p.stride = codes.stride;
  p.columns = codes.columns;
  p.row_divisor = problem.contract == Contract::routed && problem.gemm == 1 ? problem.shape.top_k : 1;
  p.scales = pointer<float>(scales);
  p.row_of_source = pointer<std::int32_t>(g.plan.row_of_pair);
  p.sorted = out_of(g.tokens);
  p.blocks = problem.quant.block()    ? std::int32_t(blocks_of(codes.columns, kScaleBlock))
             : problem.quant.tensor() ? 0
                                      : 1;
  p.row_stride = p.blocks;
  p.block_stride = 1;
  if (problem.quant.block() && problem.quant.scale_layout == ScaleLayout::mn_major) {
    p.row_stride = 1;
    p.block_stride = scale.size() / p.blocks;
  }
  if (problem.quant.tensor()) g.tokens.scales = scales;
}

void prepare_gemm(Grouped& g, const TensorSet& inputs) {
  WeightSet weights = upload_weights(g.machine, inputs.at("w"), inputs.at("w_scale"), inputs.find("w_bias"),
                                     g.c.problem.quant);
  if (weights.k != g.gather.columns) {
    throw BadInput(
        fmt::format("a_codes has K = {}, w has K = {}; they must be equal", g.gather.columns, weights.k));
  }
  g.out = Rows{0, g.sources, weights.n, 2, 2 * weights.n};  // the caller's rows, without padding
  g.out.address = allocate(g.machine, g.out.stride * g.sources, BufferUse::output, "c");
  g.out_shape.push_back(weights.n);
  if (g.c.problem.contract == Contract::routed)
    g.gather.expert_of_row = pointer<std::int32_t>(g.expert_of_row);
  g.gather.out = pointer<std::uint16_t>(g.out.address);
  g.gather.out_columns = weights.n;
  g.weights.push_back(std::move(weights));
}

void add_gemm(Grouped& g, const WeightSet& weights) {
  const std::int64_t most_rows = std::max(g.owned, g.c.problem.shape.pairs());
  g.gemm.push_back(make_gemm(g.machine, g.c.choice.layout, g.c.choice.tile.block_n, g.plan, 0, most_rows,
                             g.tokens, weights, g.out, pointer<std::int32_t>(g.plan.pair_of_row)));
}

std::vector<Stage> stages_of(const std::shared_ptr<Grouped>& grouped) {
  std::vector<Stage> stages;
  const auto add = [&](const char* name, auto launch, bool gemm = false) {
    stages.push_back(
        {name, [grouped, launch](const LaunchPlan& run, bool dependent) { launch(*grouped, run, dependent); },
         gemm});
  };
  if (grouped->derive)
    add("expert_of_rows",
        [](Grouped& g, const LaunchPlan&, bool d) { launch_expert_of_rows(g.machine, g.groups, d); });
  if (needs_count(grouped->plan.pairs))
    add("count_rows", [](Grouped& g, const LaunchPlan&, bool d) { launch_count(g.machine, g.plan, d); });
  add("place_rows", [](Grouped& g, const LaunchPlan&, bool d) { launch_place(g.machine, g.plan, d); });
  add("gather_rows",
      [](Grouped& g, const LaunchPlan&, bool d) { launch_gather(g.machine, g.gather, g.sources, d); });
  add(
      "grouped_gemm",
      [](Grouped& g, const LaunchPlan& run, bool d) {
        launch_gemm(g.machine, g.gemm[std::size_t(run.weight_set)], d);
      },
      true);
  return stages;
}

}  // namespace

Pipeline build_grouped_gemm(Machine& machine, const Case& c, const TensorSet& inputs) {
  auto g = std::make_shared<Grouped>(machine, c);
  take_groups(*g, inputs);
  prepare_gather(*g, inputs);
  prepare_gemm(*g, inputs);
  Pipeline pipeline;
  pipeline.collect = [g](TensorSet& outputs) {
    outputs.add(downloaded(g->machine, "c", DType::bf16, g->out_shape, g->out.address));
  };
  if (g->owned == 0) return pipeline;
  add_gemm(*g, g->weights[0]);
  pipeline.stages = stages_of(g);
  pipeline.tiles = [g] {
    return tiles_of(download_expert_rows(g->machine, g->plan), g->c.choice.tile, g->weights[0].n);
  };
  pipeline.weight_bytes = [g] {
    return active_bytes(download_expert_rows(g->machine, g->plan), g->weights[0]);
  };
  pipeline.add_weight_sets = [g](int sets) {
    const auto number = g->c.problem.gemm == 1 ? TensorNumber::w13 : TensorNumber::w2;
    for (int set = int(g->weights.size()); set < sets; ++set) {
      g->weights.push_back(generate_weights_like(
          g->machine, g->weights[0], g->c.problem.seed + std::uint64_t(set), std::uint32_t(number)));
      add_gemm(*g, g->weights.back());
    }
    g->machine.synchronize();
  };
  return pipeline;
}

}  // namespace moe::device
