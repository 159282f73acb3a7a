#pragma once
#include <optional>
#include <string>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/program/kernel_verdicts.h"

namespace lathe::cpu {

/// A library with the C interface of BLAS, for products of f32: Accelerate, which has matrix units of Apple's
/// processors that no public instruction reaches, or one that a user names.
struct Blas {
  /// Row-major; order and transpositions are CBLAS's numbers, integers have 32 bits.
  using Sgemm = void (*)(int order, int a_transposed, int b_transposed, int m, int n, int k, float alpha,
                         const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
  std::string name;  ///< its file and the system's version: another one has other bits
  Sgemm sgemm = nullptr;
};

/// Errors: kNotFound if the file does not open or has no cblas_sgemm.
Blas open_blas(const std::string& path);

/// Whether blas_gemm computes g: all of it f32, nothing packed, numbers that BLAS can count.
bool blas_takes(const Gemm& g);

/// Computes g except a_sums, which it does not touch.  The calling thread calls the library, which has
/// threads of its own: the bits do not depend on the size of the pool, but may depend on every number in g.
void blas_gemm(const Blas& blas, ThreadPool& pool, const Gemm& g);

/// Runs the products of a linear layer, forward and backward, with the library and with Lathe's own kernels:
/// whether the results are equal where all sums are exact, and the times.
KernelVerdict measure_blas(const Blas& blas, ThreadPool& pool, Isa isa);

/// Which library computes a device's f32 products, if one does.
class BlasChoice {
 public:
  /// setting (LATHE_BLAS): "none"; or the file of a library, which is used.  Empty: `system` (a file; empty:
  /// no library) where measure_blas finds it right and faster, once: the verdict is kept in the file `cache`.
  /// Errors: those of open_blas for the library that `setting` names.
  BlasChoice(const std::string& setting, const std::string& system, const std::string& cache,
             ThreadPool& pool, Isa isa);

  /// Null: Lathe's own products.
  const Blas* used() const { return used_ ? &*blas_ : nullptr; }
  /// The library of this choice, used or not; null if there is none.
  const Blas* known() const { return blas_ ? &*blas_ : nullptr; }

  /// Like Backend::tuning and adopt_tuning.  What a setting decided stays.
  std::string tuning() const;
  void adopt(const std::string& tuning);

 private:
  std::optional<Blas> blas_;
  bool used_ = false, by_setting_ = false;
};

/// The file of the library that belongs to this system; empty: none.
std::string system_blas();

}  // namespace lathe::cpu
