// Which bits do the judged rows have under a declared Semantics? reference/exact computes rows; here they are
// gathered from the canonical tensors of a stage.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reference/operands.hpp"
#include "reference/quantize.hpp"
#include "reference/truth.hpp"

namespace moe::reference {

/// bf16 [rows, n]; a row with expert -1 is zero.
Tensor gemm_bits(std::string name, const Semantics& semantics, const QuantScheme& scheme,
                 const GroupedGemm& gemm, std::span<const GemmRow> rows, int threads);

/// Codes [rows, columns] and scales ([rows, groups]; [1] for the tensor kinds) of rows that `quantise` makes
/// one by one.
struct QuantisedBits {
  Tensor codes, scales;
};
QuantisedBits quantised_bits(
    const QuantScheme& scheme, std::int64_t columns, std::span<const std::int64_t> rows,
    const TensorScale& whole, int threads,
    const std::function<void(std::int64_t row, std::uint8_t* codes, float* scales)>& quantise);

/// bf16 [tokens, hidden] of combine, from gemm2.
Tensor combine_bits(const Problem& problem, const Semantics& semantics, StageTensors tensors,
                    std::span<const std::int64_t> tokens, int threads);

/// One row of a bf16 matrix.
std::span<const std::uint16_t> bf16_codes(const Tensor& tensor, std::int64_t row);

}  // namespace moe::reference
