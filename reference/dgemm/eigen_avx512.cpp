#define MOE_DGEMM_NAME dgemm_avx512
#define MOE_DGEMM_PATH DgemmPath::avx512
#define MOE_DGEMM_TEXT "avx512"
#include "reference/dgemm/eigen_kernels.inc"
