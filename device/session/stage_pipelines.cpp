// The ops that are one stage of the layer on its own: topk, align, quantize, act_quant, combine. All in
// canonical order.
#include <algorithm>

#include "device/session/launches.hpp"
#include "device/session/pipeline.hpp"
#include "device/session/quantized_rows.hpp"
#include "device/session/row_plan.hpp"
#include "fixtures/problem/group_rows.hpp"

namespace moe::device {
Pipeline build_topk(Machine& machine, const Case& c, const TensorSet& inputs) {
  const TopkRouteParams p = topk_params(machine, c, inputs);
  const std::vector<std::int64_t> shape{c.problem.shape.tokens, c.problem.shape.top_k};
  Pipeline pipeline;
  if (p.tokens > 0) {
    pipeline.stages.push_back(
        {"topk", [&machine, p](const LaunchPlan&, bool dependent) { launch_topk(machine, p, dependent); }});
  }
  pipeline.collect = [&machine, p, shape](TensorSet& outputs) {
    outputs.add(downloaded(machine, "topk_ids", DType::i32, shape, Address(p.ids)));
    outputs.add(downloaded(machine, "topk_weights", DType::f32, shape, Address(p.weights)));
  };
  return pipeline;
}

/// All experts of the model take blocks; those of another rank are named -1 (moe_align_block_size.py without
/// ignore_invalid_experts).
Pipeline build_align(Machine& machine, const Case& c, const TensorSet& inputs) {
  const Problem& problem = c.problem;
  const std::int64_t pairs = problem.shape.pairs();
  const std::int32_t experts = problem.shape.experts, block = c.choice.tile.block_m;
  PlaceRowsParams p{};
  p.ids = pointer<std::int32_t>(upload_tensor(machine, inputs.at("topk_ids")));
  p.rows = pointer<std::int32_t>(allocate(machine, 4 * experts, BufferUse::workspace, "rows"));
  if (!needs_count(pairs)) p.counted_rows = const_cast<std::int32_t*>(p.rows);
  p.count = pairs;
  p.experts = experts;
  p.named_first = first_expert(problem);
  p.named_experts = problem.shape.local_experts();
  p.row_align = p.block_m[0] = p.block_m[1] = block;
  p.padding = std::int32_t(pairs);
  p.capacity = align_capacity(pairs, experts, block);
  p.blocks = blocks_of(p.capacity, block);
  p.row_start =
      pointer<std::int32_t>(allocate(machine, 4 * (experts + 1), BufferUse::workspace, "row_start"));
  p.block_start[0] =
      pointer<std::int32_t>(allocate(machine, 4 * (experts + 1), BufferUse::workspace, "block_start"));
  p.pair_of_row = allocate_integers(machine, p.capacity, "sorted_token_ids");
  p.expert_of_block = allocate_integers(machine, p.blocks, "expert_ids");
  p.padded_rows = allocate_integers(machine, 1, "num_tokens_post_padded");
  Pipeline pipeline;
  if (pairs > 0) {
    if (needs_count(pairs))
      pipeline.stages.push_back(
          {"count_rows", [&machine, p](const LaunchPlan&, bool dependent) {
             CountRowsParams count{p.ids, const_cast<std::int32_t*>(p.rows), p.count, p.first_expert};
             launch_count(machine, count, p.experts, dependent);
           }});
    pipeline.stages.push_back(
        {"align", [&machine, p](const LaunchPlan&, bool dependent) { launch_place(machine, p, dependent); }});
  }
  pipeline.collect = [&machine, p](TensorSet& outputs) {
    outputs.add(downloaded(machine, "sorted_token_ids", DType::i32, {p.capacity}, Address(p.pair_of_row)));
    outputs.add(downloaded(machine, "expert_ids", DType::i32, {p.blocks}, Address(p.expert_of_block)));
    outputs.add(p.count > 0
                    ? downloaded(machine, "num_tokens_post_padded", DType::i32, {1}, Address(p.padded_rows))
                    : Tensor("num_tokens_post_padded", DType::i32, {1}));
  };
  return pipeline;
}

Pipeline build_quantize(Machine& machine, const Case& c, const TensorSet& inputs) {
  const Problem& problem = c.problem;
  const Rows hidden = upload_tensor_rows(machine, inputs.at("hidden"), problem.shape.hidden);
  QuantizeParams p;
  p.hidden = {pointer<std::uint16_t>(hidden.address), hidden.stride_elements(), hidden.rows, hidden.columns,
              nullptr};
  if (problem.shape.weight_on_input && inputs.has("topk_weights")) {
    p.hidden.weight = pointer<float>(upload_tensor(machine, inputs.at("topk_weights")));
  }
  p.rule = make_rule(machine, problem.quant, inputs, "a1_scale", hidden.rows);
  const QuantizedRows out = allocate_canonical(machine, problem.quant, hidden.rows, hidden.columns, "x");
  p.canonical = out_of(out);
  Pipeline pipeline;
  if (hidden.rows > 0) {
    if (p.rule.partial_max != nullptr) {
      pipeline.stages.push_back(
          {"hidden_amax", [&machine, p](const LaunchPlan&, bool dependent) {
             launch_hidden_amax(machine, {p.hidden, const_cast<float*>(p.rule.partial_max)}, dependent);
           }});
    }
    pipeline.stages.push_back({"quantize", [&machine, p](const LaunchPlan&, bool dependent) {
                                 launch_quantize(machine, p, dependent);
                               }});
  }
  pipeline.collect = [&machine, out](TensorSet& outputs) {
    collect_canonical(machine, outputs, out, "x_codes", "x_scale");
  };
  return pipeline;
}

Pipeline build_act_quant(Machine& machine, const Case& c, const TensorSet& inputs) {
  const Problem& problem = c.problem;
  const Rows gemm1 = upload_tensor_rows(machine, inputs.at("gemm1"), problem.shape.up_rows());
  ActQuantParams p;
  p.gemm1 = {pointer<std::uint16_t>(gemm1.address),
             gemm1.stride_elements(),
             gemm1.rows,
             problem.shape.local_intermediate(),
             nullptr,
             activation_rule(problem.shape)};
  p.rule = make_rule(machine, problem.quant, inputs, "a2_scale", gemm1.rows);
  const QuantizedRows out = allocate_canonical(machine, problem.quant, gemm1.rows, p.gemm1.columns, "act");
  p.out = out_of(out);
  Pipeline pipeline;
  if (gemm1.rows > 0) {
    if (p.rule.partial_max != nullptr) {
      pipeline.stages.push_back(
          {"act_amax", [&machine, p](const LaunchPlan&, bool dependent) {
             launch_act_amax(machine, {p.gemm1, const_cast<float*>(p.rule.partial_max)}, dependent);
           }});
    }
    pipeline.stages.push_back({"act_quant", [&machine, p](const LaunchPlan&, bool dependent) {
                                 launch_act_quant(machine, p, dependent);
                               }});
  }
  pipeline.collect = [&machine, out](TensorSet& outputs) {
    collect_canonical(machine, outputs, out, "act_codes", "act_scale");
  };
  return pipeline;
}

Pipeline build_combine(Machine& machine, const Case& c, const TensorSet& inputs) {
  const Problem& problem = c.problem;
  const MoeShape& shape = problem.shape;
  const Rows gemm2 = upload_tensor_rows(machine, inputs.at("gemm2"), shape.hidden);
  const Rows out = allocate_rows(machine, shape.tokens, shape.hidden, 2, BufferUse::output, "out");
  CombineParams p;
  p.gemm2 = pointer<std::uint16_t>(gemm2.address);
  p.gemm2_stride = gemm2.stride_elements();
  p.ids = pointer<std::int32_t>(upload_tensor(machine, inputs.at("topk_ids")));
  p.first_expert = first_expert(problem);
  p.local_experts = shape.local_experts();
  if (!shape.weight_on_input) p.weights = pointer<float>(upload_tensor(machine, inputs.at("topk_weights")));
  p.out = pointer<std::uint16_t>(out.address);
  p.out_stride = out.stride_elements();
  p.columns = shape.hidden;
  p.top_k = shape.top_k;
  Pipeline pipeline;
  if (shape.tokens > 0) {
    pipeline.stages.push_back(
        {"combine", [&machine, p, tokens = shape.tokens](const LaunchPlan&, bool dependent) {
           launch_combine(machine, p, tokens, dependent);
         }});
  }
  pipeline.collect = [&machine, out](TensorSet& outputs) {
    outputs.add(downloaded_rows(machine, "out", DType::bf16, out));
  };
  return pipeline;
}

}  // namespace moe::device
