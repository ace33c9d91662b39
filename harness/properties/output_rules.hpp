// Do the outputs of two runs agree as a property says? Rows of one run are held against rows of the other,
// equal to the bit, equal times a power of two, or within a bound; only rows that somebody owns count
// (fixtures/README.md).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/properties/subject.hpp"

namespace moe::harness {

/// What the rows of `got` must be, given `want`.
struct Rule {
  RowMap tokens,
      pairs;  // row of `want` that row i of `got` must equal; -1: nothing is asked of it; empty: its own
  std::map<std::string, double, std::less<>> times;  // tensors that grow by a power of two
  bool any_zero = false;                             // +0 equals -0
  std::vector<std::string> tensors;                  // only these; empty: all
};

/// Where the first difference is, "out row 5 column 7 is 0.5, 0.25 is due"; empty where all rows agree. Reads
/// the tensors in the order of a layer. Which pair rows count follows from `ids`, the inputs of `got`.
std::string difference(Subject& s, const TensorSet& got_inputs, const TensorSet& got, const TensorSet& want,
                       const Rule& rule = {});

/// Rows of `out` (or `c`) that must be zero of either sign.
std::string nonzero_row(Subject& s, const TensorSet& got, std::string_view tensor,
                        const std::vector<std::int64_t>& rows);
/// The first NaN or infinity of the outputs among owned rows.
std::string not_finite(Subject& s, const TensorSet& got_inputs, const TensorSet& got);

/// Element i of a floating tensor (bf16, f32, e4m3).
double value_at(const Tensor& t, std::int64_t i);

/// |a - b| <= bound for elements of `out`: the first that is not.
struct Bounded {
  double got = 0, want = 0, bound = 0;
};
std::string outside(Subject& s, const char* tensor, std::int64_t row, std::int64_t column, const Bounded& b);

/// Rows of the flattened c that a group owns, with their local expert.
struct OwnedRow {
  std::int64_t row = 0, activation = 0;  // of c, of a_codes
  std::int32_t expert = -1;
};
std::vector<OwnedRow> owned_rows(const Problem& problem, const TensorSet& inputs);

}  // namespace moe::harness
