// Where do e4m3 rows and their scales lie between two kernels? In sorted order for the GEMMs, in canonical
// order for whoever judges them, or both.
#pragma once
#include <string>

#include "device/session/stage_params.hpp"

namespace moe::device {

struct QuantizedRows {
  QuantScheme quant;
  Rows codes;
  Address scales = 0;
  std::int64_t ld = 0;  // rows of one MN-major scale column (block128); 0 = canonical order
};

/// Canonical order: packed scale rows.
QuantizedRows allocate_canonical(Machine& machine, const QuantScheme& quant, std::int64_t rows,
                                 std::int64_t columns, const std::string& name);
/// Sorted order with `block_m` rows of slack behind every scale column, as the grouped GEMM reads it.
QuantizedRows allocate_sorted(Machine& machine, const QuantScheme& quant, std::int64_t capacity,
                              std::int64_t columns, int block_m, const std::string& name);
QuantizedOut out_of(const QuantizedRows& rows);

/// Adds codes and scales under these names. The second form takes sorted rows back to canonical order.
void collect_canonical(Machine& machine, TensorSet& outputs, const QuantizedRows& rows,
                       const std::string& codes_name, const std::string& scale_name);
void collect_sorted(Machine& machine, TensorSet& outputs, const QuantizedRows& rows,
                    const std::vector<std::int32_t>& row_of_pair, const std::string& codes_name,
                    const std::string& scale_name);

/// The scale rule of a scheme. tensor_static takes `given_name` from the inputs; tensor_dynamic allocates
/// room for the partial maxima of `rows` rows, which rule.partial_max then points to.
ScaleRule make_rule(Machine& machine, const QuantScheme& quant, const TensorSet& inputs,
                    const std::string& given_name, std::int64_t rows);

}  // namespace moe::device
