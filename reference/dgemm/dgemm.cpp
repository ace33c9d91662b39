#include "reference/dgemm/dgemm.hpp"

namespace moe::reference {

extern const DgemmKernels dgemm_baseline, dgemm_avx2, dgemm_avx512;

std::vector<DgemmPath> available_dgemm_paths() {
  std::vector<DgemmPath> paths{DgemmPath::baseline};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) paths.push_back(DgemmPath::avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma"))
    paths.push_back(DgemmPath::avx512);
  return paths;
}

const DgemmKernels& dgemm_kernels(DgemmPath path) {
  switch (path) {
    case DgemmPath::avx512:
      return dgemm_avx512;
    case DgemmPath::avx2:
      return dgemm_avx2;
    case DgemmPath::baseline:
      break;
  }
  return dgemm_baseline;
}

const DgemmKernels& best_dgemm() {
  static const DgemmKernels& best = dgemm_kernels(available_dgemm_paths().back());
  return best;
}

}  // namespace moe::reference
