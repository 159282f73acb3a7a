#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "lathe/backends/cuda/cublaslt.h"
#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// C[m,n] = A'·B' (+ bias) (+ addend), all row-major and dense, sums in f32.  A' is A[m,k], or Aᵀ of A[k,m];
/// B' is B[k,n], or Bᵀ of B[n,k].
struct Product {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::f32;    ///< of A and B: f32, bf16 or f16
  DType c_type = DType::f32;  ///< of C, bias and addend
  bool a_transposed = false, b_transposed = false;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;    ///< [n], added to every row
  const void* addend = nullptr;  ///< [m,n]
  float* a_sums = nullptr;       ///< [m]; with A transposed: Σ over k of A[k,m], the gradient of a bias
};

/// The matrix products of one device, by cuBLASLt.  For each shape, layout and epilogue the library's
/// candidates are timed once.
class Products {
 public:
  /// tf32: products of f32 round their operands to 10 bits of mantissa.
  Products(const CublasLt& library, bool tf32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether `launch` takes it: rows must be multiples of 16 bytes, which the fast algorithms want.
  static bool accepts(const Product& p);
  /// Of the workspace of both; pointers are not looked at.
  static size_t workspace_bytes(const Product& p);
  /// Chooses the algorithm for products of this kind, unless it is known.  Runs candidates on the product's
  /// own memory, so that C is lost, and waits for them.  Errors: kInternal if there is none.
  void prepare(cudaStream_t stream, const Product& p, void* workspace);
  /// Launches it; `prepare` was called for its kind.
  void launch(cudaStream_t stream, const Product& p, void* workspace);

 private:
  struct Plan;
  using Key = std::array<int64_t, 8>;
  static Key key_of(const Product& p);
  std::unique_ptr<Plan> describe(const Product& p, bool sums_within) const;
  void choose(Plan& plan, cudaStream_t stream, const Product& p, void* workspace) const;
  cublasStatus_t run(const Plan& plan, const cublasLtMatmulAlgo_t& algo, cudaStream_t stream,
                     const Product& p, void* workspace) const;

  const CublasLt& library_;
  bool tf32_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace lathe::cuda
