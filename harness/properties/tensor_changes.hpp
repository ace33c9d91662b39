// How does a property change inputs? A set shares the memory of the case's tensors; `own` gives one of them
// memory of its own, and the functions here change rows, experts and values of such copies. Generated tensors
// lose their seed: no worker may draw them again.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "fixtures/problem/problem.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// Row i of a changed tensor is row rows[i] of the old one.
using RowMap = std::vector<std::int64_t>;
RowMap identity_map(std::int64_t n);
/// A permutation drawn from the seed; never the identity for n > 1.
RowMap shuffled(std::int64_t n, std::uint64_t seed);
/// Pairs of permuted tokens: top_k pairs move with their token.
RowMap pairs_of(const RowMap& tokens, int top_k);

/// The set's tensor, with memory of its own.
Tensor& own(TensorSet& set, std::string_view name);
/// The set without `name` (where it has it), then with `tensor`.
void replace(TensorSet& set, Tensor tensor);
void remove(TensorSet& set, std::string_view name);

std::size_t row_bytes(const Tensor& t);  // of one step of the first dimension
void copy_row(Tensor& t, std::int64_t from, std::int64_t to);
void fill_row(Tensor& t, std::int64_t row, int byte);
/// New first dimension rows.size(); -1 makes a row of zeros.
void take_rows(TensorSet& set, std::string_view name, const RowMap& rows);
/// Every input whose rows are tokens or (token, slot) pairs.
void take_tokens(const Problem& problem, TensorSet& set, const RowMap& tokens);

/// Multiplies fp32 elements [first, first + count).
void scale_values(Tensor& t, std::int64_t first, std::int64_t count, float factor);
void scale_all(TensorSet& set, std::string_view name, float factor);
/// bf16 elements times a power of two.
void scale_bf16(Tensor& t, float factor);

/// Writes codes and scales of one expert of a weight tensor ("w13", "w2", "w") and marks it as filled.
void fill_expert(TensorSet& set, std::string_view weights, std::int64_t expert, int code, float scale);
/// Columns [first, first + count) of the last dimension.
void take_columns(TensorSet& set, std::string_view name, const RowMap& columns);
/// Rows of the middle dimension of [experts, rows, columns] (or [experts, rows]).
void take_middle(TensorSet& set, std::string_view name, const RowMap& rows);

/// Activation rows of grouped_gemm: codes and scales, whatever the layout of the scales.
void take_activation_rows(const Problem& problem, TensorSet& set, const RowMap& rows);

}  // namespace moe::harness
