// Philox on vectors of counters, and dropout by it.  The rule is in lathe/core/philox.h.
#pragma once
#include "lathe/backends/cpu/isa/rows_kernels.h"
#include "lathe/backends/cpu/isa/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// Columns that one call of `decide` covers: eight per counter.
constexpr int kDecisions = 8 * kLanes;

/// Both halves of the 64-bit products c · m.
inline void multiply(Uints c, uint32_t m, Uints& high, Uints& low) {
  const Longs factor = Longs{} + m, c2 = bits_as<Longs>(c);
  const Longs even = multiply_even(c2, factor), odd = multiply_even(c2 >> 32, factor);
  constexpr uint64_t kLow = 0xffffffffu;
  high = bits_as<Uints>((even >> 32) | (odd & ~kLow));
  low = bits_as<Uints>((even & kLow) | (odd << 32));
}

/// bits[j]: the 16 random bits of column + j, for j < kDecisions; column is a multiple of 8.
inline void decide(const DropoutRule& rule, uint32_t sample, uint32_t row, int64_t column, uint16_t* bits) {
  // Lane l decides the group that makes the transposed words lie in the order of the columns.
  Uints group;
  for (int l = 0; l < kLanes; ++l) group[l] = static_cast<uint32_t>(kLanes / 4 * (l % 4) + l / 4);
  Uints c[4] = {group + static_cast<uint32_t>(column / 8), Uints{} + row, Uints{} + sample,
                Uints{} + rule.site};
  uint32_t k0 = rule.seed, k1 = rule.step;
  for (int round = 0; round < 7; ++round) {
    Uints high0, low0, high2, low2;
    multiply(c[0], 0xD2511F53u, high0, low0);
    multiply(c[2], 0xCD9E8D57u, high2, low2);
    c[0] = high2 ^ c[1] ^ k0;
    c[1] = low2;
    c[2] = high0 ^ c[3] ^ k1;
    c[3] = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  transpose_blocks(c);
  memcpy(bits, c, sizeof c);
}

/// x · scale where the bits say keep, else 0.
inline Floats keep(const DropoutRule& rule, const uint16_t* bits, Floats x) {
  Halves h;
  memcpy(&h, bits, sizeof h);
  const Ints drawn = bits_as<Ints>(widened(h));
  return drawn >= static_cast<int32_t>(rule.threshold) ? x * rule.scale : all(0);
}

template <typename T, bool kResidual>
void dropout_rows(int64_t begin, int64_t end, int64_t cols, const DropoutRule& rule,
                  const int32_t* sample_ids, const int32_t* positions, const T* x, const T* residual, T* y) {
  uint16_t bits[kDecisions];
  for (int64_t row = begin; row < end; ++row) {
    const uint32_t sample = static_cast<uint32_t>(sample_ids[row]);
    const uint32_t position = positions == nullptr ? 0 : static_cast<uint32_t>(positions[row]);
    for (int64_t c = 0; c < cols; c += kDecisions) {
      decide(rule, sample, position, c, bits);
      const int64_t at = row * cols + c, left = cols - c;
      for_vectors(left < kDecisions ? left : kDecisions, [&](int64_t i, auto w) {
        Floats v = keep(rule, bits + i, load(x + at + i, w));
        if constexpr (kResidual) v += load(residual + at + i, w);
        store(y + at + i, v, w);
      });
    }
  }
}

template <typename T>
void dropout(int64_t begin, int64_t end, int64_t cols, const DropoutRule* rule, const int32_t* sample_ids,
             const int32_t* positions, const void* x, const void* residual, void* y) {
  const T *from = static_cast<const T*>(x), *base = static_cast<const T*>(residual);
  T* to = static_cast<T*>(y);
  if (base == nullptr) {
    dropout_rows<T, false>(begin, end, cols, *rule, sample_ids, positions, from, base, to);
  } else {
    dropout_rows<T, true>(begin, end, cols, *rule, sample_ids, positions, from, base, to);
  }
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
