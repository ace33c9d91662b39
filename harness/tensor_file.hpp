// How do tensors reach another process? As a safetensors file in memory that both sides map: any program
// opens its path. Every tensor lies between two guard tensors of NaN bytes, so that what a kernel writes
// beside its tensors is seen. Groups that were never filled stay holes: a sparse weight tensor costs only its
// active experts.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/problem/tensor.hpp"

namespace moe::harness {

/// Tensors of this name are no tensors of the op: "guard.0", "guard.1", ...
inline constexpr std::string_view kGuardPrefix = "guard.";
/// Every byte of the guards.
inline constexpr std::uint8_t kGuardByte = 0xFF;
/// Where the bytes of a tensor may begin: what vector loads and TMA ask for, and more.
inline constexpr std::size_t kTensorAlignment = 256;

/// Its size is fixed: the other side can neither cut it short nor make it longer.
class TensorFile {
 public:
  /// Copies the bytes of `tensors`; throws MachineFailure where memory is short.
  static TensorFile of(const TensorSet& tensors);
  /// Tensors of these names, types and shapes, every byte that of poison_of its type.
  static TensorFile poisoned(const TensorSet& like);

  /// "/proc/PID/fd/N": any process of this user opens it as long as this object lives.
  std::string path() const;
  /// Views of the shared bytes; they live as long as this object.
  const TensorSet& tensors() const { return tensors_; }
  /// One line about the first guard that was written to; empty = none was.
  std::string damage() const;
  /// True where `shared`, one of tensors(), holds a byte that is not 0 in a group that was never filled.
  /// Holes that nobody touched are not looked at: that would fill them with memory.
  bool holes_were_filled(const Tensor& shared) const;

 private:
  struct Memory;  // descriptor and mapping
  struct Guard {
    std::size_t begin = 0, end = 0;
    std::string behind, before;  // its neighbours; empty at the ends of the file
  };
  TensorFile(const TensorSet& like, bool copy);

  std::shared_ptr<Memory> memory_;
  TensorSet tensors_;
  std::vector<Guard> guards_;
};

/// The tensors of a file that another process made, guards left out, with Tensor::filled_groups as they were
/// written; views of the mapped file. Throws BadInput.
TensorSet read_tensor_file(const std::string& path);
/// The same of a file that its maker may still change or cut short: all of it is read into memory first.
/// Throws BadInput also where it is longer than `most` bytes.
TensorSet copy_tensor_file(const std::string& path, std::size_t most);

/// Copies of their own.
TensorSet copy_of(const TensorSet& tensors);

}  // namespace moe::harness
