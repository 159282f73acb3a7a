// Which keys of its sequence a query sees: those at most `window` tokens away.
#pragma once
#include <stdint.h>

#include "lathe/backends/cpu/isa/attention_kernels.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Keys that some query from `query` on sees begin in the block of `size` keys from here on.  The same holds
/// for the queries that see a key.
inline int64_t first_seen(const AttentionTask& t, int64_t query, int64_t size) {
  return query > t.window ? (query - t.window) / size * size : 0;
}
/// … and those that one of `queries` queries sees end here.
inline int64_t end_seen(const AttentionTask& t, int64_t query, int64_t queries) {
  return smaller(t.length, query + queries + t.window);
}
/// Each of these queries sees each of these keys.
inline bool all_seen(const AttentionTask& t, int64_t query, int64_t queries, int64_t key, int64_t keys) {
  return key + keys - 1 - query <= t.window && query + queries - 1 - key <= t.window;
}

/// Largest score of a query that has seen no key yet: e^(−∞ − this) is 0, not NaN.
constexpr float kNoneSeen = -__FLT_MAX__;

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
