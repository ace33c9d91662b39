// What do the tests of kernels and sessions share? An emulated machine with plain arithmetic, arrays on it,
// and noise. The arithmetic of a tensor-core instruction is a double sum here: these tests are about data
// movement, and both sides use the same function, so they still compare bits.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/emulator/emulated_machine.hpp"
#include "device/kernels/emulated_variants.hpp"
#include "device/session/device_rows.hpp"
#include "fixtures/problem/mma_step.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "fixtures/problem/philox.hpp"

namespace moe::device {

/// d + sum of a[k] * b[k], rounded once.
inline float dot_codes(const std::uint8_t* a, const std::uint8_t* b, int count, float d) {
  double sum = d;
  for (int k = 0; k < count; ++k) sum += double(decode_e4m3(a[k])) * double(decode_e4m3(b[k]));
  return static_cast<float>(sum);
}

/// Exact value of an f16 (no infinities or NaN here).
inline double f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * 0x1p-25 * double(1u << exponent);
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline MmaStep plain_arithmetic() {
  return {[](const std::uint8_t* a, const std::uint8_t* b, float* d, int n, bool zero_d) {
            for (int i = 0; i < 64; ++i) {
              for (int j = 0; j < n; ++j) {
                float& x = d[i * n + j];
                x = dot_codes(a + 32 * i, b + 32 * j, 32, zero_d ? 0.0f : x);
              }
            }
          },
          [](const std::uint16_t* a, const std::uint16_t* b, const float* c, float* d) {
            for (int i = 0; i < 16; ++i) {
              for (int j = 0; j < 8; ++j) {
                double sum = c[8 * i + j];
                for (int k = 0; k < 16; ++k) sum += f16_value(a[16 * i + k]) * f16_value(b[16 * j + k]);
                d[8 * i + j] = static_cast<float>(sum);
              }
            }
          }};
}

inline std::shared_ptr<Machine> emulated_machine() {
  emulator::Options options;
  options.arithmetic = plain_arithmetic();
  options.threads = 2;
  return std::make_shared<EmulatedMachine>(emulated_variants(), options, 4);
}

template <class T>
Address put(Machine& machine, const std::vector<T>& values, std::string name = "input") {
  const Address address =
      allocate(machine, std::int64_t(values.size() * sizeof(T)), BufferUse::input, std::move(name));
  if (!values.empty()) machine.upload(address, values.data(), values.size() * sizeof(T));
  return address;
}

template <class T>
Address room(Machine& machine, std::int64_t count, std::string name = "output") {
  return allocate(machine, count * std::int64_t(sizeof(T)), BufferUse::output, std::move(name));
}

/// Uniform bits as a function of (seed, i).
inline std::uint32_t noise(std::uint64_t seed, std::uint64_t i) { return random_block(seed, 99, i).x; }
/// Uniform in [-1, 1).
inline float noise_float(std::uint64_t seed, std::uint64_t i) {
  return float(std::int32_t(noise(seed, i))) * 0x1p-31f;
}

/// bf16 values whose magnitudes spread over several powers of two, rows unlike each other.
inline std::vector<std::uint16_t> noise_bf16(std::uint64_t seed, std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = encode_bf16(noise_float(seed, i) * float(1u << (noise(seed, i / 64 + 1'000'000) % 6)));
  }
  return values;
}

/// e4m3 codes without NaN.
inline std::vector<std::uint8_t> noise_codes(std::uint64_t seed, std::int64_t count) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = encode_e4m3(noise_float(seed, i) * 4.0f);
  return codes;
}

}  // namespace moe::device
