// Does one stage's output equal what it should be, and if not, where and how is it off? Judged per expert and
// per 128-column block: to the bit where the kernel's roundings are known, else against an interval per
// element.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fixtures/problem/tensor.hpp"
#include "fixtures/problem/verdict.hpp"
#include "harness/judged_rows.hpp"

namespace moe::harness {

/// `got` is the kernel's tensor, [.., columns]; rows are numbered over all outer dimensions. Element (i, c)
/// of what is due answers element (rows[i].row, c) of `got`: either `bits`, or an interval that every correct
/// output lies in.
struct StagePair {
  std::string stage;
  const Tensor* got = nullptr;
  DType type = DType::bf16;  // that is due
  std::int64_t columns = 0;
  std::span<const JudgedRow> rows;
  const Tensor* bits = nullptr;                // [rows.size(), columns]
  const Tensor* most = nullptr;                // beside bits: all from `bits` to `most` is right; else null
  std::span<const float> want, low, high;      // [rows.size(), columns]; read where bits is null
  std::span<const float> hard_low, hard_high;  // around a [low, high] that is only probable; else empty
  int block_columns = 128;                     // 1 for tensors of scales
  int block_m = 0;                             // tokens of a tile, for the place; 0 = no tiles

  bool to_the_bit() const { return bits != nullptr; }
};

struct WrongElement {
  std::size_t judged = 0;  // index into rows
  std::int64_t column = 0;
  double got = 0, want = 0;
  std::int64_t ulp = 0;
  bool poison = false;  // every byte is poison_of the type: what outputs hold before the launch
};

struct StageFindings {
  std::int64_t checked = 0, wrong = 0;
  std::int64_t outside_hard = 0;       // of the wrong ones
  std::int64_t open = 0;               // elements with more than one right value (StagePair::most)
  std::optional<Place> worst;          // by share of the allowed distance, else by ulp
  std::int64_t worst_rank = -1;        // its row among its expert's, -1 = no expert's
  bool worst_unwritten = false;        // it holds what it held before the launch
  std::vector<BlockVerdict> blocks;    // expert, then column block
  std::vector<WrongElement> elements;  // the first million wrong ones
  std::string shape_error;  // the tensor is missing or has another type or shape; nothing was judged
  /// Something was judged that an all-zero output would have got wrong: not all due values are zero, and not
  /// all intervals hold zero.
  bool could_fail = false;
};

StageFindings compare_stage(const StagePair& pair);

/// Whether element `i` of `got` is one of the numbers from element `at` of `least` to that of `most`; zeros
/// by their signs, NaN beside NaN.
bool is_between(const Tensor& got, std::int64_t i, const Tensor& least, const Tensor& most, std::int64_t at);

/// Both numbers in `form` ("got {}, due {}"), with six digits, or as many as tell them apart.
std::string two_values(const char* form, double first, double second);

/// Element `i` of `data` as a number.
double value_of(DType type, const std::byte* data, std::int64_t i);

}  // namespace moe::harness
