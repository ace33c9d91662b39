// The shared part of the emulator's tests (in a *_test.cpp, so that the folder's program has it).
#include "device/hopper/emulated_math.hpp"
#include "fixtures/problem/number_formats.hpp"
#include "tests/device/emulator_fixture.hpp"

namespace moe::test {
namespace {

float f16_value(std::uint16_t h) {  // finite numbers only
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float magnitude = exponent ? __builtin_ldexpf(float(1024 + fraction), exponent - 25)
                                   : __builtin_ldexpf(float(fraction), -24);
  return h & 0x8000 ? -magnitude : magnitude;
}

void wgmma(const std::uint8_t* a, const std::uint8_t* b, float* d, int n, bool zero_d) {
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = zero_d ? 0.0f : d[i * n + j];
      for (int k = 0; k < 32; ++k) sum += decode_e4m3(a[i * 32 + k]) * decode_e4m3(b[j * 32 + k]);
      d[i * n + j] = sum;
    }
}

void mma(const std::uint16_t* a, const std::uint16_t* b, const float* c, float* d) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = c[i * 8 + j];
      for (int k = 0; k < 16; ++k) sum += f16_value(a[i * 16 + k]) * f16_value(b[j * 16 + k]);
      d[i * 8 + j] = sum;
    }
}

}  // namespace

MmaStep integer_arithmetic() { return {wgmma, mma}; }
std::uint8_t integer_code(int value) { return encode_e4m3(float(value)); }

hopper::TensorMap tensor_map(const void* base, std::uint64_t rows, std::uint64_t cols, std::uint64_t stride,
                             unsigned box_rows, hopper::Swizzle swizzle) {
  const hopper::EmulatedTensorMap described{reinterpret_cast<std::uint64_t>(base),
                                            rows,
                                            cols,
                                            stride,
                                            box_rows,
                                            hopper::row_bytes(swizzle),
                                            swizzle};
  hopper::TensorMap map{};
  std::memcpy(&map, &described, sizeof described);
  return map;
}

PipelineProblem::PipelineProblem(int tiles, int k_blocks, std::uint64_t seed) {
  const int rows = tiles * 64, k = k_blocks * 128;
  auto* a = static_cast<std::uint8_t*>(memory.allocate(std::size_t(rows) * k, "a", true));
  auto* b = static_cast<std::uint8_t*>(memory.allocate(std::size_t(kPipelineN) * k, "b", true));
  auto* scales = static_cast<float*>(memory.allocate(std::size_t(k_blocks) * rows * 4, "scales", true));
  auto* out = static_cast<float*>(memory.allocate(std::size_t(rows) * kPipelineN * 4, "out"));
  Scramble random{seed};
  for (int i = 0; i < rows * k; ++i) a[i] = integer_code(random.below(7) - 3);
  for (int i = 0; i < kPipelineN * k; ++i) b[i] = integer_code(random.below(7) - 3);
  for (int i = 0; i < k_blocks * rows; ++i) scales[i] = float(1 + random.below(4));
  expected.resize(std::size_t(rows) * kPipelineN);
  for (int r = 0; r < rows; ++r)
    for (int n = 0; n < kPipelineN; ++n)
      for (int i = 0; i < k; ++i)
        expected[std::size_t(r * kPipelineN + n)] +=
            scales[i / 128 * rows + r] * decode_e4m3(a[r * k + i]) * decode_e4m3(b[n * k + i]);
  params.a = tensor_map(a, std::uint64_t(rows), std::uint64_t(k), std::uint64_t(k), 64);
  params.b = tensor_map(b, kPipelineN, std::uint64_t(k), std::uint64_t(k), kPipelineN);
  params.scales = scales;
  params.out = out;
  params.tiles = tiles;
  params.k_blocks = k_blocks;
  params.rows = rows;
}

void PipelineProblem::clear_output() { std::memset(params.out, 0xFF, expected.size() * 4); }
bool PipelineProblem::output_right() const {
  return std::memcmp(params.out, expected.data(), expected.size() * 4) == 0;
}
device::emulator::Launch PipelineProblem::launch(Fault fault) const {
  return {
      pipeline(fault), &params, sizeof params, 1, unsigned(kPipelineThreads), std::size_t(kPipelineShared)};
}

std::string all_sentences(const device::emulator::LaunchResult& result) {
  std::string s;
  for (const device::emulator::Report& r : result.reports) s += "  " + r.sentence() + "\n";
  return s;
}

}  // namespace moe::test
