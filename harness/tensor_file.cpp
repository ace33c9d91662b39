#include "harness/tensor_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fixtures/files/safetensors.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/poison.hpp"
#include "harness/child_process.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kGuardBytes = 1024, kPage = 4096;
constexpr const char* kFilledPrefix = "filled.";  // metadata: "1" and "0" a group

[[noreturn]] void fail(const char* what) {
  throw MachineFailure(fmt::format("cannot share tensors with a worker: {}: {}", what, std::strerror(errno)));
}

/// Bytes of a guard that begins at `at` and ends where a tensor may begin.
std::size_t guard_bytes(std::size_t at) {
  const std::size_t end = (at + kGuardBytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  return end - at;
}

void copy_bytes(std::byte* to, const Tensor& t) {
  if (t.bytes() == 0) return;
  if (t.filled_groups.empty()) {
    std::memcpy(to, t.data(), t.bytes());
    return;
  }
  const std::size_t group = t.bytes() / t.filled_groups.size();
  for (std::size_t g = 0; g < t.filled_groups.size(); ++g)
    if (t.filled_groups[g]) std::memcpy(to + g * group, t.data() + g * group, group);
}

Json entry(std::string_view type, const std::vector<std::int64_t>& shape, std::size_t begin,
           std::size_t end) {
  Json one;
  one["dtype"] = type;
  one["shape"] = shape;
  one["data_offsets"] = {begin, end};
  return one;
}

Json metadata(const TensorSet& tensors) {
  Json all = Json::object();
  for (const Tensor& t : tensors.all()) {
    if (t.filled_groups.empty()) continue;
    std::string bits;
    for (const std::uint8_t filled : t.filled_groups) bits += filled ? '1' : '0';
    all[kFilledPrefix + t.name()] = bits;
  }
  return all;
}

}  // namespace

struct TensorFile::Memory {
  Descriptor file;
  std::byte* bytes = nullptr;
  std::size_t size = 0;

  /// `whole`: every page will be written, so that all are fetched in one call instead of at a fault each.
  Memory(std::size_t n, bool whole) : size(n) {
    const int low = ::memfd_create("moeproof tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (low < 0) fail("memfd_create");
    file = Descriptor(low);
    if (::ftruncate(low, off_t(n)) != 0) fail("ftruncate");
    if (::fcntl(low, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("seal");
    void* at = ::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | (whole ? MAP_POPULATE : 0), low, 0);
    if (at == MAP_FAILED) fail("mmap");
    bytes = static_cast<std::byte*>(at);
  }
  ~Memory() {
    if (bytes != nullptr) ::munmap(bytes, size);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

TensorFile::TensorFile(const TensorSet& like, bool copy) {
  Json header;
  if (const Json known = metadata(like); copy && !known.empty()) header["__metadata__"] = known;
  std::size_t at = 0;
  const auto add_guard = [&](std::string behind, std::string before) {
    const std::size_t bytes = guard_bytes(at);
    header[std::string(kGuardPrefix) + std::to_string(guards_.size())] =
        entry("U8", {std::int64_t(bytes)}, at, at + bytes);
    guards_.push_back({at, at + bytes, std::move(behind), std::move(before)});
    at += bytes;
  };
  std::vector<std::size_t> begins;
  for (const Tensor& t : like.all()) {
    add_guard(begins.empty() ? "" : like.all()[begins.size() - 1].name(), t.name());
    header[t.name()] = entry(safetensors_name(t.dtype()), t.shape(), at, at + t.bytes());
    begins.push_back(at);
    at += t.bytes();
  }
  add_guard(like.all().empty() ? "" : like.all().back().name(), "");
  std::string text = header.dump();
  const std::size_t data = (8 + text.size() + kPage - 1) / kPage * kPage;  // tensors begin aligned
  text.resize(data - 8, ' ');
  const bool whole = std::all_of(like.all().begin(), like.all().end(),
                                 [](const Tensor& t) { return t.filled_groups.empty(); });
  memory_ = std::make_shared<Memory>(data + at, whole);
  const std::uint64_t length = text.size();
  std::memcpy(memory_->bytes, &length, sizeof length);
  std::memcpy(memory_->bytes + 8, text.data(), text.size());
  for (Guard& guard : guards_) {
    guard.begin += data, guard.end += data;
    std::memset(memory_->bytes + guard.begin, kGuardByte, guard.end - guard.begin);
  }
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const Tensor& t = like.all()[i];
    std::byte* const place = memory_->bytes + data + begins[i];
    if (copy)
      copy_bytes(place, t);
    else
      std::memset(place, poison_of(t.dtype()), t.bytes());
    Tensor shared(t.name(), t.dtype(), t.shape(), place, memory_);
    if (copy) shared.filled_groups = t.filled_groups;
    tensors_.add(std::move(shared));
  }
}

TensorFile TensorFile::of(const TensorSet& tensors) { return TensorFile(tensors, true); }
TensorFile TensorFile::poisoned(const TensorSet& like) { return TensorFile(like, false); }

std::string TensorFile::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), memory_->file.get());
}

std::string TensorFile::damage() const {
  for (const Guard& guard : guards_) {
    const std::byte *begin = memory_->bytes + guard.begin, *end = memory_->bytes + guard.end;
    const auto written = [](std::byte b) { return b != std::byte{kGuardByte}; };
    const std::byte* first = std::find_if(begin, end, written);
    if (first == end) continue;
    const std::byte* last = end;
    while (!written(last[-1])) --last;
    const bool behind = guard.before.empty() || (!guard.behind.empty() && first - begin < end - last);
    return fmt::format("the kernel wrote out of bounds: {} bytes {} '{}'",
                       behind ? last - begin : end - first, behind ? "behind the end of" : "in front of",
                       behind ? guard.behind : guard.before);
  }
  return "";
}

bool TensorFile::holes_were_filled(const Tensor& shared) const {
  if (shared.filled_groups.empty()) return false;
  const std::size_t group = shared.bytes() / shared.filled_groups.size(),
                    first = std::size_t(shared.data() - memory_->bytes);
  const auto seek = [&](std::size_t from, int whence) {
    const off_t found = ::lseek(memory_->file.get(), off_t(from), whence);
    return found < 0 ? memory_->size : std::size_t(found);
  };
  for (std::size_t g = 0; g < shared.filled_groups.size(); ++g) {
    if (shared.filled_groups[g]) continue;
    const std::size_t end = first + (g + 1) * group;
    for (std::size_t at = seek(first + g * group, SEEK_DATA); at < end; at = seek(at, SEEK_DATA)) {
      const std::size_t stop = std::min(end, seek(at, SEEK_HOLE));
      if (std::any_of(memory_->bytes + at, memory_->bytes + stop,
                      [](std::byte b) { return b != std::byte{}; }))
        return true;
      if (stop == end) break;
      at = stop;
    }
  }
  return false;
}

namespace {

TensorSet tensors_of(const Safetensors& file) {
  TensorSet set;
  for (const StoredTensor& stored : file.tensors()) {
    if (stored.name.starts_with(kGuardPrefix)) continue;
    Tensor t = file.tensor(stored.name);
    if (const auto filled = file.metadata().find(kFilledPrefix + stored.name);
        filled != file.metadata().end())
      for (const char bit : filled->second) t.filled_groups.push_back(bit == '1');
    set.add(std::move(t));
  }
  return set;
}

}  // namespace

TensorSet read_tensor_file(const std::string& path) { return tensors_of(Safetensors(path)); }

TensorSet copy_tensor_file(const std::string& path, std::size_t most) {
  TensorSet set = tensors_of(Safetensors(path, most));
  for (Tensor& t : set.all()) t.filled_groups.clear();  // a kernel writes all of its outputs
  return set;
}

TensorSet copy_of(const TensorSet& tensors) {
  TensorSet copies;
  for (const Tensor& t : tensors.all()) {
    Tensor own(t.name(), t.dtype(), t.shape());
    own.filled_groups = t.filled_groups;
    copy_bytes(own.data(), t);
    copies.add(std::move(own));
  }
  return copies;
}

}  // namespace moe::harness
