// Which keys of its sequence a query sees: those at most `window` tokens away.
#pragma once
#include <stdint.h>

#include "lathe/backends/cpu/isa/attention/attention_kernels.h"

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

/// Of a block of keys those that some of the queries sees: `keys` from its key `from` on, in whole groups of
/// 32, the last one of a block as long as it is.
struct Seen {
  int64_t from, keys;
  int64_t end() const { return from + (keys + 31) / 32 * 32; }
};
/// Of the `keys` keys from `begin` on.  None: keys ≤ 0.
inline Seen seen_of_block(const AttentionTask& t, int64_t query, int64_t queries, int64_t begin,
                          int64_t keys) {
  const int64_t before = query - t.window - begin, from = before > 0 ? before / 32 * 32 : 0;
  const int64_t count = end_seen(t, query, queries) - begin - from;
  return {from, smaller(keys - from, (count + 31) / 32 * 32)};
}
/// The queries from `query` on, a multiple of 32, have seen keys before `begin`, a multiple of 32, too.
inline bool begun_before(const AttentionTask& t, int64_t query, int64_t begin) {
  return first_seen(t, query, 32) < begin;
}

/// Largest score of a query that has seen no key yet: e^(−∞ − this) is 0, not NaN.
constexpr float kNoneSeen = -__FLT_MAX__;

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
