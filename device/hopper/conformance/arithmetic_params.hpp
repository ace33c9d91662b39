// Which tensor-core arithmetic can be recorded on a card, and what do its kernels take? Plain host code.
// These kernels exist for the card alone: they issue one instruction on given operands, so that its bits can
// be stored (fixtures/golden) or compared with a model. Kernels of the project use the layer's primitives.
#pragma once
#include <cstdint>

#include "fixtures/problem/host_device.hpp"

namespace moe::hopper::conformance {

/// wgmma with A from shared memory or from registers (m64nNk32), mma.sync.m16n8k32 on FP8 and m16n8k16 on
/// f16.
enum class Instruction { wgmma_shared, wgmma_registers, mma_fp8, mma_f16 };
enum class Operand { e4m3, e5m2, f16 };
enum class Result { f32, f16 };

/// One kernel: an instruction with its types. `entry` is its name in the cubin.
struct ArithmeticKernel {
  const char* entry;
  Instruction instruction;
  Operand a, b;
  Result result;
};

inline constexpr int kTileRows = 64, kTileColumns = 256, kTileBytes = 32;  // of K: 32 FP8 or 16 f16
inline constexpr int kArithmeticThreads = 128, kArithmeticSharedBytes = 64 * 128 + 256 * 128;

/// CTA t works on tile t: d[64][256] = c[64][256] + a[64] * b[256]^T, row-major, rows of a and b kTileBytes
/// long, c and d f32 or f16 as the kernel's result. wgmma covers floor(256 / n) * n columns, n at a time, and
/// leaves the others of d alone; mma covers all of them in blocks of 16 x 8. scale_d[t] = 0: c counts as +0
/// and is not used (wgmma: by its scale-d).
struct ArithmeticParams {
  const std::uint8_t *a, *b;
  const void* c;
  void* d;
  const std::uint32_t* scale_d;
  std::int32_t n;  // of kWgmmaN; mma does not read it
};
inline constexpr int kWgmmaN[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256};

inline constexpr ArithmeticKernel kArithmeticKernels[] = {
    {"ss_e4m3_e4m3_f32", Instruction::wgmma_shared, Operand::e4m3, Operand::e4m3, Result::f32},
    {"ss_e4m3_e5m2_f32", Instruction::wgmma_shared, Operand::e4m3, Operand::e5m2, Result::f32},
    {"ss_e5m2_e4m3_f32", Instruction::wgmma_shared, Operand::e5m2, Operand::e4m3, Result::f32},
    {"ss_e5m2_e5m2_f32", Instruction::wgmma_shared, Operand::e5m2, Operand::e5m2, Result::f32},
    {"ss_e4m3_e4m3_f16", Instruction::wgmma_shared, Operand::e4m3, Operand::e4m3, Result::f16},
    {"ss_e4m3_e5m2_f16", Instruction::wgmma_shared, Operand::e4m3, Operand::e5m2, Result::f16},
    {"ss_e5m2_e4m3_f16", Instruction::wgmma_shared, Operand::e5m2, Operand::e4m3, Result::f16},
    {"ss_e5m2_e5m2_f16", Instruction::wgmma_shared, Operand::e5m2, Operand::e5m2, Result::f16},
    {"rs_e4m3_e4m3_f32", Instruction::wgmma_registers, Operand::e4m3, Operand::e4m3, Result::f32},
    {"rs_e4m3_e5m2_f32", Instruction::wgmma_registers, Operand::e4m3, Operand::e5m2, Result::f32},
    {"rs_e5m2_e4m3_f32", Instruction::wgmma_registers, Operand::e5m2, Operand::e4m3, Result::f32},
    {"rs_e5m2_e5m2_f32", Instruction::wgmma_registers, Operand::e5m2, Operand::e5m2, Result::f32},
    {"rs_e4m3_e4m3_f16", Instruction::wgmma_registers, Operand::e4m3, Operand::e4m3, Result::f16},
    {"rs_e4m3_e5m2_f16", Instruction::wgmma_registers, Operand::e4m3, Operand::e5m2, Result::f16},
    {"rs_e5m2_e4m3_f16", Instruction::wgmma_registers, Operand::e5m2, Operand::e4m3, Result::f16},
    {"rs_e5m2_e5m2_f16", Instruction::wgmma_registers, Operand::e5m2, Operand::e5m2, Result::f16},
    {"mma_e4m3_e4m3_f32", Instruction::mma_fp8, Operand::e4m3, Operand::e4m3, Result::f32},
    {"mma_e4m3_e5m2_f32", Instruction::mma_fp8, Operand::e4m3, Operand::e5m2, Result::f32},
    {"mma_e5m2_e4m3_f32", Instruction::mma_fp8, Operand::e5m2, Operand::e4m3, Result::f32},
    {"mma_e5m2_e5m2_f32", Instruction::mma_fp8, Operand::e5m2, Operand::e5m2, Result::f32},
    {"mma_e4m3_e4m3_f16", Instruction::mma_fp8, Operand::e4m3, Operand::e4m3, Result::f16},
    {"mma_e4m3_e5m2_f16", Instruction::mma_fp8, Operand::e4m3, Operand::e5m2, Result::f16},
    {"mma_e5m2_e4m3_f16", Instruction::mma_fp8, Operand::e5m2, Operand::e4m3, Result::f16},
    {"mma_e5m2_e5m2_f16", Instruction::mma_fp8, Operand::e5m2, Operand::e5m2, Result::f16},
    {"mma_f16_f16_f32", Instruction::mma_f16, Operand::f16, Operand::f16, Result::f32},
    {"mma_f16_f16_f16", Instruction::mma_f16, Operand::f16, Operand::f16, Result::f16},
};
inline constexpr int kArithmeticKernelCount = int(sizeof(kArithmeticKernels) / sizeof(kArithmeticKernels[0]));

MOE_HD constexpr bool is_wgmma(Instruction i) {
  return i == Instruction::wgmma_shared || i == Instruction::wgmma_registers;
}

}  // namespace moe::hopper::conformance
