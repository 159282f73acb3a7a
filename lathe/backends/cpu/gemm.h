#pragma once
#include <cstddef>
#include <cstdint>

#include "lathe/backends/cpu/isa.h"
#include "lathe/core/dtype.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

/// Products of integers (gemm_int8.h): c = (sum − offsets[j]) · rows[i] · columns[j] + bias.
struct GemmScales {
  const float *rows = nullptr, *columns = nullptr;
  const int32_t* offsets = nullptr;
};

/// c[m,n] = op(a) · op(b) + bias + addend, row-major, sums in f32.
///
/// a is [m,k], or [k,m] if a_transposed; b is [k,n], or [n,k] if b_transposed; lda, ldb, ldc: elements from
/// row to row.  The products of a linear layer y[M,N] = x[M,K] · W[N,K]ᵀ + bias:
///   y  = {.m = M, .n = N, .k = K, .a = x,  .b = W, .b_transposed = true, .bias = bias}
///   dx = {.m = M, .n = K, .k = N, .a = dy, .b = W}
///   dW = {.m = N, .n = K, .k = M, .a = dy, .a_transposed = true, .b = x, .a_sums = db}
/// Inputs and c are f32, bf16 or f16 (nearest even; f16 with subnormals, and infinity from 65520 on).  If one
/// input is bf16 or f16 the other is of the same type, or f32 and rounded to it while it is packed, and
/// products of such values are summed; otherwise products of f32.  bf16: levels without bf16 instructions
/// convert and use f32 arithmetic; those with them take denormals as zero.  f16: every level converts and
/// uses f32 arithmetic, in which a product of two f16 is exact.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;  // each ≥ 1
  DType a_type = DType::f32, b_type = DType::f32, c_type = DType::f32;
  bool a_transposed = false, b_transposed = false;
  const void* a = nullptr;
  int64_t lda = 0;
  const void* b = nullptr;  // if b_packed: what pack_b wrote for this n, k, compute type and isa
  int64_t ldb = 0;
  void* c = nullptr;  // overlaps neither a nor b
  int64_t ldc = 0;
  const float* bias = nullptr;   // [n] or null
  const void* addend = nullptr;  // [m,n] laid out like c, may be c; or null
  bool b_packed = false;
  // [m] or null: takes Σ_k op(a)[m,k], in f32; needs a_transposed.  Summed in blocks of 64 k, the blocks in
  // order.
  float* a_sums = nullptr;
  bool c_streams = false;  // c is large and not read soon: written past the caches where that is possible
  bool c_cold = false;     // c is in no cache: also past them if the level's kernel gains by it
  bool workspace_cold = false;  // the workspace is in no cache: operands are packed past the caches
  bool integers = false;        // a, b: integers as the level's kernel needs them, b packed
  GemmScales scales = {};
};

/// Bytes of workspace (aligned to 64) that gemm needs with a pool of `threads`.  Pointers and leading
/// dimensions do not matter.
/// Errors: kShape if m, n or k < 1; kUnsupported for other dtypes.  Call it while building: what it accepts
/// runs.
size_t gemm_workspace_bytes(Isa isa, const Gemm& g, int threads);

/// Computes g.  `isa` comes from available_isas() or chosen_isa().  One thread computes each element of c;
/// the order of its sum over k depends only on k and isa.  So the bits depend neither on the number of
/// threads nor on the other rows.  No allocation, no errors.
void gemm(ThreadPool& pool, Isa isa, const Gemm& g, void* workspace);

/// Computes g and `next` with the same bits as two calls of `gemm`; threads that finish the first continue
/// with the second.  Neither may write, in c or workspaces, what the other one reads or writes.
void gemm_pair(ThreadPool& pool, Isa isa, const Gemm& g, void* workspace, const Gemm& next,
               void* next_workspace);

/// The memory layout of a packed b: columns in panels of `width`.  In a panel, `columns` of them lie together
/// over `depth` of k, and those in groups: [panel][k / depth][width / columns][depth /
/// group][columns][group], zero beyond n and k.  With it AdamW can write the copies of the weights that the
/// products read.
struct PackedB {
  DType type = DType::f32;  // of an element: f32 or bf16
  int width = 0, columns = 0, depth = 0, group = 0;
  int64_t k_padded = 0;
  size_t bytes = 0;
  DType rounded = DType::f32;  // what the values of f32 elements are rounded to

  /// Where b[k][n] lies, in elements.
  int64_t index(int64_t k, int64_t n) const {
    return n / width * width * k_padded + k / depth * width * depth + n % width / columns * columns * depth +
           k % depth / group * columns * group + n % columns * group + k % group;
  }
};

/// The layout of b [k,n] for products that compute in `compute` (f32, bf16 or f16) on `isa`.
PackedB packed_b(Isa isa, DType compute, int64_t n, int64_t k);

/// Packs b ([k,n], or [n,k] if transposed; f32 or the type of the layout) to `out` (layout.bytes, aligned to
/// 64), in the calling thread: the part with first_n ≤ n < last_n and first_k ≤ k < last_k.  The begins are
/// multiples of the layout's width and depth; so are the ends, or they are the ends of b.
struct PartOfB {
  int64_t first_n, last_n, first_k, last_k;
};
void pack_b(Isa isa, const PackedB& layout, int64_t n, int64_t k, DType type, const void* b, int64_t ldb,
            bool transposed, PartOfB part, void* out);

}  // namespace lathe::cpu
