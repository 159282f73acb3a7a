R"metal(
// What own kernels share.  The subset: no pointers passed on, no unsigned wider than 32 bits, no atomics.
static constexpr constant uint kLanes = 32;  // of a simdgroup
static constexpr constant uint kRun = 8;     // neighbouring columns for which one call of Philox decides

struct Philox {
  uint word[4];
};

// Philox4x32-7, as lathe/core/philox.h.
inline Philox philox(uint c0, uint c1, uint c2, uint c3, uint k0, uint k1) {
  for (uint round = 0; round < 7; ++round) {
    const uint a_high = mulhi(0xD2511F53u, c0), a_low = 0xD2511F53u * c0;
    const uint b_high = mulhi(0xCD9E8D57u, c2), b_low = 0xCD9E8D57u * c2;
    c0 = b_high ^ c1 ^ k0;
    c1 = b_low;
    c2 = a_high ^ c3 ^ k1;
    c3 = a_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Philox{{c0, c1, c2, c3}};
}

// Whether dropout takes element j of a run.
inline bool drops(Philox bits, uint j, uint threshold) {
  return ((bits.word[j / 2] >> (16 * (j % 2))) & 0xffffu) < threshold;
}
)metal"
