#define MOE_DGEMM_NAME dgemm_baseline
#define MOE_DGEMM_PATH DgemmPath::baseline
#define MOE_DGEMM_TEXT "baseline"
#include "reference/dgemm/eigen_kernels.inc"
