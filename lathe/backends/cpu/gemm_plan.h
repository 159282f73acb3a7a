#pragma once
#include <stdint.h>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/gemm_kernel.h"
#include "lathe/backends/cpu/gemm_packing.h"

// How gemm cuts a product.

namespace lathe::cpu {

/// The kernel of a level for sums of products of f32, bf16 or f16.  Where there is no arithmetic on bf16 it
/// is the kernel of f32, whose packing rounds.  So it is for f16, because the product of two f16 is exact in
/// f32.
const GemmKernel& kernel_of(Isa isa, DType compute);

/// What the operands of g are rounded to.
DType compute_type(const Gemm& g);

/// Everything about one product that follows from its shape, the kernel and the number of threads.
struct Plan {
  const GemmKernel& kernel;
  void (*column_sums)(const ColumnSums*);
  const Gemm& g;
  DType compute;                        // what is summed: products of this
  int64_t k_padded, k_blocks, k_block;  // the blocks of k depend only on k
  int mr;  // rows of a panel of a: kernel.mr, or less where that makes panels even
  int64_t m_panels, n_panels;
  int64_t first_packed;  // panels of a before it are read in place
  int down, across;      // regions of c, one for each thread
  // Of one operand a block stays in the cache, and the other one streams past it.  If only one thread needs
  // the block that stays, it packs it when it needs it; all else is packed before, by all threads together.
  bool a_stays = true, stays_own = false;
  int64_t m_step, n_step;  // panels of a block of c; the bits do not depend on it
  int64_t tiles_waiting;
  size_t a_bytes, b_bytes;            // packed before
  size_t block_bytes, scratch_bytes;  // of each thread: the block that stays, and sums
  size_t block_sums_bytes;            // a_sums over each block of k, where a is packed before

  Plan(Isa isa, const Gemm& product, int threads);

  int64_t element_bytes() const { return g.integers ? kernel.integer_bytes : kernel.bf16 ? 2 : 4; }
  size_t thread_bytes() const { return block_bytes + scratch_bytes; }
  size_t bytes(int threads) const {
    return a_bytes + b_bytes + static_cast<size_t>(threads) * thread_bytes() + block_sums_bytes;
  }
  bool a_own() const { return a_stays && stays_own; }
  bool b_own() const { return !a_stays && stays_own; }
  Packing packing_of_a(char* dst, bool streams = false) const;
  Packing packing_of_b(char* dst, bool streams = false) const;

 private:
  void cut(int threads);
};

/// Panels of c: those of the operand that stays in the cache, and those that stream past them: piece `turn`
/// of `turns`.  After that other panels stay: `next`, or none.
struct Block {
  Share stays, streams;
  int64_t turn, turns;
  Share next;
};

/// c in blocks: those of one region after another.
class Blocks {
 public:
  Blocks(const Plan& p, int parts);

  int64_t count() const { return p_.down * p_.across * m_blocks_ * n_blocks_; }
  /// Over some consecutive indices the same panels stay in the cache.  Some blocks are empty.
  Block operator[](int64_t index) const;

 private:
  const Plan& p_;
  int64_t m_blocks_, n_blocks_;
};

}  // namespace lathe::cpu
