#pragma once
// The random words of one head of one row (lathe/core/philox.h), with what does not depend on query and key
// computed once per block.
#include "lathe/backends/cuda/kernels/attention/attention.h"
#include "lathe/backends/cuda/kernels/common.cuh"

namespace lathe::cuda {

/// In shared memory: kernels read it anew for each tile of scores, four words at a time.
struct alignas(16) AttentionMask {
  static constexpr uint32_t kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u;
  static constexpr uint32_t kStep0 = 0x9E3779B9u, kStep1 = 0xBB67AE85u;

  /// keys[2 i], keys[2 i + 1]: of round i, and what else each of the first two rounds adds that is the same
  /// for all queries and keys.
  uint32_t keys[14];
  uint32_t limit;  ///< the threshold in the upper half of a word; one of 2¹⁶ as 2¹⁶ − 1: kept_scale then is 0
  uint32_t limits;  ///< in both halves

  /// Counter: (key / 8, head << 16 | query, sample, site).
  __device__ void prepare(const DropoutRule& rule, uint32_t seed, uint32_t step, int head, int32_t sample) {
#pragma unroll
    for (uint32_t i = 0; i < 7; ++i) {
      keys[2 * i] = seed + i * kStep0;
      keys[2 * i + 1] = step + i * kStep1;
    }
    keys[0] ^= __umulhi(kFactor1, static_cast<uint32_t>(sample)) ^ static_cast<uint32_t>(head) << 16;
    keys[1] ^= rule.site;
    keys[2] ^= kFactor1 * static_cast<uint32_t>(sample);
    limit = min(rule.threshold, 0xffffu) << 16;
    limits = limit | limit >> 16;
  }

  /// The decisions on eight neighbouring keys from 8 · group on.
  __device__ uint4 words(int query, int group) const {
    const uint64_t of_group = uint64_t{kFactor0} * static_cast<uint32_t>(group);
    uint32_t x = keys[0] ^ static_cast<uint32_t>(query), y = 0,
             z = static_cast<uint32_t>(of_group >> 32) ^ keys[1], w = static_cast<uint32_t>(of_group);
#pragma unroll
    for (int i = 1; i < 7; ++i) {
      const uint64_t a = uint64_t{kFactor0} * x, b = uint64_t{kFactor1} * z;
      x = static_cast<uint32_t>(b >> 32) ^ y ^ keys[2 * i], y = static_cast<uint32_t>(b);
      z = static_cast<uint32_t>(a >> 32) ^ w ^ keys[2 * i + 1], w = static_cast<uint32_t>(a);
    }
    return make_uint4(x, y, z, w);
  }

  /// Whether the lower or upper half of a word keeps its element.
  __device__ bool keeps(uint32_t word, int half) const { return (half == 0 ? word << 16 : word) >= limit; }

  /// Zeros what the lower and the upper half of a word drop.
  __device__ void drop(uint32_t word, float& of_lower, float& of_upper) const {
    bool lower, upper;
    __vibmax_u16x2(word, limits, &upper, &lower);
    if (!lower) of_lower = 0;
    if (!upper) of_upper = 0;
  }
};

}  // namespace lathe::cuda
