// Which runs of the conformance kernels are recorded? Inputs that are the same on every machine, and a hash
// of all the output bytes a case gives: one line "case hash" each, so that a card and the emulated SM can be
// compared.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device/hopper/conformance/conformance_params.hpp"
#include "device/machine.hpp"
#include "tests/device/scramble.hpp"

namespace moe::test {

namespace conformance = hopper::conformance;

inline int conformance_index(std::string_view name) {
  for (int i = 0; i < conformance::kKernelCount; ++i)
    if (name == conformance::kKernels[i].name) return i;
  throw std::logic_error("no such kernel");
}

inline std::string fnv1a(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t h = 0xCBF29CE484222325ull;
  for (std::uint8_t b : bytes) h = (h ^ b) * 0x100000001B3ull;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[h >> shift & 15];
  return text;
}

class ConformanceRun {
 public:
  explicit ConformanceRun(device::Machine& machine) : machine_(machine) {}

  /// All cases that a card has recorded, in a fixed order.
  std::vector<std::string> lines() {
    for (int n : conformance::kWgmmaWidths) wgmma(n);
    for (const auto& [x, y] :
         {std::pair{0, 0}, {128, 64}, {144, 3}, {-16, -5}, {0, 100}, {-128, 0}, {192, 99}})
      box(x, y);
    for (int n : {16, 1040, 4096}) bulk(n);
    mma();
    for (int batch = 0; batch < 64; ++batch) convert(batch);
    run("exchange", "exchange", 64 * 5 * 4);
    reduce();
    for (int batch = 0; batch < 4; ++batch) redux(batch);
    layout("wgmma_b64", hopper::Swizzle::b64);
    layout("wgmma_b32", hopper::Swizzle::b32);
    layout("wgmma_none", hopper::Swizzle::none);
    for (const hopper::Swizzle s : {hopper::Swizzle::b64, hopper::Swizzle::b32, hopper::Swizzle::none})
      for (const auto& [x, y] : {std::pair{64, 3}, {-16, -5}, {192, 80}}) box(x, y, s);
    params_.in = reinterpret_cast<const std::uint8_t*>(put(codes(64, 21)));
    run("phases", "phases", 9 * 4);
    params_.in = reinterpret_cast<const std::uint8_t*>(put(codes(128 * 4, 22)));
    run("grid_words", "grid_words", (64 + 128 * 4) * 4, 4, 0);
    params_.in = reinterpret_cast<const std::uint8_t*>(put(codes(128 * 4, 23)));
    run("registers", "registers", 384 * 4);
    return std::move(lines_);
  }

 private:
  device::Address put(const std::vector<std::uint8_t>& bytes) {
    const device::Address a = machine_.allocate(bytes.size(), device::BufferUse::input, "in");
    machine_.upload(a, bytes.data(), bytes.size());
    return a;
  }
  /// Small integers as e4m3: exact in any order of summation.
  std::vector<std::uint8_t> codes(std::size_t count, std::uint64_t seed) {
    static constexpr std::uint8_t kCodes[] = {0xC8, 0xC4, 0xC0, 0xB8, 0x00,
                                              0x38, 0x40, 0x44, 0x48};  // -4 .. 4
    Scramble random{seed};
    std::vector<std::uint8_t> all(count);
    for (auto& code : all) code = kCodes[random.below(9)];
    return all;
  }
  void run(const char* kernel, const std::string& name, std::size_t out_bytes, unsigned grid = 1,
           int fill = 0xEE) {
    const int i = conformance_index(kernel);
    const device::Address out = machine_.allocate(out_bytes, device::BufferUse::output, "out");
    machine_.fill(out, std::uint8_t(fill), out_bytes);
    params_.out = reinterpret_cast<std::uint8_t*>(out);
    device::LaunchConfig config{grid, unsigned(conformance::kKernels[i].threads),
                                std::size_t(conformance::kKernels[i].shared_bytes)};
    config.cooperative = name == "grid_words";
    device::launch(machine_, i, config, params_);
    machine_.synchronize();
    std::vector<std::uint8_t> bytes(out_bytes);
    machine_.download(bytes.data(), out, out_bytes);
    lines_.push_back(name + " " + fnv1a(bytes));
    machine_.release_all();
    params_ = {};
  }
  void wgmma(int n) {
    params_.a = machine_.tensor_map(put(codes(64 * 128, std::uint64_t(n))), 64, 128, 128, 64);
    params_.b = machine_.tensor_map(put(codes(std::size_t(n) * 128, std::uint64_t(n) + 1)), std::uint64_t(n),
                                    128, 128, unsigned(n));
    const std::string name = "wgmma_" + std::to_string(n);
    run(name.c_str(), name, std::size_t(64 * n * 4));
  }
  void layout(const char* name, hopper::Swizzle swizzle) {
    const auto map = [&](std::uint64_t seed) {
      return machine_.tensor_map(put(codes(64 * 128, seed)), 64, 128, 128, 64, swizzle);
    };
    params_.a = map(31);
    params_.b = map(32);
    run(name, name, 64 * 64 * 4);
  }
  void box(int x, int y, hopper::Swizzle swizzle = hopper::Swizzle::b128) {
    std::vector<std::uint8_t> bytes(100 * 240);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::uint8_t(1 + i % 251);
    params_.a = machine_.tensor_map(put(bytes), 100, 208, 240, 64, swizzle);
    params_.x = x;
    params_.y = y;
    params_.n = std::int32_t(row_bytes(swizzle));
    const std::string width = swizzle == hopper::Swizzle::b128 ? "" : std::to_string(params_.n) + "_";
    run("tma_box", "tma_box_" + width + std::to_string(x) + "_" + std::to_string(y),
        64 * std::size_t(params_.n));
  }
  void bulk(int n) {
    params_.in = reinterpret_cast<const std::uint8_t*>(put(codes(4096, 77)));
    params_.n = n;
    run("bulk_copy", "bulk_copy_" + std::to_string(n), 4096);
  }
  void mma() {
    params_.in = reinterpret_cast<const std::uint8_t*>(put(codes(16 * 16 + 8 * 16, 5)));
    run("mma", "mma", 16 * 8 * 4);
  }
  /// Random patterns (NaN, infinity and subnormals among them), and every 4th batch numbers near the formats'
  /// borders.
  void convert(int batch) {
    Scramble random{std::uint64_t(1000 + batch)};
    std::vector<std::uint8_t> bytes(128 * 4);
    for (std::size_t i = 0; i < 128; ++i) {
      std::uint32_t bits = std::uint32_t(random.below(65536)) << 16 | std::uint32_t(random.below(65536));
      if (batch % 4 == 0) bits = (bits & 0x807FFFFFu) | std::uint32_t(110 + random.below(30)) << 23;
      if (batch % 4 == 0 && i % 2) bits &= 0xFFF80000u;  // ties of e4m3 and bf16
      for (int b = 0; b < 4; ++b) bytes[4 * i + std::size_t(b)] = std::uint8_t(bits >> (8 * b));
    }
    params_.in = reinterpret_cast<const std::uint8_t*>(put(bytes));
    params_.n = 128;
    run("convert", "convert_" + std::to_string(batch), 128 * 32);
  }
  void reduce() {
    params_.in = reinterpret_cast<const std::uint8_t*>(put(codes(128 * 4, 9)));
    run("reduce", "reduce", 8, 50, 0);
  }

  /// Values all over the range, values of one sign bit, equal values, zeros.
  void redux(int batch) {
    Scramble random{std::uint64_t(2000 + batch)};
    std::vector<std::uint8_t> bytes(64 * 4);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = std::uint8_t(batch == 3   ? 0
                              : batch == 2 ? 0x5A
                                           : random.below(256) | (batch == 1 && i % 4 == 3 ? 128 : 0));
    params_.in = reinterpret_cast<const std::uint8_t*>(put(bytes));
    run("redux", "redux_" + std::to_string(batch), 64 * 8);
  }

  device::Machine& machine_;
  conformance::Params params_{};
  std::vector<std::string> lines_;
};

}  // namespace moe::test
