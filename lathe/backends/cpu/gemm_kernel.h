#pragma once
#include <stdint.h>

// The seam between gemm.cc and the kernels of one instruction set in isa/gemm_*.cc.  Plain data and
// declarations only: the kernels are compiled with other flags, and no inline code may be shared between the
// two.

namespace lathe {
enum class DType : uint8_t;
}

namespace lathe::cpu {

struct GemmStore;

/// How an element is stored.
enum class GemmType : uint8_t { kF32, kBf16, kF16 };
/// The type of f32, bf16 or f16.
GemmType kernel_type(DType type);

/// Cache lines of rows of `row_bytes` that begin `pitch` bytes from each other: `lines` of them from `at` on;
/// `left` bytes remain of the row of `at`.
struct GemmFetch {
  const char* at;
  int64_t lines, left, row_bytes, pitch;
};

/// acc[rows][nr] (+)= a panel · b panel.
struct GemmTile {
  const void* a;         ///< [k / a_group][mr][a_group], or rows in place
  int64_t a_row_bytes;   ///< from row to row of a group; used by kernels that read rows in place
  int64_t a_step_bytes;  ///< from group to group of a
  const void* b;         ///< a panel of b
  int64_t k;             ///< a multiple of both groups
  float* acc;            ///< [mr][nr], aligned to 64; i32 in a kernel of integers
  int rows;              ///< the first `rows` ≤ mr rows of acc are needed
  bool accumulate;       ///< add to acc; else acc is not read
  /// Sums of an earlier tile in other memory, to be stored during this one; or null.
  const GemmStore* finish;
  const void* next;  ///< what a later tile reads, to be fetched into the cache during this one
  int64_t next_bytes;
  GemmFetch source;          ///< what is packed next, also to be fetched; a kernel may ignore it
  const char* addend;        ///< rows that this tile's own store will add, also to be fetched; null: none
  int64_t addend_row_bytes;  ///< from row to row of it
};

/// The only place where results are written: c[rows][cols] = acc + bias + addend, rounded to the type of c.
struct GemmStore {
  const float* acc;  ///< [rows][acc_ld]
  int64_t acc_ld;
  int rows, cols;
  void* c;
  int64_t ldc;  ///< elements
  GemmType c_type;
  const float* bias;   ///< [cols] or null
  const void* addend;  ///< laid out like c, or null
  bool streams;        ///< c may be written past the caches
  /// Of a kernel of integers, which ignores addend and streams:
  /// c = (acc − column_offset[j]) · row_scale[i] · column_scale[j] + bias.
  const float *row_scale, *column_scale;
  const int32_t* column_offset;
};

/// Rounds rows of any type to integers: scale = largest magnitude / 127, value = x · (127 / largest
/// magnitude), that product rounded once, to the nearest integer and halves to even.  Rows that are smaller
/// than 2⁻¹⁰⁰ become 0 with scale 0; the scale of a row with a value that is not finite is NaN.
struct GemmQuantize {
  const void* src;
  GemmType src_type;
  int64_t ld, rows, k;  ///< ld: elements from row to row
  void* dst;  ///< a: the rows; b: one panel [k_padded / group][panel][group], zero beyond rows and k
  int64_t dst_row_bytes;  ///< of a
  float* scales;          ///< [rows]; of b [panel]
  int64_t k_padded;       ///< of b, like all that follows
  int panel, group;
  int32_t* offsets;  ///< [panel]: a_shift · Σ values
};

/// Packs one panel: of a dst[k_padded / group][panel][group], of b in the layout of GemmKernel; zero beyond
/// `width` and `k`.
struct GemmPack {
  const void* src;
  GemmType src_type;
  int64_t ld;     ///< elements from line to line of src
  bool along_k;   ///< a line of src runs along k; else across the panel
  int64_t width;  ///< ≤ panel
  int64_t k, k_padded;
  int panel, group;
  int columns;     ///< of b: as in GemmKernel, each together; of a: panel
  GemmType round;  ///< an f32 destination takes f32 values rounded to this
  bool streams;    ///< dst may be written past the caches, until `fence`
  void* dst;
};

/// out[j] (+)= Σ over m rows of x[i][j], for n columns.
struct ColumnSums {
  const void* x;
  GemmType type;
  int64_t ldx, m, n;
  bool accumulate;  ///< add to out; else to 0
  float* out;
};

/// What one instruction set offers for one type of packed element.
struct GemmKernel {
  bool bf16;             ///< packed elements are bf16, else f32
  int mr, nr;            ///< the micro-tile
  int a_group, b_group;  ///< consecutive k that lie together; a_group is a multiple of b_group
  /// Columns that lie together in a panel of b, which is [k / a_group][nr / columns][a_group /
  /// b_group][columns][b_group]; where they are nr, that is [k / b_group][nr][b_group].
  int b_columns;
  bool rows_in_place;     ///< the tile reads bf16 rows of a where they lie
  bool any_rows = false;  ///< a_step_bytes may be of any number of rows; time grows with rows
  int kc;                 ///< k of a block at most (a b panel of it stays in L1 or L2); a multiple of a_group
  int columns;            ///< of c whose sums are kept for the next block of k
  bool outruns_stores;    ///< so fast that it waits for stores to memory in no cache, which then go past the
                          ///< caches
  void (*begin)();        ///< before the tiles of a job, on its thread; may be null
  void (*end)();          ///< after them
  void (*tile)(const GemmTile*);
  void (*store)(const GemmStore*);
  void (*pack)(const GemmPack*);
  void (*column_sums)(const ColumnSums*);  ///< of f32 kernels
  void (*fence)() = nullptr;  ///< after it other threads see what pack wrote past the caches; null: at once
  // Of kernels of integers, which read rows of a in place, multiply exactly and add up in i32:
  int integer_bytes = 0;  ///< of a packed element; 0: floats
  int a_shift = 0;        ///< added to the values of a
  void (*quantize_a)(const GemmQuantize*) = nullptr;
  void (*quantize_b)(const GemmQuantize*) = nullptr;  ///< src is f32
};

/// Shared by the levels with bf16.
void gemm_pack_avx512bf16(const GemmPack*);

extern const GemmKernel kGemmF32Portable;
extern const GemmKernel kGemmF32Avx2;
extern const GemmKernel kGemmF32Avx512;
extern const GemmKernel kGemmBf16Avx512Bf16;
extern const GemmKernel kGemmBf16Amx;
extern const GemmKernel kGemmF32Neon;
extern const GemmKernel kGemmBf16NeonBf16;
extern const GemmKernel kGemmInt8Portable;
extern const GemmKernel kGemmInt8Avx2;
extern const GemmKernel kGemmInt8Avx2Vnni;
extern const GemmKernel kGemmInt8Avx512;
extern const GemmKernel kGemmInt8Avx512Vnni;
extern const GemmKernel kGemmInt8Amx;
extern const GemmKernel kGemmInt8Neon;
extern const GemmKernel kGemmInt8NeonDot;

}  // namespace lathe::cpu
