#include "device/emulator/emulated_machine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/sm90.hpp"

namespace moe::device {
namespace {

constexpr std::size_t kPage = 4096;

bool all_zero(const std::byte* p, std::size_t bytes) {
  return bytes == 0 || (p[0] == std::byte{0} && std::memcmp(p, p + 1, bytes - 1) == 0);
}

}  // namespace

EmulatedMachine::EmulatedMachine(std::span<const EmulatedKernel> kernels, emulator::Options options, int sms)
    : kernels_(kernels), options_(options), sms_(sms) {}

Address EmulatedMachine::allocate(std::size_t bytes, BufferUse use, std::string name) {
  void* p = memory_.allocate(bytes, std::move(name), use == BufferUse::input);
  if (use != BufferUse::input) std::memset(p, 0xFF, bytes);
  return reinterpret_cast<Address>(p);
}

Address EmulatedMachine::adopt(const void* p, std::size_t bytes, std::string name) {
  memory_.adopt(p, bytes, std::move(name), true);
  return reinterpret_cast<Address>(p);
}

void EmulatedMachine::release_all() {
  emulator_.synchronize();
  memory_.release_all();
  graphs_.clear();
}

void EmulatedMachine::upload(Address to, const void* from, std::size_t bytes) {
  emulator_.synchronize();
  auto* target = reinterpret_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t i = 0; i < bytes; i += kPage) {  // zero pages stay untouched: sparse weights stay sparse
    const std::size_t n = std::min(kPage, bytes - i);
    if (!all_zero(source + i, n) || !all_zero(target + i, n)) std::memcpy(target + i, source + i, n);
  }
}

void EmulatedMachine::download(void* to, Address from, std::size_t bytes) {
  if (bytes) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
}

void EmulatedMachine::fill(Address to, std::uint8_t byte, std::size_t bytes) {
  emulator_.synchronize();
  if (bytes) std::memset(reinterpret_cast<void*>(to), byte, bytes);
}

hopper::TensorMap EmulatedMachine::tensor_map(Address base, std::uint64_t rows, std::uint64_t cols,
                                              std::uint64_t stride, unsigned box_rows,
                                              hopper::Swizzle swizzle) {
  if (base % 16 || stride % sm90::kTensorMapStrideAlignment || box_rows == 0 ||
      box_rows > unsigned(sm90::kTensorMapMaxBox) || rows == 0 || cols == 0)
    throw BadInput(
        "tensor map of " + std::to_string(rows) + " x " + std::to_string(cols) + " bytes, stride " +
        std::to_string(stride) + ", box of " + std::to_string(box_rows) +
        " rows: base and stride must be multiples of 16, the box 1..256 rows, the matrix not empty");
  const hopper::EmulatedTensorMap described{base,   rows, cols, stride, box_rows, hopper::row_bytes(swizzle),
                                            swizzle};
  hopper::TensorMap map{};
  std::memcpy(&map, &described, sizeof described);
  return map;
}

void EmulatedMachine::launch(int variant, const LaunchConfig& config, const void* params,
                             std::size_t params_bytes) {
  if (variant < 0 || std::size_t(variant) >= kernels_.size() || !kernels_[std::size_t(variant)].run)
    throw BadInput("kernel variant " + std::to_string(variant) + " is not in this build");
  const EmulatedKernel& kernel = kernels_[std::size_t(variant)];
  if (kernel.params_bytes != params_bytes)
    throw BadInput(std::string(kernel.name) + " takes " + std::to_string(kernel.params_bytes) +
                   " bytes of parameters and was given " + std::to_string(params_bytes));
  emulator::LaunchResult result =
      emulator_.launch({kernel.run, params, params_bytes, config.grid, config.block, config.shared_bytes,
                        kernel.name, config.cooperative, config.dependent},
                       options_);
  for (const emulator::Report& r : result.reports)
    reports_.push_back(std::string(kernel.name) + ": " + r.sentence());
  counts_ += result.counts;
  trace_ = std::move(result.traces);
}

std::vector<std::string> EmulatedMachine::take_reports() { return std::exchange(reports_, {}); }

bool EmulatedMachine::take_counts(Counts& counts) {
  counts = std::exchange(counts_, {});
  return true;
}

int EmulatedMachine::record(const std::function<void()>& body) {
  graphs_.push_back(body);
  return int(graphs_.size()) - 1;
}

void EmulatedMachine::replay(int graph) { graphs_.at(std::size_t(graph))(); }

double EmulatedMachine::time_of(const std::function<void()>& body) {
  body();
  return -1;
}

}  // namespace moe::device
