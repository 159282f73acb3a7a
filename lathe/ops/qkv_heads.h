#pragma once
#include <cstdint>

#include "lathe/core/error.h"
#include "lathe/program/attrs.h"

namespace lathe {

/// What a row of qkv [N, (heads + 2 kv_heads) · width] holds: q of every head, then k and v of every head of
/// these.  A head of k and v serves heads / kv_heads heads of q that follow each other.
struct QkvHeads {
  int64_t heads, kv_heads, width;

  int64_t group() const { return heads / kv_heads; }
  int64_t all() const { return heads + 2 * kv_heads; }
  /// Columns of q, and of what attention gives.
  int64_t columns() const { return heads * width; }
};

/// By the attributes heads and kv_heads (0: as many) of an op, whose qkv has so many columns.  Errors:
/// kShape.
inline QkvHeads qkv_heads(const char* op, int64_t columns, const Attrs& attrs) {
  const int64_t heads = attrs.i("heads"), given = attrs.i("kv_heads"), kv_heads = given == 0 ? heads : given;
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    fail(ErrorCode::kShape, "{}: found {} heads of q and {} of k and v, expected a multiple of the latter",
         op, heads, kv_heads);
  const QkvHeads found{heads, kv_heads, columns / (heads + 2 * kv_heads)};
  if (found.width < 1 || columns % found.all() != 0)
    fail(ErrorCode::kShape, "{}: qkv has {} columns, expected a multiple of {}: {} + 2 · {} heads", op,
         columns, found.all(), heads, kv_heads);
  return found;
}

}  // namespace lathe
