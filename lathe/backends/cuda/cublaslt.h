#pragma once
#include <cublasLt.h>

namespace lathe::cuda {

/// The functions of cuBLASLt that products use, looked up when the program runs.
struct CublasLt {
#define LT_CUBLASLT_FUNCTIONS(LT_F) \
  LT_F(Create)                      \
  LT_F(Destroy)                     \
  LT_F(GetVersion)                  \
  LT_F(Matmul)                      \
  LT_F(MatmulAlgoGetHeuristic)      \
  LT_F(MatmulAlgoCheck)             \
  LT_F(MatmulDescCreate)            \
  LT_F(MatmulDescDestroy)           \
  LT_F(MatmulDescSetAttribute)      \
  LT_F(MatrixLayoutCreate)          \
  LT_F(MatrixLayoutDestroy)         \
  LT_F(MatmulPreferenceCreate) LT_F(MatmulPreferenceDestroy) LT_F(MatmulPreferenceSetAttribute)
#define LT_F(name) decltype(&::cublasLt##name) name = nullptr;
  LT_CUBLASLT_FUNCTIONS(LT_F)
#undef LT_F
};

/// The library, opened once per process; null if it is not found: then `why_no_cublaslt` says where it was
/// looked for.
const CublasLt* cublaslt();
const char* why_no_cublaslt();

}  // namespace lathe::cuda
