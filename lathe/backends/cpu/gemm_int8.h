#pragma once
#include "lathe/backends/cpu/gemm.h"

namespace lathe::cpu {

struct GemmKernel;

/// y[m,n] = x[m,k] · W[n,k]ᵀ + bias in integers: every row of x (a token) and of W (an output) is rounded to
/// −127 … 127 times its own scale, as the op linear_int8 defines it.  Sums are exact.
struct Int8Product {
  int64_t m = 0, n = 0, k = 0;  // each ≥ 1, k ≤ kInt8MostTerms
  int64_t ldx = 0, ldy = 0;     // elements from row to row
  DType type = DType::f32;      // of x and y: f32, bf16 or f16
  const void* x = nullptr;
  const void* w = nullptr;  // f32, or what pack_int8 wrote
  bool packed = false;
  const float* bias = nullptr;  // [n] or null
  void* y = nullptr;
};

/// The longest sum of products of two 8-bit integers that is sure to fit 32 bits.
constexpr int64_t kInt8MostTerms = 1 << 17;

/// Bytes of workspace, aligned to 64, with a pool of `threads`.
size_t int8_workspace_bytes(Isa isa, const Int8Product& p, int threads);
/// The bits of a row of y depend neither on the number of threads nor on the other rows.  No allocation.
void int8_product(ThreadPool& pool, Isa isa, const Int8Product& p, void* workspace);

/// W [n,k] (f32) as the product reads it: integers, their scales and what the kernel needs to know about
/// their sums.
size_t packed_int8_bytes(Isa isa, int64_t n, int64_t k);
/// out: aligned to 64.
void pack_int8(ThreadPool& pool, Isa isa, int64_t n, int64_t k, const float* w, void* out);

/// The kernel of a level.
const GemmKernel& int8_kernel(Isa isa);

}  // namespace lathe::cpu
