#include "device/session/quantized_rows.hpp"

#include "device/planted/planted.hpp"
#include "device/session/launches.hpp"

namespace moe::device {

QuantizedRows allocate_canonical(Machine& machine, const QuantScheme& quant, std::int64_t rows,
                                 std::int64_t columns, const std::string& name) {
  QuantizedRows made{quant, allocate_rows(machine, rows, columns, 1, BufferUse::output, name + "_codes"), 0,
                     0};
  made.scales = allocate(machine, 4 * scale_count(quant, rows, columns), BufferUse::output, name + "_scale");
  return made;
}

QuantizedRows allocate_sorted(Machine& machine, const QuantScheme& quant, std::int64_t capacity,
                              std::int64_t columns, int block_m, const std::string& name) {
  QuantizedRows made{
      quant, allocate_rows(machine, capacity, columns, 1, BufferUse::workspace, "sorted " + name), 0, 0};
  made.ld = round_up(capacity + block_m, 4);
  if (planted(Fault::scale_stride_not_aligned)) made.ld = capacity + block_m + (capacity + block_m) % 2 + 1;
  if (planted(Fault::scale_slack_missing)) made.ld = round_up(capacity, 4);
  made.scales = allocate(machine, 4 * scale_count(quant, made.ld, columns), BufferUse::workspace,
                         "sorted scales of " + name);
  return made;
}

QuantizedOut out_of(const QuantizedRows& rows) {
  return rows.ld == 0 ? canonical_out(rows.quant, rows.codes, rows.scales)
                      : sorted_out(rows.quant, rows.codes, rows.scales, rows.ld);
}

void collect_canonical(Machine& machine, TensorSet& outputs, const QuantizedRows& rows,
                       const std::string& codes_name, const std::string& scale_name) {
  outputs.add(downloaded_rows(machine, codes_name, DType::e4m3, rows.codes));
  const auto shape = canonical_scale_shape(rows.quant, rows.codes.rows, rows.codes.columns);
  outputs.add(rows.codes.rows > 0 ? downloaded(machine, scale_name, DType::f32, shape, rows.scales)
                                  : Tensor(scale_name, DType::f32, shape));
}

void collect_sorted(Machine& machine, TensorSet& outputs, const QuantizedRows& rows,
                    const std::vector<std::int32_t>& row_of_pair, const std::string& codes_name,
                    const std::string& scale_name) {
  outputs.add(unsorted_rows(machine, codes_name, DType::e4m3, rows.codes, row_of_pair));
  const auto pairs = std::int64_t(row_of_pair.size());
  Tensor scale(scale_name, DType::f32, canonical_scale_shape(rows.quant, pairs, rows.codes.columns));
  const std::vector<float> sorted =
      download_array<float>(machine, rows.scales, scale_count(rows.quant, rows.ld, rows.codes.columns));
  const auto canonical = scale.as<float>();
  if (rows.quant.tensor()) {
    if (pairs > 0) canonical[0] = sorted[0];
  } else {
    const std::int64_t blocks = rows.quant.block() ? scale.dim(1) : 1;
    for (std::int64_t p = 0; p < pairs; ++p) {
      for (std::int64_t b = 0; b < blocks && row_of_pair[std::size_t(p)] >= 0; ++b) {
        canonical[std::size_t(p * blocks + b)] =
            sorted[std::size_t(b * rows.ld + row_of_pair[std::size_t(p)])];
      }
    }
  }
  outputs.add(std::move(scale));
}

ScaleRule make_rule(Machine& machine, const QuantScheme& quant, const TensorSet& inputs,
                    const std::string& given_name, std::int64_t rows) {
  ScaleRule rule;
  rule.granule = granule_of(quant);
  rule.power_of_two = quant.scale_format == ScaleFormat::ue8m0 ? 1 : 0;
  if (quant.kind == QuantKind::tensor_static)
    rule.given = pointer<float>(upload_tensor(
        machine, inputs.at(planted(Fault::static_scale_of_other_gemm, std::string("a1_scale"), given_name))));
  if (quant.kind == QuantKind::tensor_dynamic) {
    rule.partials = amax_partials(rows);
    rule.partial_max = pointer<float>(
        allocate(machine, 4 * rule.partials, BufferUse::workspace, "partial maxima for " + given_name));
  }
  return rule;
}

}  // namespace moe::device
