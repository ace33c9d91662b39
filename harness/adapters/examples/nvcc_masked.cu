// A grouped GEMM compiled by nvcc, contract `masked`: c[e, m, n] = sum over k of a[e, m, k] w[e, n, k] for m < counts[e]. FP8 codes
// become f16 and go through the tensor cores by nvcuda::wmma; scales are applied in fp32. Simple, not fast: it shows how a kernel
// in CUDA C++ is judged. nvcc_masked.py builds and runs it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

namespace {

enum Quant { block128, token_channel, tensor };

constexpr int kBlockM = 16, kBlockN = 64, kBlockK = 128, kThreads = 128;  // a warp for each 16 columns
constexpr int kPadded = kBlockK + 8;                                      // rows of shared memory begin in different banks
constexpr int kOwn = kBlockM * kBlockN / kThreads;                        // elements of the tile that a thread sums

__device__ half to_half(unsigned char code) { return half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)); }

/// Rows [0, rows) of codes [.., k], 128 columns from k0 on, as f16; zeros outside: nothing is read there.
__device__ void load_panel(half (*panel)[kPadded], int panel_rows, const unsigned char* codes, int rows, int k0, int k) {
  for (int i = threadIdx.x; i < panel_rows * kBlockK; i += kThreads) {
    const int row = i / kBlockK, column = k0 + i % kBlockK;
    panel[row][i % kBlockK] = row < rows && column < k ? to_half(codes[size_t(row) * k + column]) : half(0.0f);
  }
}

__global__ void masked_gemm_kernel(const unsigned char* a, const float* a_scale, const unsigned char* w, const float* w_scale,
                                   const int* counts, __nv_bfloat16* c, int max_m, int n, int k, Quant quant) {
  namespace wmma = nvcuda::wmma;
  __shared__ half a_panel[kBlockM][kPadded], w_panel[kBlockN][kPadded];
  __shared__ float part[kBlockM][kBlockN];
  const int expert = blockIdx.z, m0 = blockIdx.y * kBlockM, n0 = blockIdx.x * kBlockN, warp = threadIdx.x / 32;
  const int rows = counts[expert] - m0, columns = n - n0;
  if (rows <= 0) return;
  const size_t first_row = size_t(expert) * max_m + m0, first_column = size_t(expert) * n + n0;
  const int k_blocks = (k + kBlockK - 1) / kBlockK, n_blocks = (n + 127) / 128;
  float acc[kOwn] = {};
  for (int kb = 0; kb < k_blocks; ++kb) {
    load_panel(a_panel, kBlockM, a + first_row * k, rows, kb * kBlockK, k);
    load_panel(w_panel, kBlockN, w + first_column * k, columns, kb * kBlockK, k);
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int kk = 0; kk < kBlockK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
      wmma::load_matrix_sync(x, &a_panel[0][kk], kPadded);
      wmma::load_matrix_sync(y, &w_panel[warp * 16][kk], kPadded);
      wmma::mma_sync(sum, x, y, sum);
    }
    wmma::store_matrix_sync(&part[0][warp * 16], sum, kBlockN, wmma::mem_row_major);
    __syncthreads();
    for (int i = 0; i < kOwn; ++i) {
      const int row = (i * kThreads + threadIdx.x) / kBlockN, column = threadIdx.x % kBlockN;
      if (row >= rows || column >= columns) continue;
      const float scale = quant != block128 ? 1.0f
                                            : a_scale[(first_row + row) * k_blocks + kb] *
                                                  w_scale[(size_t(expert) * n_blocks + (n0 + column) / 128) * k_blocks + kb];
      acc[i] += scale * part[row][column];
    }
  }
  for (int i = 0; i < kOwn; ++i) {
    const int row = (i * kThreads + threadIdx.x) / kBlockN, column = threadIdx.x % kBlockN;
    if (row >= rows || column >= columns) continue;
    if (quant == token_channel) acc[i] *= a_scale[first_row + row] * w_scale[first_column + column];
    if (quant == tensor) acc[i] *= a_scale[0] * w_scale[expert];
    c[(first_row + row) * n + n0 + column] = __float2bfloat16(acc[i]);
  }
}

}  // namespace

/// Addresses are the card's; 0 = launched, else a cudaError_t.
extern "C" int masked_gemm(const unsigned char* a, const float* a_scale, const unsigned char* w, const float* w_scale,
                           const int* counts, __nv_bfloat16* c, int experts, int max_m, int n, int k, int quant,
                           cudaStream_t stream) {
  if (max_m == 0) return 0;
  const dim3 grid((n + kBlockN - 1) / kBlockN, (max_m + kBlockM - 1) / kBlockM, experts);
  masked_gemm_kernel<<<grid, kThreads, 0, stream>>>(a, a_scale, w, w_scale, counts, c, max_m, n, k, Quant(quant));
  return cudaGetLastError();
}
