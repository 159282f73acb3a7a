#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace lathe {

/// Philox4x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): 128 random bits as a
/// pure function of a 128-bit counter and a 64-bit key.
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 7; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// The dropout rule of every backend.  A decision is a pure function of what it decides:
///   key     = (seed, update step)
///   counter = (column / 8, row, sample ordinal in the global batch, site)
/// where row is the token position (hidden dropout) or head << 16 | query position (attention dropout, whose
/// column is the key position).  One call decides eight neighbouring columns: decision j takes the 16 bits
/// j%2 of word j/2 and drops the element when they are below `dropout_threshold(p)`.
inline uint32_t dropout_bits(const std::array<uint32_t, 4>& words, int j) {
  return (words[j / 2] >> (16 * (j % 2))) & 0xffffu;
}

/// round(p · 65536): the probability that is really used is this / 65536.
uint32_t dropout_threshold(double p);
/// 1 / (1 − p) for the probability that is really used.
float dropout_scale(double p);
/// A stable 32-bit number for a site's name (FNV-1a), e.g. "encoder.layer.3.output.dropout".
uint32_t dropout_site(std::string_view name);

}  // namespace lathe
