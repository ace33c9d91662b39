#define MOE_DGEMM_NAME dgemm_avx2
#define MOE_DGEMM_PATH DgemmPath::avx2
#define MOE_DGEMM_TEXT "avx2"
#include "reference/dgemm/eigen_kernels.inc"
