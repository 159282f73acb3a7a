#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace lathe {

/// `numpy.random.default_rng(seed)`: PCG64, seeded by a SeedSequence.  Source: O'Neill 2014; behaviour of
/// numpy 2.
class NumpyGenerator {
 public:
  /// seed: not negative.
  explicit NumpyGenerator(uint64_t seed);

  uint64_t next64();
  /// The low half of next64, then the high one.
  uint32_t next32();
  /// `permutation(n)`, with which datasets' `Dataset.shuffle(seed)` orders n rows.
  std::vector<int64_t> permutation(int64_t n);

 private:
  /// Evenly from 0 to `most`.
  uint64_t below_or(uint64_t most);

  unsigned __int128 state_ = 0, increment_ = 0;
  std::optional<uint32_t> half_;  // of the last next64
};

}  // namespace lathe
