// Which keys of its sequence a query sees: those at most `before` tokens before and `after` tokens after it.
#pragma once
#include <stdint.h>

#include "lathe/backends/cpu/isa/attention/attention_kernels.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Keys that some query from `query` on sees begin in the block of `size` keys from here on.
inline int64_t first_key(const AttentionTask& t, int64_t query, int64_t size) {
  return query > t.before ? (query - t.before) / size * size : 0;
}
/// … and those that one of `queries` queries sees end here.
inline int64_t end_key(const AttentionTask& t, int64_t query, int64_t queries) {
  return smaller(t.length, query + queries + t.after);
}
/// The same of the queries that see one of the keys from `key` on.
inline int64_t first_query(const AttentionTask& t, int64_t key, int64_t size) {
  return key > t.after ? (key - t.after) / size * size : 0;
}
inline int64_t end_query(const AttentionTask& t, int64_t key, int64_t keys) {
  return smaller(t.length, key + keys + t.before);
}
/// Each of these queries sees each of these keys.
inline bool all_seen(const AttentionTask& t, int64_t query, int64_t queries, int64_t key, int64_t keys) {
  return key + keys - 1 - query <= t.after && query + queries - 1 - key <= t.before;
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
  const int64_t before = query - t.before - begin, from = before > 0 ? before / 32 * 32 : 0;
  const int64_t count = end_key(t, query, queries) - begin - from;
  return {from, smaller(keys - from, (count + 31) / 32 * 32)};
}
/// The queries from `query` on, a multiple of 32, have seen keys before `begin`, a multiple of 32, too.
inline bool begun_before(const AttentionTask& t, int64_t query, int64_t begin) {
  return first_key(t, query, 32) < begin;
}

/// A task of the backward pass for one of its heads of q; T: as the tensors are stored.
template <typename T>
inline AttentionTask head_of_group(const AttentionTask& t, int64_t head) {
  AttentionTask of = t;
  const int64_t columns = head * t.width;
  of.q = static_cast<const T*>(t.q) + columns;
  of.dq = static_cast<T*>(t.dq) + columns;
  of.out = static_cast<const T*>(t.out) + columns;
  of.dout = static_cast<const T*>(t.dout) + columns;
  of.lse = t.lse + head * t.lse_stride;
  of.head = t.head + static_cast<uint32_t>(head);
  return of;
}

/// Largest score of a query that has seen no key yet: e^(−∞ − this) is 0, not NaN.
constexpr float kNoneSeen = -__FLT_MAX__;

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
