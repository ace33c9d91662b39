#include "device/session/weight_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "device/kernels/grouped_gemm_config.hpp"
#include "device/session/launches.hpp"
#include "fixtures/problem/errors.hpp"

namespace moe::device {
namespace {

void require_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.shape() == shape) return;
  throw BadInput(fmt::format("{} has shape [{}]; the contract asks for [{}]", tensor.name(),
                             fmt::join(tensor.shape(), ", "), fmt::join(shape, ", ")));
}

std::vector<std::int64_t> scale_shape(const WeightSet& set, const QuantScheme& quant) {
  if (quant.block()) return {set.experts, blocks_of(set.n, kScaleBlock), blocks_of(set.k, kScaleBlock)};
  if (quant.kind == QuantKind::token_channel) return {set.experts, set.n};
  return {set.experts};
}

Rows allocate_codes(Machine& machine, const WeightSet& set, BufferUse use, const std::string& name) {
  return allocate_rows(machine, set.experts * set.n, set.k, 1, use, name);
}

}  // namespace

WeightSet upload_weights(Machine& machine, const Tensor& codes, const Tensor& scale, const Tensor* bias,
                         const QuantScheme& quant) {
  if (codes.shape().size() != 3) throw BadInput(fmt::format("{} is not [experts, N, K]", codes.name()));
  WeightSet set;
  set.experts = codes.dim(0);
  set.n = codes.dim(1);
  set.k = codes.dim(2);
  require_shape(scale, scale_shape(set, quant));
  if (bias != nullptr) require_shape(*bias, {set.experts, set.n});
  set.codes = allocate_codes(machine, set, BufferUse::input, codes.name());
  for (std::int64_t e = 0; e < set.experts; ++e) {
    const bool filled = codes.filled_groups.empty() || codes.filled_groups[std::size_t(e)] != 0;
    if (filled) upload_rows(machine, set.codes, codes.data(), e * set.n, set.n);
  }
  set.scale = upload_tensor(machine, scale);
  if (bias != nullptr) set.bias = upload_tensor(machine, *bias);
  set.scale_expert = quant.kind == QuantKind::token_channel ? std::int32_t(set.n) : 1;
  set.scale_column = quant.kind == QuantKind::token_channel ? 1 : 0;
  return set;
}

WeightSet generate_weights_like(Machine& machine, const WeightSet& first, std::uint64_t seed,
                                std::uint32_t number) {
  WeightSet set = first;
  set.codes =  // a kernel writes them: no input
      allocate_codes(machine, set, BufferUse::workspace, fmt::format("weights drawn from seed {}", seed));
  GenerateWeightsParams p;
  p.codes = pointer<std::uint8_t>(set.codes.address);
  p.stride = set.codes.stride;
  p.columns = set.codes.columns;
  p.rows = set.codes.rows;
  p.seed = seed;
  p.tensor = number;
  launch_generate(machine, p, false);
  return set;
}

void describe_weights(Machine& machine, GroupedGemmParams& params, const WeightSet& set, int block_n) {
  params.weights =
      machine.tensor_map(set.codes.address, std::uint64_t(set.codes.rows), std::uint64_t(set.codes.columns),
                         std::uint64_t(set.codes.stride), unsigned(block_n));
  params.w_scale = pointer<float>(set.scale);
  params.bias = pointer<float>(set.bias);
  params.n = std::int32_t(set.n);
  params.k = std::int32_t(set.k);
  params.experts = std::int32_t(set.experts);
  params.w_scale_expert = set.scale_expert;
  params.w_scale_column = set.scale_column;
}

}  // namespace moe::device
