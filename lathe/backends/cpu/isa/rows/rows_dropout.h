// Philox on vectors of counters, and dropout by it.  The rule is in lathe/core/philox.h.
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_kernels.h"
#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// Columns of a block that is decided on together: eight per counter.
constexpr int kDecisions = 8 * kLanes;

/// What dropout decides on neighbouring columns of a row.  Counters are 64 bits a word: the upper halves may
/// be anything, since products read only the lower ones.  In the first two rounds one product of two depends
/// only on the row, and is computed once for it.
class Decisions {
 public:
  static constexpr int kMaxBlocks = kLanes == 16 ? 2 : 1;  // as many as registers hold

  explicit Decisions(const DropoutRule& rule) : rule_(rule), word2_(Longs{} + (rule.site ^ rule.step)) {
    for (uint32_t r = 0; r < kRounds; ++r) {
      key0_[r] = Longs{} + (rule.seed + (r + 2) * kWeyl0);
      key1_[r] = Longs{} + (rule.step + (r + 2) * kWeyl1);
    }
  }

  /// From here on `draw` decides for this row.
  void begin_row(uint32_t sample, uint32_t row) {
    const uint64_t p2 = uint64_t{sample} * kMultiplier2;
    const uint64_t p0 = uint64_t{static_cast<uint32_t>(p2 >> 32) ^ row ^ rule_.seed} * kMultiplier0;
    row0_ = Longs{} + (static_cast<uint32_t>(p2) ^ (rule_.seed + kWeyl0));
    row2_ = Longs{} + (static_cast<uint32_t>(p0 >> 32) ^ (rule_.step + kWeyl1));
    row3_ = Longs{} + static_cast<uint32_t>(p0);
  }

  /// Decides kBlocks · kDecisions columns from `column` on, a multiple of 8.
  template <int kBlocks>
  void draw(int64_t column) {
    // Lane l of 32 bits decides the group that makes the transposed words lie in the order of the columns.
    const auto group = [](int l) { return static_cast<uint64_t>(kLanes / 4 * (l % 4) + l / 4); };
    Longs c[2 * kBlocks][4];  // the even lanes' groups of each block, and the odd ones'
    for (int i = 0; i < 2 * kBlocks; ++i) {
      Longs groups;
      for (int l = 0; l < kLanes / 2; ++l) groups[l] = group(2 * l + i % 2);
      c[i][0] = groups + static_cast<uint64_t>(column / 8 + i / 2 * kLanes);
    }
    philox(c);
    for (int block = 0; block < kBlocks; ++block) {
      Uints words[4];
      for (int i = 0; i < 4; ++i)
        words[i] = bits_as<Uints>((c[2 * block][i] & 0xffffffffu) | c[2 * block + 1][i] << 32);
      transpose_blocks(words);
#if defined(__AVX512F__)
      const __m512i last_dropped = _mm512_set1_epi16(static_cast<int16_t>(rule_.threshold - 1));
      for (int i = 0; i < 4; ++i) {
        const uint32_t kept = _mm512_cmpgt_epu16_mask(bits_as<__m512i>(words[i]), last_dropped);
        kept_[4 * block + i] = rule_.threshold == 0 ? ~uint32_t{0} : kept;
      }
#else
      memcpy(bits_ + block * kDecisions, words, sizeof words);
#endif
    }
  }

  /// x · scale where the columns from i on, a multiple of kLanes, are kept, else 0.
  Floats keep(int64_t i, Floats x) const {
#if defined(__AVX512F__)
    const auto kept = static_cast<__mmask16>(kept_[i / 32] >> i % 32);
    return bits_as<Floats>(_mm512_maskz_mul_ps(kept, bits_as<__m512>(x), _mm512_set1_ps(rule_.scale)));
#else
    Halves h;
    memcpy(&h, bits_ + i, sizeof h);
    return bits_as<Ints>(widened(h)) >= static_cast<int32_t>(rule_.threshold) ? x * rule_.scale : all(0);
#endif
  }

 private:
  static constexpr int kRounds = 5;  // after the first two

  /// c[i][0]: groups of columns.  By rounds, so that no product waits for another.
  template <size_t n>
  void philox(Longs (&c)[n][4]) const {
    for (auto& x : c) {
      const Longs p0 = multiply_even(x[0], Longs{} + kMultiplier0);
      const Longs p2 = multiply_even((p0 >> 32) ^ word2_, Longs{} + kMultiplier2);
      x[0] = (p2 >> 32) ^ row0_;
      x[1] = p2;
      x[2] = p0 ^ row2_;
      x[3] = row3_;
    }
    for (int round = 0; round < kRounds; ++round)
      for (auto& x : c) {
        const Longs p0 = multiply_even(x[0], Longs{} + kMultiplier0);
        const Longs p2 = multiply_even(x[2], Longs{} + kMultiplier2);
        x[0] = (p2 >> 32) ^ x[1] ^ key0_[round];
        x[1] = p2;
        x[2] = (p0 >> 32) ^ x[3] ^ key1_[round];
        x[3] = p0;
      }
  }

  DropoutRule rule_;
  Longs word2_, row0_, row2_, row3_, key0_[kRounds], key1_[kRounds];
#if defined(__AVX512F__)
  uint32_t kept_[4 * kMaxBlocks];  // a bit for each column
#else
  uint16_t bits_[kMaxBlocks * kDecisions];
#endif
};

/// `rule` is a copy that no store can reach, so that what is computed from it stays valid for all rows.
template <typename T, bool kResidual>
void dropout_rows(int64_t begin, int64_t end, int64_t cols, int64_t ld, DropoutRule rule,
                  const int32_t* sample_ids, const int32_t* positions, const T* x, const T* residual, T* y) {
  Decisions decisions(rule);
  for (int64_t row = begin; row < end; ++row) {
    const uint32_t sample = static_cast<uint32_t>(sample_ids[row]);
    const uint32_t position = positions == nullptr ? 0 : static_cast<uint32_t>(positions[row]);
    decisions.begin_row(sample, position);
    const auto block = [&](auto blocks, int64_t c, int64_t count) {
      decisions.draw<blocks.value>(c);
      const int64_t at = row * ld + c;
      for_results(count, y + at, [&](int64_t i, auto w) {
        fetch(x + at + ld, i);
        if constexpr (kResidual) fetch(residual + at + ld, i);
        const Floats kept = decisions.keep(i, load(x + at + i, w));
        if constexpr (kResidual) return kept + load(residual + at + i, w);
        return kept;
      });
    };
    constexpr std::integral_constant<int, Decisions::kMaxBlocks> kMost;
    constexpr std::integral_constant<int, 1> kOne;
    int64_t c = 0;
    for (; c + kMost * kDecisions <= cols; c += kMost * kDecisions) block(kMost, c, kMost * kDecisions);
    for (; c + kDecisions <= cols; c += kDecisions) block(kOne, c, kDecisions);
    if (c < cols) block(kOne, c, cols - c);
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
