// The op inv_rope_quant on a machine: one kernel between attention and the output projection.
#include "device/kernels/inv_rope_quant_params.hpp"
#include "device/session/device_rows.hpp"
#include "device/session/launches.hpp"
#include "device/session/pipeline.hpp"

namespace moe::device {
namespace {

constexpr std::int64_t kDim = HeadShape::kDim;

InvRopeQuantParams params_of(Machine& machine, const Problem& problem, const TensorSet& inputs) {
  const std::int64_t heads = problem.local_heads(), groups = problem.local_groups(),
                     per_group = heads / groups;
  const bool packed = problem.quant.scale_format == ScaleFormat::ue8m0;
  const std::int64_t tokens = problem.shape.tokens, padded = problem.padded_tokens(),
                     rows = per_group * (packed ? 1 : kDim / kScaleBlock);
  InvRopeQuantParams p;
  p.o = pointer<std::uint16_t>(upload_tensor(machine, inputs.at("o")));
  p.o_token = heads * kDim;
  p.o_head = kDim;
  p.positions = pointer<std::int64_t>(upload_tensor(machine, inputs.at("positions")));
  p.cos_sin = pointer<float>(upload_tensor(machine, inputs.at("cos_sin")));
  p.cos_sin_row = HeadShape::kRope;
  p.codes = pointer<std::uint8_t>(allocate(machine, tokens * heads * kDim, BufferUse::output, "o_codes"));
  p.codes_token = per_group * kDim;
  p.codes_group = tokens * p.codes_token;
  p.scales =
      pointer<std::uint32_t>(allocate(machine, 4 * groups * rows * padded, BufferUse::output, "o_scale"));
  p.scale_row = padded;
  p.scale_group = rows * padded;
  p.tokens = tokens;
  p.groups = std::int32_t(groups);
  p.heads_per_group = std::int32_t(per_group);
  p.packed = packed;
  return p;
}

}  // namespace

Pipeline build_inv_rope_quant(Machine& machine, const Case& c, const TensorSet& inputs) {
  const Problem& problem = c.problem;
  const InvRopeQuantParams p = params_of(machine, problem, inputs);
  Pipeline pipeline;
  if (p.tokens > 0)
    pipeline.stages.push_back({"inv_rope_quant", [&machine, p](const LaunchPlan&, bool dependent) {
                                 launch_inv_rope_quant(machine, p, dependent);
                               }});
  pipeline.collect = [&machine, p, padded = problem.padded_tokens()](TensorSet& outputs) {
    const std::int64_t quarters = kDim / kScaleBlock;
    outputs.add(
        downloaded(machine, "o_codes", DType::e4m3, {p.groups, p.tokens, p.codes_token}, Address(p.codes)));
    outputs.add(p.packed != 0
                    ? downloaded(machine, "o_scale", DType::ue8m0,
                                 {p.groups, p.heads_per_group, padded, quarters}, Address(p.scales))
                    : downloaded(machine, "o_scale", DType::f32,
                                 {p.groups, p.heads_per_group * quarters, padded}, Address(p.scales)));
  };
  return pipeline;
}

}  // namespace moe::device
