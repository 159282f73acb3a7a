#pragma once
// Matrix products of one warp on the tensor cores: mma m16n8k16 of bf16 or f16 with f32 sums, and what
// carries its operands from memory to shared memory to registers.
//
// Lane 4 g + t holds of a result [16, 8] the elements (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16", "ldmatrix", "movmatrix".
#include "lathe/backends/cuda/kernels/cluster.cuh"
#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

/// Padding elements after each row of a tile in shared memory.  A row of 32, 64, 128 or 256 elements then is
/// 16 bytes longer than a multiple of 64: the eight rows that ldmatrix reads at once lie in different banks.
constexpr int kRowPad = 8;

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x % kWarp); }

/// threadIdx.x, read anew: what is computed from it does not stay in registers from one tile to the next.
__device__ inline unsigned fresh_thread() {
  unsigned x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

/// Starts a copy to shared memory if `wanted`; zeros instead if not `there` (`from` then is not read).
__device__ inline void copy16(uint32_t to, const void* from, bool there, bool wanted) {
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %3, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %2;}" ::"r"(to),
      "l"(from), "r"(there ? 16 : 0), "r"(static_cast<int>(wanted))
      : "memory");
}
__device__ inline void copy4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
/// base + i · stride elements, for products below 2³² bytes: one instruction, where the compiler takes up to
/// four for 64-bit factors.
template <typename T>
__device__ inline T* element_at(T* base, int i, int stride) {
  T* p;
  asm("mad.wide.u32 %0, %1, %2, %3;"
      : "=l"(p)
      : "r"(i), "r"(stride * static_cast<int>(sizeof(T))), "l"(base));
  return p;
}
/// The copies that this thread has started since the last call become a group, maybe an empty one.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// All groups but the latest kLeft are done.
template <int kLeft>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Where a tile in shared memory holds token `i` if it is permuted: among 32 tokens, token 8 t + 2 n + j lies
/// in row 8 n + 2 t + j.  Of four results [·, 8] whose columns are these rows, lane t then has the eight
/// columns of tokens from 8 t on, which one call of Philox decides.
__host__ __device__ constexpr int permuted(int i) { return (i & ~30) | (i & 6) << 2 | (i & 24) >> 2; }

/// The same among 16 tokens, for `draw_transposed`: bits 1 and 3 change places.
__host__ __device__ constexpr int swapped(int i) { return (i & ~10) | (i & 2) << 2 | (i & 8) >> 2; }

/// How a tile in shared memory is ordered.
enum class Order { plain, permuted, swapped };
template <Order kOrder>
__host__ __device__ constexpr int place(int i) {
  return kOrder == Order::permuted ? permuted(i) : kOrder == Order::swapped ? swapped(i) : i;
}

/// Starts the copy of up to kRows tokens of one head, `width` ≤ DP elements each, into rows of DP + kRowPad;
/// zeros after `width`.  Only the first `valid` (≥ 1) tokens are there: the last one is repeated up to a
/// multiple of kRound; what comes after is left as it is.
template <typename T, int DP, int kRows, int kThreads, int kRound, Order kOrder = Order::plain>
__device__ inline void copy_tile(T* to, const T* from, int stride, int valid, int width) {
  constexpr int kChunks = DP / 8, kRowsAtOnce = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && kRound % (kOrder == Order::permuted ? 32 : 16) == 0);
  const unsigned thread = fresh_thread();
  const int first = static_cast<int>(thread / kChunks), column = static_cast<int>(thread % kChunks * 8);
  const int filled = min(kRows, (valid + kRound - 1) & -kRound);
  const bool there = column < width;
  const uint32_t address = shared_address(to + place<kOrder>(first) * (DP + kRowPad) + column);
  from += there ? column : 0;
#pragma unroll
  for (int row = 0; row < kRows; row += kRowsAtOnce)  // `place` moves bits: the sum of the parts is right
    copy16(address + place<kOrder>(row) * (DP + kRowPad) * static_cast<int>(sizeof(T)),
           element_at(from, min(first + row, valid - 1), stride), there, first + row < filled);
}

/// Four 8×8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}

/// A lane's places: g and t, and which element of a tile, rows of kStride, it addresses for the operands
/// below.
template <int kStride>
struct Lane {
  int g, t;
  int by_row;     ///< A [16, 16] stored by its rows; also B [16, 16] stored by k (transposed)
  int by_column;  ///< B [16, 16] stored by n, two results of eight columns; also A [16, 16] by k (transposed)

  __device__ explicit Lane(unsigned thread)
      : g(static_cast<int>(thread % 32 / 4)),
        t(static_cast<int>(thread % 4)),
        by_row(static_cast<int>(thread % 16 * kStride + thread / 16 % 2 * 8)),
        by_column(static_cast<int>((thread % 8 + thread / 16 % 2 * 8) * kStride + thread / 8 % 2 * 8)) {}
};

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    __nv_bfloat16 /*type*/) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    __half /*type*/) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// c[0], c[1] += A · B for the 16 columns of B.
template <typename T>
__device__ inline void multiply_add(float (*c)[4], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
  multiply_add(c[0], a, b[0], b[1], T());
  multiply_add(c[1], a, b[2], b[3], T());
}

template <typename T>
__device__ uint32_t pack(float low, float high);
template <>
__device__ inline uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
template <>
__device__ inline uint32_t pack<__half>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

/// Two neighbouring results [16, 8] as an operand A [16, 16].
template <typename T>
__device__ inline void as_operand(uint32_t (&a)[4], const float (*c)[4]) {
  a[0] = pack<T>(c[0][0], c[0][1]);
  a[1] = pack<T>(c[0][2], c[0][3]);
  a[2] = pack<T>(c[1][0], c[1][1]);
  a[3] = pack<T>(c[1][2], c[1][3]);
}

/// An 8×8 matrix of 16 bits, of which lane 4 g + t holds (g, 2t) and (g, 2t+1), transposed.
__device__ inline uint32_t transpose_matrix(uint32_t w) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(w));
  return out;
}

/// Σ x∘y of each of 16 rows of DP elements in shared memory: of rows g and g + 8.
template <typename T, int DP>
__device__ inline void row_products(float (&sum)[2], const T* x, const T* y) {
  const Lane<DP + kRowPad> lane(fresh_thread());
  float c[2][4] = {};  // X · Yᵀ, of which the diagonal counts
#pragma unroll
  for (int k = 0; k < DP / 16; ++k) {
    uint32_t a[4], b[4];
    load_matrices(a, x + lane.by_row + 16 * k);
    load_matrices(b, y + lane.by_column + 16 * k);
    multiply_add<T>(c, a, b);
  }
  const int holder = lane.g * 4 + lane.g / 2;
  sum[0] = __shfl_sync(kAllLanes, lane.g % 2 == 0 ? c[0][0] : c[0][1], holder);
  sum[1] = __shfl_sync(kAllLanes, lane.g % 2 == 0 ? c[1][2] : c[1][3], holder);
}

/// Over the four lanes that hold one row of a result.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

/// 2ˣ, relative error 2⁻²².
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Exponentials relative to a score that is at most 2⁸ below the largest are as good as relative to that one:
/// what was summed before is brought to a larger one only then.
constexpr float kHeadroom = 8;

/// Stores 16 rows of results, [16, 8 · kResults] from `to` on: row r times factor[r / 8], of which the first
/// `valid` rows and `width` columns exist.  All lanes of the warp call it.  scratch: 16 rows, kRow elements
/// apart, that no other warp uses.  kSwapped: row r of the results is row swapped(r).
template <int kRow, bool kSwapped = false, typename T, int kResults>
__device__ inline void store_results(T* to, int stride, const float (&c)[kResults][4], float factor0,
                                     float factor1, int valid, int width, T* scratch) {
  static_assert(kResults % 2 == 0);
  const int lane = lane_id(), apart = (kSwapped ? swapped(8) : 8) * kRow;
  T* const pairs = scratch + (kSwapped ? swapped(lane / 4) : lane / 4) * kRow + lane % 4 * 2;
  __syncwarp();
#pragma unroll
  for (int n = 0; n < kResults; ++n) {
    *reinterpret_cast<uint32_t*>(pairs + 8 * n) = pack<T>(c[n][0] * factor0, c[n][1] * factor0);
    *reinterpret_cast<uint32_t*>(pairs + apart + 8 * n) = pack<T>(c[n][2] * factor1, c[n][3] * factor1);
  }
  __syncwarp();
  constexpr int kRowsAtOnce = kWarp / kResults;
  const int first = lane / kResults, column = lane % kResults * 8;
  if (column >= width) return;
  to += column;
  scratch += first * kRow + column;
#pragma unroll
  for (int row = 0; row < 16; row += kRowsAtOnce)
    if (first + row < valid)
      *reinterpret_cast<uint4*>(element_at(to, first + row, stride)) =
          *reinterpret_cast<const uint4*>(scratch + row * kRow);
}

/// What makes the scaled scores −∞ of keys that are not there: s [16, 32] of tokens in Order::permuted, of
/// which `valid` exist.
__device__ inline void hide_keys(float (&s)[4][4], int t, float scale, int valid) {
  const float least = scale < 0 ? INFINITY : -INFINITY;
#pragma unroll
  for (int i = 0; i < 16; ++i)
    if (8 * t + i / 4 * 2 + i % 2 >= valid) s[i / 4][i % 4] = least;
}

/// The same for keys more than `window` tokens away from a strip's queries; query g comes `ahead` tokens
/// after the first of these keys.
__device__ inline void hide_far_keys(float (&s)[4][4], int t, float scale, int ahead, int window) {
  const float least = scale < 0 ? INFINITY : -INFINITY;
#pragma unroll
  for (int i = 0; i < 16; ++i)
    if (abs(ahead + i / 2 % 2 * 8 - (8 * t + i / 4 * 2 + i % 2)) > window) s[i / 4][i % 4] = least;
}

}  // namespace lathe::cuda
