#pragma once
#include <stdint.h>

#include "lathe/backends/cpu/gemm_kernel.h"
#include "lathe/core/dtype.h"
#include "lathe/core/thread_pool.h"

// How the operands of gemm get into the panels that its kernels read.

namespace lathe::cpu {

// k of a piece of a source whose lines run across the panels; also of a block of the sums of columns.  It is
// a multiple of every kernel's groups, and every kernel's kc is a multiple of it.
constexpr int64_t kPackedLines = 64;

/// A matrix and where its panels go.
struct Packing {
  const GemmKernel& kernel;
  const void* src;
  DType type;
  int64_t ld;
  bool along_k;
  int64_t lines, k, k_padded;  ///< lines: rows of a or columns of b
  int panel, columns, group;   ///< as in GemmPack
  DType round;
  char* dst;
  bool streams = false;  ///< dst may be written past the caches, until the kernel's fence
};

/// Packs k in [first_k, last_k) of one panel, both multiples of the group or the end of k, to its place after
/// `first_packed`.
void pack_piece(const Packing& p, int64_t panel, int64_t first_packed, int64_t first_k, int64_t last_k);

/// Rows of memory, as cache lines.
struct SourceRows {
  const char* first = nullptr;
  int64_t count = 0, row_bytes = 0, pitch = 0;

  /// The lines of part `part` of `parts`.
  GemmFetch fetch(int64_t part, int64_t parts) const;
};

/// The memory from which packing reads those panels and k.
SourceRows rows_of(const Packing& p, Share panels, Share k);

/// Half-open ranges of panels and of k.
struct Piece {
  Share panels, k;
};

/// The panels and k of one matrix in pieces.  They are so small that the source of the next one is fetched
/// while one is packed.  If lines run across the panels, a piece has few lines and much of each, because
/// lines are far from each other.
class Pieces {
 public:
  Pieces(const Packing& p, Share panels, Share k);

  long count() const { return across_ * down_; }
  Piece operator[](long i) const;
  /// Packs a piece and fetches what the next one reads.
  void pack(long i, int64_t first_packed) const;

 private:
  const Packing& p_;
  Piece all_;
  long width_, k_step_, across_, down_;
};

}  // namespace lathe::cpu
