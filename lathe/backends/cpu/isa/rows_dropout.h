// Philox on vectors of counters, and dropout by it.  The rule is in lathe/core/philox.h.
#pragma once
#include "lathe/backends/cpu/isa/rows_kernels.h"
#include "lathe/backends/cpu/isa/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// Columns that are decided on together: eight per counter.
constexpr int kDecisions = 8 * kLanes;

/// Seven rounds on counters whose words lie in the lower halves of 64 bits; the upper halves may be anything,
/// since products read the lower ones alone.
inline void philox(const DropoutRule& rule, Longs c[4]) {
  uint32_t k0 = rule.seed, k1 = rule.step;
  for (int round = 0; round < 7; ++round) {
    const Longs p0 = multiply_even(c[0], Longs{} + 0xD2511F53u);
    const Longs p2 = multiply_even(c[2], Longs{} + 0xCD9E8D57u);
    c[0] = (p2 >> 32) ^ c[1] ^ k0;
    c[1] = p2;
    c[2] = (p0 >> 32) ^ c[3] ^ k1;
    c[3] = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/// What dropout decides on kDecisions columns that follow each other.
class Decisions {
 public:
  /// column: the first one, a multiple of 8.
  void draw(const DropoutRule& rule, uint32_t sample, uint32_t row, int64_t column) {
    // Lane l of 32 bits decides the group that makes the transposed words lie in the order of the columns.
    const auto group = [](int l) { return static_cast<uint64_t>(kLanes / 4 * (l % 4) + l / 4); };
    Longs even, odd;
    for (int l = 0; l < kLanes / 2; ++l) even[l] = group(2 * l), odd[l] = group(2 * l + 1);
    const uint64_t first = static_cast<uint64_t>(column / 8);
    Longs c[4] = {even + first, Longs{} + row, Longs{} + sample, Longs{} + rule.site};
    Longs d[4] = {odd + first, c[1], c[2], c[3]};
    philox(rule, c);
    philox(rule, d);
    Uints words[4];
    for (int i = 0; i < 4; ++i) words[i] = bits_as<Uints>((c[i] & 0xffffffffu) | d[i] << 32);
    transpose_blocks(words);
#if defined(__AVX512F__)
    const __m512i last_dropped = _mm512_set1_epi16(static_cast<int16_t>(rule.threshold - 1));
    for (int i = 0; i < 4; ++i) {
      const uint32_t kept = _mm512_cmpgt_epu16_mask(bits_as<__m512i>(words[i]), last_dropped);
      kept_[i] = rule.threshold == 0 ? ~uint32_t{0} : kept;
    }
#else
    memcpy(bits_, words, sizeof words);
#endif
  }

  /// x · scale where the columns from i on, a multiple of kLanes, are kept, else 0.
  Floats keep(const DropoutRule& rule, int64_t i, Floats x) const {
#if defined(__AVX512F__)
    const auto kept = static_cast<__mmask16>(kept_[i / 32] >> i % 32);
    return bits_as<Floats>(_mm512_maskz_mul_ps(kept, bits_as<__m512>(x), _mm512_set1_ps(rule.scale)));
#else
    Halves h;
    memcpy(&h, bits_ + i, sizeof h);
    return bits_as<Ints>(widened(h)) >= static_cast<int32_t>(rule.threshold) ? x * rule.scale : all(0);
#endif
  }

 private:
#if defined(__AVX512F__)
  uint32_t kept_[4];  // a bit for each column
#else
  uint16_t bits_[kDecisions];
#endif
};

/// `rule` is a copy, which no store can reach, so that what is made of it stays for all rows.
template <typename T, bool kResidual>
void dropout_rows(int64_t begin, int64_t end, int64_t cols, int64_t ld, DropoutRule rule,
                  const int32_t* sample_ids, const int32_t* positions, const T* x, const T* residual, T* y) {
  Decisions decisions;
  for (int64_t row = begin; row < end; ++row) {
    const uint32_t sample = static_cast<uint32_t>(sample_ids[row]);
    const uint32_t position = positions == nullptr ? 0 : static_cast<uint32_t>(positions[row]);
    for (int64_t c = 0; c < cols; c += kDecisions) {
      decisions.draw(rule, sample, position, c);
      const int64_t at = row * ld + c, left = cols - c;
      for_vectors(left < kDecisions ? left : kDecisions, [&](int64_t i, auto w) {
        fetch(x + at + ld, i);
        if constexpr (kResidual) fetch(residual + at + ld, i);
        Floats v = decisions.keep(rule, i, load(x + at + i, w));
        if constexpr (kResidual) v += load(residual + at + i, w);
        store(y + at + i, v, w);
      });
    }
  }
}

template <typename T>
void dropout(int64_t begin, int64_t end, int64_t cols, int64_t ld, const DropoutRule* rule,
             const int32_t* sample_ids, const int32_t* positions, const void* x, const void* residual,
             void* y) {
  const T *from = static_cast<const T*>(x), *base = static_cast<const T*>(residual);
  T* to = static_cast<T*>(y);
  if (base == nullptr) {
    dropout_rows<T, false>(begin, end, cols, ld, *rule, sample_ids, positions, from, base, to);
  } else {
    dropout_rows<T, true>(begin, end, cols, ld, *rule, sample_ids, positions, from, base, to);
  }
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
