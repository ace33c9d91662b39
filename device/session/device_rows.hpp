// Where do a session's arrays lie on a machine? Rows of equal length whose stride is padded to 16 bytes, so
// that vector accesses and TMA reach every row, and plain arrays. Host tensors are packed; these functions
// add and strip the padding.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/machine.hpp"
#include "fixtures/problem/tensor.hpp"

namespace moe::device {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr std::int64_t blocks_of(std::int64_t value, std::int64_t block) {
  return (value + block - 1) / block;
}

/// The pointer a kernel receives for an address; null stays null.
template <class T>
T* pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

struct Rows {
  Address address = 0;
  std::int64_t rows = 0, columns = 0;
  std::size_t element = 1;  // bytes
  std::int64_t stride = 0;  // bytes, a multiple of 16

  std::int64_t row_bytes() const { return columns * std::int64_t(element); }
  std::int64_t stride_elements() const { return stride / std::int64_t(element); }
};

/// `bytes` of a name; at least 16, so that an empty array still has an address.
Address allocate(Machine& machine, std::int64_t bytes, BufferUse use, std::string name);
/// `count` i32 of an output, poisoned with what no integer of an op is.
std::int32_t* allocate_integers(Machine& machine, std::int64_t count, std::string name);
Rows allocate_rows(Machine& machine, std::int64_t rows, std::int64_t columns, std::size_t element,
                   BufferUse use, std::string name);

/// Packed host rows [first, first + count) -> device rows of the same numbers.
void upload_rows(Machine& machine, const Rows& to, const std::byte* packed, std::int64_t first,
                 std::int64_t count);
/// Device rows -> packed host bytes.
std::vector<std::byte> download_rows(Machine& machine, const Rows& from);

/// An input tensor as padded rows: `columns` elements each (its last dimension when 0).
Rows upload_tensor_rows(Machine& machine, const Tensor& tensor, std::int64_t columns = 0);
/// An input tensor as it is.
Address upload_tensor(Machine& machine, const Tensor& tensor);
/// A tensor whose bytes lie packed at `from`; rows without their padding.
Tensor downloaded(Machine& machine, std::string name, DType type, std::vector<std::int64_t> shape,
                  Address from);
Tensor downloaded_rows(Machine& machine, std::string name, DType type, const Rows& from);

/// Canonical tensor from sorted rows: row p = sorted row row_of_pair[p], zeros where it is -1.
Tensor unsorted_rows(Machine& machine, std::string name, DType type, const Rows& sorted,
                     const std::vector<std::int32_t>& row_of_pair);

template <class T>
std::vector<T> download_array(Machine& machine, Address from, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0) machine.download(values.data(), from, values.size() * sizeof(T));
  return values;
}

}  // namespace moe::device
