#include "device/session/device_rows.hpp"

#include <algorithm>
#include <cstring>

#include "fixtures/problem/poison.hpp"

namespace moe::device {

Address allocate(Machine& machine, std::int64_t bytes, BufferUse use, std::string name) {
  return machine.allocate(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 16)), use, std::move(name));
}

std::int32_t* allocate_integers(Machine& machine, std::int64_t count, std::string name) {
  const std::int64_t bytes = count * std::int64_t(sizeof(std::int32_t));
  const Address at = allocate(machine, bytes, BufferUse::output, std::move(name));
  machine.fill(at, poison_of(DType::i32), std::size_t(bytes));
  return pointer<std::int32_t>(at);
}

Rows allocate_rows(Machine& machine, std::int64_t rows, std::int64_t columns, std::size_t element,
                   BufferUse use, std::string name) {
  Rows made{0, rows, columns, element, round_up(columns * std::int64_t(element), 16)};
  made.address = allocate(machine, made.stride * rows, use, std::move(name));
  return made;
}

void upload_rows(Machine& machine, const Rows& to, const std::byte* packed, std::int64_t first,
                 std::int64_t count) {
  if (count <= 0 || to.columns == 0) return;
  const Address address = to.address + Address(first * to.stride);
  packed += first * to.row_bytes();
  if (to.stride == to.row_bytes()) {
    machine.upload(address, packed, static_cast<std::size_t>(count * to.stride));
    return;
  }
  std::vector<std::byte> padded(static_cast<std::size_t>(count * to.stride));
  for (std::int64_t r = 0; r < count; ++r) {
    std::memcpy(padded.data() + r * to.stride, packed + r * to.row_bytes(), std::size_t(to.row_bytes()));
  }
  machine.upload(address, padded.data(), padded.size());
}

std::vector<std::byte> download_rows(Machine& machine, const Rows& from) {
  std::vector<std::byte> padded(static_cast<std::size_t>(from.rows * from.stride));
  if (!padded.empty()) machine.download(padded.data(), from.address, padded.size());
  if (from.stride == from.row_bytes()) return padded;
  std::vector<std::byte> packed(static_cast<std::size_t>(from.rows * from.row_bytes()));
  for (std::int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(packed.data() + r * from.row_bytes(), padded.data() + r * from.stride,
                std::size_t(from.row_bytes()));
  }
  return packed;
}

Rows upload_tensor_rows(Machine& machine, const Tensor& tensor, std::int64_t columns) {
  if (columns == 0) columns = tensor.dim(int(tensor.shape().size()) - 1);
  const std::int64_t rows = columns == 0 ? 0 : tensor.size() / columns;
  const Rows made =
      allocate_rows(machine, rows, columns, size_of(tensor.dtype()), BufferUse::input, tensor.name());
  upload_rows(machine, made, tensor.data(), 0, rows);
  return made;
}

Address upload_tensor(Machine& machine, const Tensor& tensor) {
  const Address address = allocate(machine, std::int64_t(tensor.bytes()), BufferUse::input, tensor.name());
  if (!tensor.empty()) machine.upload(address, tensor.data(), tensor.bytes());
  return address;
}

Tensor downloaded(Machine& machine, std::string name, DType type, std::vector<std::int64_t> shape,
                  Address from) {
  Tensor tensor(std::move(name), type, std::move(shape));
  if (!tensor.empty()) machine.download(tensor.data(), from, tensor.bytes());
  return tensor;
}

Tensor downloaded_rows(Machine& machine, std::string name, DType type, const Rows& from) {
  Tensor tensor(std::move(name), type, {from.rows, from.columns});
  const std::vector<std::byte> packed = download_rows(machine, from);
  if (!packed.empty()) std::memcpy(tensor.data(), packed.data(), packed.size());
  return tensor;
}

Tensor unsorted_rows(Machine& machine, std::string name, DType type, const Rows& sorted,
                     const std::vector<std::int32_t>& row_of_pair) {
  Tensor canonical(std::move(name), type, {std::int64_t(row_of_pair.size()), sorted.columns});
  const std::vector<std::byte> rows = download_rows(machine, sorted);
  for (std::size_t p = 0; p < row_of_pair.size(); ++p) {
    if (row_of_pair[p] < 0) continue;
    std::memcpy(canonical.data() + std::int64_t(p) * sorted.row_bytes(),
                rows.data() + row_of_pair[p] * sorted.row_bytes(), std::size_t(sorted.row_bytes()));
  }
  return canonical;
}

}  // namespace moe::device
