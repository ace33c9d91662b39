#include "harness/shared_tensors.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/text.hpp"

namespace moe::harness {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

[[noreturn]] void fail(const char* what) {
  throw MachineFailure(fmt::format("cannot share tensors with a worker: {}: {}", what, std::strerror(errno)));
}

std::shared_ptr<std::byte> map_memory(int memory, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) fail("mmap");
  return {static_cast<std::byte*>(at), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

/// The filled groups of `t`, or all of it.
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

Json describe(const Tensor& t, std::size_t offset) {
  Json one;
  one["name"] = t.name();
  one["type"] = name(t.dtype());
  one["shape"] = t.shape();
  one["offset"] = offset;
  if (!t.filled_groups.empty()) one["filled"] = t.filled_groups;
  return one;
}

}  // namespace

Json put_tensors(int memory, const TensorSet& tensors) {
  Json description = Json::array();
  std::size_t total = 0;
  for (const Tensor& t : tensors.all()) {
    description.push_back(describe(t, total));
    total += round_up(t.bytes());
  }
  if (::ftruncate(memory, 0) != 0 || ::ftruncate(memory, off_t(total)) != 0) fail("ftruncate");
  const auto base = map_memory(memory, total);
  for (std::size_t i = 0; i < tensors.all().size(); ++i)
    copy_bytes(base.get() + description[i]["offset"].get<std::size_t>(), tensors.all()[i]);
  return description;
}

TensorSet get_tensors(int memory, const Json& description, bool copy) {
  const off_t bytes = ::lseek(memory, 0, SEEK_END);
  if (bytes < 0) fail("lseek");
  const auto base = map_memory(memory, std::size_t(bytes));
  TensorSet set;
  for (const Json& one : description) {
    const auto offset = one.at("offset").get<std::size_t>();
    const auto type = parse_name("type", one.at("type").get<std::string>(), DType::ue8m0);
    Tensor t(one.at("name").get<std::string>(), type, one.at("shape").get<std::vector<std::int64_t>>(),
             base.get() + offset, base);
    if (offset + t.bytes() > std::size_t(bytes))
      throw MachineFailure("a worker described a tensor beyond its memory");
    if (one.contains("filled")) t.filled_groups = one["filled"].get<std::vector<std::uint8_t>>();
    if (copy) {
      Tensor own(t.name(), t.dtype(), t.shape());
      own.filled_groups = t.filled_groups;
      copy_bytes(own.data(), t);
      set.add(std::move(own));
    } else {
      set.add(std::move(t));
    }
  }
  return set;
}

}  // namespace moe::harness
