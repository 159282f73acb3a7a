#pragma once
#include <immintrin.h>

#include "lathe/backends/cpu/gemm_kernel.h"

// What the tiles of the AMX levels do next to their products.  Each file that includes this gets its own
// copy.

namespace lathe::cpu {
namespace {

using StoreRows = void(const GemmStore*, int first, int last);

// Stores rows of the earlier tile by kStoreOf(store) and fetches the next panel of b, in equal parts over the
// steps of a tile, which take kStep elements of k each.
template <StoreRows* (*kStoreOf)(const GemmStore*), int kStep>
class Meanwhile {
 public:
  explicit Meanwhile(const GemmTile* t) : finish_(t->finish), next_(static_cast<const char*>(t->next)) {
    const int64_t steps = t->k / kStep;
    if (finish_ != nullptr) {
      store_ = kStoreOf(finish_);
      rows_ = static_cast<int>((finish_->rows + steps - 1) / steps);
    }
    lines_ = static_cast<int>((t->next_bytes / 64 + steps - 1) / steps);
    end_ = next_ + t->next_bytes;
  }
  void step() {
    if (rows_ > 0) {
      const int end = row_ + rows_ < finish_->rows ? row_ + rows_ : finish_->rows;
      store_(finish_, row_, end);
      row_ = end;
      if (row_ == finish_->rows) rows_ = 0;
    }
    for (int i = 0; i < lines_ && next_ < end_; ++i, next_ += 64) _mm_prefetch(next_, _MM_HINT_T1);
  }

 private:
  const GemmStore* finish_;
  const char *next_, *end_;
  StoreRows* store_ = nullptr;
  int lines_, rows_ = 0, row_ = 0;
};

}  // namespace
}  // namespace lathe::cpu
