// The whole layer: topk -> [count_rows ->] place_rows -> quantize -> [gather_rows ->] gemm1 -> act_quant ->
// gemm2
// -> combine, everything between the inputs and `out` on the device, sizes of grids from tokens * top_k
// alone.
#include <memory>

#include "device/planted/planted.hpp"
#include "device/session/gemm_stage.hpp"
#include "device/session/launches.hpp"
#include "device/session/layer_path.hpp"
#include "device/session/pipeline.hpp"
#include "fixtures/problem/generated_values.hpp"

namespace moe::device {
namespace {

/// Everything one layer holds on the machine; the stages share it.
struct Layer {
  Layer(Machine& machine, const Case& c) : machine(machine), c(c), path(*layer_path(c.choice.kernel)) {}
  Machine& machine;
  Case c;
  LayerPath path;
  bool routes = false;  // else ids and weights are inputs
  TopkRouteParams topk;
  RowPlan plan;
  QuantizeParams quantize;
  GatherRowsParams gather;  // grouped
  QuantizedRows x_sorted, x_canonical, act_sorted;
  Rows gemm1, gemm2, out;
  ActQuantParams act_quant;
  CombineParams combine;
  std::vector<WeightSet> w13, w2;   // [set]
  std::vector<GemmStage> up, down;  // [set]

  const MoeShape& shape() const { return c.problem.shape; }
};

void take_routing(Layer& layer, const TensorSet& inputs) {
  layer.routes = inputs.has("router_logits");
  if (layer.routes) {
    layer.topk = topk_params(layer.machine, layer.c, inputs);
  } else {
    layer.topk.ids = pointer<std::int32_t>(upload_tensor(layer.machine, inputs.at("topk_ids")));
    layer.topk.weights = pointer<float>(upload_tensor(layer.machine, inputs.at("topk_weights")));
  }
  const MoeShape& s = layer.shape();
  layer.plan = allocate_plan(layer.machine, Address(layer.topk.ids), s.pairs(), first_expert(layer.c.problem),
                             s.local_experts(), layer.c.choice.tile.block_m, layer.c.choice.tile_down.block_m,
                             layer.path == LayerPath::fused);
}

/// The permuting copy of the grouped path: sorted row of a pair = codes and scales of its token.
void prepare_gather(Layer& layer) {
  const QuantScheme& quant = layer.c.problem.quant;
  const QuantizedRows& from = layer.x_canonical;
  GatherRowsParams& p = layer.gather;
  p.codes = pointer<std::uint8_t>(from.codes.address);
  p.stride = from.codes.stride;
  p.columns = from.codes.columns;
  p.row_divisor = layer.shape().top_k;
  p.scales = pointer<float>(from.scales);
  p.blocks = quant.block() ? std::int32_t(blocks_of(p.columns, kScaleBlock)) : quant.tensor() ? 0 : 1;
  p.row_stride = p.blocks;
  p.block_stride = 1;
  p.row_of_source = pointer<std::int32_t>(layer.plan.row_of_pair);
  p.sorted = out_of(layer.x_sorted);
  if (quant.tensor()) layer.x_sorted.scales = from.scales;
}

void prepare_quantize(Layer& layer, const TensorSet& inputs) {
  Machine& machine = layer.machine;
  const MoeShape& s = layer.shape();
  const QuantScheme& quant = layer.c.problem.quant;
  const Rows hidden = upload_tensor_rows(machine, inputs.at("hidden"), s.hidden);
  layer.x_sorted = allocate_sorted(machine, quant, layer.plan.capacity, s.hidden, layer.plan.block_m[0], "x");
  layer.x_canonical = allocate_canonical(machine, quant, s.tokens, s.hidden, "x");
  QuantizeParams& p = layer.quantize;
  p.hidden = {pointer<std::uint16_t>(hidden.address), hidden.stride_elements(), s.tokens, s.hidden, nullptr};
  if (s.weight_on_input) p.hidden.weight = layer.topk.weights;
  p.rule = make_rule(machine, quant, inputs, "a1_scale", s.tokens);
  p.top_k = s.top_k;
  p.canonical = out_of(layer.x_canonical);
  if (layer.path == LayerPath::grouped) return prepare_gather(layer);
  p.row_of_pair = pointer<std::int32_t>(layer.plan.row_of_pair);
  p.sorted = out_of(layer.x_sorted);
  if (layer.path == LayerPath::fused) p.sorted.codes = nullptr;
}

void prepare_act_quant(Layer& layer, const TensorSet& inputs) {
  Machine& machine = layer.machine;
  const MoeShape& s = layer.shape();
  layer.gemm1 =
      allocate_rows(machine, layer.plan.capacity, s.up_rows(), 2, BufferUse::workspace, "sorted gemm1");
  layer.act_sorted = allocate_sorted(machine, layer.c.problem.quant, layer.plan.capacity,
                                     s.local_intermediate(), layer.plan.block_m[1], "act");
  ActQuantParams& p = layer.act_quant;
  p.gemm1 = {pointer<std::uint16_t>(layer.gemm1.address),
             layer.gemm1.stride_elements(),
             s.pairs(),
             s.local_intermediate(),
             pointer<std::int32_t>(layer.plan.row_of_pair),
             activation_rule(s)};
  p.rule = make_rule(machine, layer.c.problem.quant, inputs, "a2_scale", s.pairs());
  p.out = out_of(layer.act_sorted);
}

void prepare_combine(Layer& layer) {
  const MoeShape& s = layer.shape();
  layer.gemm2 =
      allocate_rows(layer.machine, layer.plan.capacity, s.hidden, 2, BufferUse::workspace, "sorted gemm2");
  layer.out = allocate_rows(layer.machine, s.tokens, s.hidden, 2, BufferUse::output, "out");
  CombineParams& p = layer.combine;
  p.gemm2 = pointer<std::uint16_t>(layer.gemm2.address);
  p.gemm2_stride = layer.gemm2.stride_elements();
  p.row_of_pair = pointer<std::int32_t>(layer.plan.row_of_pair);
  p.weights =
      s.weight_on_input && !planted(Fault::weights_on_input_and_output) ? nullptr : layer.topk.weights;
  p.out = pointer<std::uint16_t>(layer.out.address);
  p.out_stride = layer.out.stride_elements();
  p.columns = s.hidden;
  p.top_k = s.top_k;
}

void add_gemms(Layer& layer, const WeightSet& w13, const WeightSet& w2) {
  const Choice& choice = layer.c.choice;
  layer.up.push_back(layer.path == LayerPath::fused
                         ? make_gathered_gemm(layer.machine, choice.layout, choice.tile.block_n, layer.plan,
                                              layer.plan.pairs, layer.x_canonical.codes, layer.shape().top_k,
                                              layer.x_sorted, w13, layer.gemm1)
                         : make_gemm(layer.machine, choice.layout, choice.tile.block_n, layer.plan, 0,
                                     layer.plan.pairs, layer.x_sorted, w13, layer.gemm1, nullptr));
  layer.down.push_back(make_gemm(layer.machine, choice.layout, choice.tile_down.block_n, layer.plan, 1,
                                 layer.plan.pairs, layer.act_sorted, w2, layer.gemm2, nullptr));
  layer.w13.push_back(w13);
  layer.w2.push_back(w2);
}

/// The first set of weights is the caller's.
void upload_first_weights(Layer& layer, const TensorSet& inputs) {
  const QuantScheme& quant = layer.c.problem.quant;
  const bool bias = layer.shape().bias;
  const WeightSet w13 = upload_weights(layer.machine, inputs.at("w13"), inputs.at("w13_scale"),
                                       bias ? &inputs.at("w13_bias") : nullptr, quant);
  const WeightSet w2 = upload_weights(layer.machine, inputs.at("w2"), inputs.at("w2_scale"),
                                      bias ? &inputs.at("w2_bias") : nullptr, quant);
  add_gemms(layer, w13, w2);
}

std::vector<Stage> stages_of(const std::shared_ptr<Layer>& layer) {
  std::vector<Stage> stages;
  const auto add = [&](const char* name, auto launch, bool gemm = false) {
    stages.push_back(
        {name, [layer, launch](const LaunchPlan& run, bool dependent) { launch(*layer, run, dependent); },
         gemm});
  };
  if (layer->routes)
    add("topk", [](Layer& l, const LaunchPlan&, bool d) { launch_topk(l.machine, l.topk, d); });
  if (needs_count(layer->plan.pairs))
    add("count_rows", [](Layer& l, const LaunchPlan&, bool d) { launch_count(l.machine, l.plan, d); });
  add("place_rows", [](Layer& l, const LaunchPlan&, bool d) { launch_place(l.machine, l.plan, d); });
  if (layer->quantize.rule.partial_max != nullptr) {
    add("hidden_amax", [](Layer& l, const LaunchPlan&, bool d) {
      launch_hidden_amax(l.machine, {l.quantize.hidden, const_cast<float*>(l.quantize.rule.partial_max)}, d);
    });
  }
  add("quantize", [](Layer& l, const LaunchPlan& run, bool d) {
    QuantizeParams p = l.quantize;
    if (!run.expose && l.path == LayerPath::scatter) p.canonical = {};
    launch_quantize(l.machine, p, d);
  });
  if (layer->path == LayerPath::grouped)
    add("gather_rows",
        [](Layer& l, const LaunchPlan&, bool d) { launch_gather(l.machine, l.gather, l.plan.pairs, d); });
  add(
      "gemm1",
      [](Layer& l, const LaunchPlan& run, bool d) {
        launch_gemm(l.machine, l.up[std::size_t(run.weight_set)], d);
      },
      true);
  if (layer->act_quant.rule.partial_max != nullptr) {
    add("act_amax", [](Layer& l, const LaunchPlan&, bool d) {
      launch_act_amax(l.machine, {l.act_quant.gemm1, const_cast<float*>(l.act_quant.rule.partial_max)}, d);
    });
  }
  add("act_quant", [](Layer& l, const LaunchPlan&, bool d) { launch_act_quant(l.machine, l.act_quant, d); });
  add(
      "gemm2",
      [](Layer& l, const LaunchPlan& run, bool d) {
        launch_gemm(l.machine, l.down[std::size_t(run.weight_set)], d);
      },
      true);
  if (planted(Fault::act_quant_before_gemm1)) std::swap(stages[stages.size() - 3], stages[stages.size() - 2]);
  add("combine",
      [](Layer& l, const LaunchPlan&, bool d) { launch_combine(l.machine, l.combine, l.shape().tokens, d); });
  return stages;
}

void collect(Layer& l, TensorSet& outputs) {
  const std::vector<std::int64_t> routed{l.shape().tokens, l.shape().top_k};
  outputs.add(downloaded(l.machine, "topk_ids", DType::i32, routed, Address(l.topk.ids)));
  outputs.add(downloaded(l.machine, "topk_weights", DType::f32, routed, Address(l.topk.weights)));
  const auto row_of_pair = download_array<std::int32_t>(l.machine, l.plan.row_of_pair, l.plan.pairs);
  collect_canonical(l.machine, outputs, l.x_canonical, "x_codes", "x_scale");
  outputs.add(unsorted_rows(l.machine, "gemm1", DType::bf16, l.gemm1, row_of_pair));
  collect_sorted(l.machine, outputs, l.act_sorted, row_of_pair, "act_codes", "act_scale");
  outputs.add(unsorted_rows(l.machine, "gemm2", DType::bf16, l.gemm2, row_of_pair));
  outputs.add(downloaded_rows(l.machine, "out", DType::bf16, l.out));
}

}  // namespace

Pipeline build_moe_layer(Machine& machine, const Case& c, const TensorSet& inputs) {
  auto layer = std::make_shared<Layer>(machine, c);
  take_routing(*layer, inputs);
  prepare_quantize(*layer, inputs);
  prepare_act_quant(*layer, inputs);
  prepare_combine(*layer);
  Pipeline pipeline;
  pipeline.collect = [layer](TensorSet& outputs) { collect(*layer, outputs); };
  if (c.problem.shape.tokens == 0 && !planted(Fault::launched_without_tokens)) return pipeline;
  upload_first_weights(*layer, inputs);
  pipeline.stages = stages_of(layer);
  pipeline.tiles = [layer] {
    const auto rows = download_expert_rows(layer->machine, layer->plan);
    return tiles_of(rows, layer->c.choice.tile, layer->w13[0].n) +
           tiles_of(rows, layer->c.choice.tile_down, layer->w2[0].n);
  };
  pipeline.weight_bytes = [layer] {
    const auto rows = download_expert_rows(layer->machine, layer->plan);
    return active_bytes(rows, layer->w13[0]) + active_bytes(rows, layer->w2[0]);
  };
  pipeline.add_weight_sets = [layer](int sets) {
    const std::uint64_t seed = layer->c.problem.seed;
    for (int set = int(layer->w13.size()); set < sets; ++set) {
      add_gemms(*layer,
                generate_weights_like(layer->machine, layer->w13[0], seed + std::uint64_t(set),
                                      std::uint32_t(TensorNumber::w13)),
                generate_weights_like(layer->machine, layer->w2[0], seed + std::uint64_t(set),
                                      std::uint32_t(TensorNumber::w2)));
    }
    layer->machine.synchronize();
  };
  return pipeline;
}

}  // namespace moe::device
