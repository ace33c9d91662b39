// Which two kernels show by their values when a wgmma reads and writes? Plain host code.
#pragma once

namespace moe::test {

struct WgmmaMomentsParams {
  float* out;  // f32 [2]
  // Thread 0 thrice, as parameters: of a constant the compiler would make two copies of what follows, and the
  // lanes of a warp would part.
  int initialiser = 0, late = 0, actor = 0;
};
/// One warpgroup; A and B are ones, m64n8k32. While the wgmma is in flight one thread doubles row 0 of A and
/// then row 63. out: the first column of these two rows, 32 or 64 each.
void run_operand_overwritten(const void* params);
/// Warp 0 looks at an accumulator of the wgmma in flight, and after it warp 3. out: what they see, 0 or 32
/// each.
void run_accumulator_watched(const void* params);

inline constexpr int kWgmmaMomentsThreads = 128, kWgmmaMomentsShared = 64 * 128 + 8 * 128 + 1024;

}  // namespace moe::test
