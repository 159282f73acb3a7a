#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "lathe/backends/cuda/cublaslt.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/dtype.h"

namespace lathe::cuda {

/// C[m,n] = A'·B' (+ bias) (+ addend), all row-major and dense but where padded, sums in f32.  A' is A[m,k],
/// or Aᵀ of A[k,m]; B' is B[k,n], or Bᵀ of B[n,k].
struct Product {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::f32;    ///< of A and B: f32, bf16 or f16
  bool e4m3 = false;          ///< A and B are e4m3 instead; then A[m,k] and Bᵀ of B[n,k], and C is bf16
  DType c_type = DType::f32;  ///< of C, bias and addend
  bool a_transposed = false, b_transposed = false;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  const float *a_scales = nullptr, *b_scales = nullptr;  ///< [m] and [n], of the rows of e4m3
  const void* bias = nullptr;                            ///< [n], added to every row
  const void* addend = nullptr;                          ///< [m,n]
  float* a_sums = nullptr;    ///< [m]; with A transposed: Σ over k of A[k,m], the gradient of a bias
  void* gelu = nullptr;       ///< [m,n]; takes gelu of C as it is stored
  bool c_is_read = true;      ///< with `gelu`; false: C may be written or not
  bool b_is_settled = false;  ///< nothing that was launched before it, and still runs, writes B
  /// The rows of A, or of C and addend, begin at multiples of kPadding elements.
  bool a_padded = false, c_padded = false;

  static constexpr int64_t kPadding = 8;
  static constexpr int64_t padded(int64_t count) { return round_up(count, kPadding); }
  /// Elements from row to row.
  int64_t a_ld() const {
    const int64_t cols = a_transposed ? m : k;
    return a_padded ? padded(cols) : cols;
  }
  int64_t c_ld() const { return c_padded ? padded(n) : n; }
};

/// The matrix products of one device, by cuBLASLt or, gradients of weights, products of few rows and those of
/// f32, kernels of their own.  For each kind (shape, layout, epilogue) the candidates are timed once.
/// Counts of tokens that differ by less than a quarter are of one kind.
class Products {
 public:
  /// tf32: products of f32 round their operands to 10 bits of mantissa.  own: also by kernels of its own.
  Products(const CublasLt& library, bool tf32, bool own = true);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether `launch` takes it: rows must be multiples of 16 bytes, which the fast algorithms need.
  static bool accepts(const Product& p);
  /// Whether this GPU multiplies e4m3 with scales by row.
  static bool has_e4m3();
  /// Of what an algorithm counts in, its tiles for example; aligned as a workspace is.
  static constexpr size_t kCounterBytes = 256;
  /// Of the workspace of both; pointers are not looked at.
  static size_t workspace_bytes(const Product& p);
  /// Chooses the algorithm for products of this kind, unless it is known.  Runs candidates on the product's
  /// own memory, so that C is lost, and waits for them.  Errors: kInternal if there is none.
  void prepare(cudaStream_t stream, const Product& p, void* workspace);
  /// Launches it; `prepare` was called for its kind.  counter: kCounterBytes of a Graph's zeroed region, only
  /// for this launch: an algorithm that only counts takes them for its workspace.  Null: none.
  void launch(cudaStream_t stream, const Product& p, void* workspace, std::byte* counter = nullptr);

  /// The algorithms chosen so far, as text: a line that names library and GPU, then one line per kind.
  std::string choices() const;
  /// Takes choices made before, so that products have the bits they had then.  Those of another library or
  /// GPU are ignored.  Errors: kInvalidData if the text is broken; nothing is taken then.
  void adopt(const std::string& choices);
  /// Has the driver load the kernels of the choices known so far, which a kernel's first launch waits for: 30
  /// to 120 ms for those of a step.  Launches nothing.  For a thread of its own; every other call may run at
  /// the same time.
  void load_kernels(const std::stop_token& stop) const;
  /// Grows with every choice made by timing.
  size_t timed() const { return timed_; }

 private:
  struct Plan;
  using Key = std::array<int64_t, 8>;
  /// What computes it; numbers from kOwn on are ways of own kernels.  The library has no exact GELU, so a
  /// kernel after the product computes it.
  enum Kernel : int { kLibrary, kLibraryAndSums, kOwn };  // the second: a_sums by column_sums.h
  struct Choice {
    cublasLtMatmulAlgo_t algo{};
    int kernel = kLibrary;
  };
  struct Scratch {
    void* workspace;
    std::byte* counter = nullptr;
  };
  using Algorithm = cublasLtMatmulHeuristicResult_t;
  Key key_of(const Product& p) const;
  static Key kind_of(const Key& key);
  static Product example_of(const Key& kind);
  std::string header() const;
  std::unique_ptr<Plan> describe(const Product& p, int kernel) const;
  void point_at(const Plan& plan, const Product& p) const;
  void choose(Plan& plan, cudaStream_t stream, const Product& p, void* workspace) const;
  void time(Plan& plan, const Algorithm& algorithm, cudaStream_t stream, const Product& p,
            void* workspace) const;
  float cost(const Plan& plan, const Product& p) const;
  std::unique_ptr<Plan> adopted(const Choice& choice, const Product& p) const;
  cublasStatus_t run(const Plan& plan, const Algorithm& algorithm, cudaStream_t stream, const Product& p,
                     const Scratch& scratch) const;

  const CublasLt& library_;
  bool tf32_;
  int ways_;  ///< of own kernels
  int multiprocessors_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  std::byte* counters_ = nullptr;  ///< of runs that are timed
  mutable std::mutex mutex_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<Key, Choice> choices_;  // by kind
  size_t timed_ = 0;
};

}  // namespace lathe::cuda
