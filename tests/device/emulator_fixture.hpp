// What do the emulator's tests share? Exact arithmetic on small integers (any order of summation gives the
// same float), buffers, tensor maps, and a pipeline problem with its expected result.
#pragma once
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "device/emulator/emulator.hpp"
#include "device/hopper/tensor_map.hpp"
#include "fixtures/problem/mma_step.hpp"
#include "tests/device/kernels/pipeline_params.hpp"
#include "tests/device/scramble.hpp"

namespace moe::test {

/// Plain float sums: exact for small integers.
MmaStep integer_arithmetic();

/// The e4m3 code of an integer in -16..16.
std::uint8_t integer_code(int value);

hopper::TensorMap tensor_map(const void* base, std::uint64_t rows, std::uint64_t cols, std::uint64_t stride,
                             unsigned box_rows, hopper::Swizzle swizzle = hopper::Swizzle::b128);

struct PipelineProblem {
  device::emulator::GlobalMemory memory;
  PipelineParams params{};
  std::vector<float> expected;
  PipelineProblem(int tiles, int k_blocks, std::uint64_t seed);
  void clear_output();
  bool output_right() const;
  device::emulator::Launch launch(Fault fault) const;
};

std::string all_sentences(const device::emulator::LaunchResult& result);

}  // namespace moe::test
