#include "lathe/data/numpy_random.h"

#include <array>
#include <bit>
#include <numeric>
#include <utility>

namespace lathe {
namespace {

/// numpy's SeedSequence: four words that every bit of the seed has touched.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, 2> entropy = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(i < entropy.size() ? entropy[i] : 0);
    for (size_t from = 0; from < pool_.size(); ++from)
      for (size_t to = 0; to < pool_.size(); ++to)
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
  }

  /// `generate_state(4, uint64)`.
  std::array<uint64_t, 4> state() const {
    std::array<uint32_t, 8> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < words.size(); ++i) {
      uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      words[i] = value ^ (value >> 16);
    }
    std::array<uint64_t, 4> out{};
    for (size_t i = 0; i < out.size(); ++i) out[i] = words[2 * i] | uint64_t{words[2 * i + 1]} << 32;
    return out;
  }

 private:
  uint32_t hash(uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875;
    value *= constant_;
    return value ^ (value >> 16);
  }
  static uint32_t mix(uint32_t a, uint32_t b) {
    const uint32_t mixed = 0xca01f9dd * a - 0x4973f715 * b;
    return mixed ^ (mixed >> 16);
  }

  uint32_t constant_ = 0x43b0d7e5;
  std::array<uint32_t, 4> pool_{};
};

constexpr unsigned __int128 wide(uint64_t high, uint64_t low) {
  return static_cast<unsigned __int128>(high) << 64 | low;
}

constexpr unsigned __int128 kMultiplier = wide(0x2360ED051FC65DA4, 0x4385DF649FCCF645);

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedSequence(seed).state();
  increment_ = wide(words[2], words[3]) << 1 | 1;
  state_ = (increment_ + wide(words[0], words[1])) * kMultiplier + increment_;
}

uint64_t NumpyGenerator::next64() {
  state_ = state_ * kMultiplier + increment_;
  const auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

uint32_t NumpyGenerator::next32() {
  if (half_) return *std::exchange(half_, std::nullopt);
  const uint64_t both = next64();
  half_ = static_cast<uint32_t>(both >> 32);
  return static_cast<uint32_t>(both);
}

uint64_t NumpyGenerator::below_or(uint64_t most) {
  if (most == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(most);
  for (;;) {
    const uint64_t value = (most <= UINT32_MAX ? next32() : next64()) & mask;
    if (value <= most) return value;
  }
}

std::vector<int64_t> NumpyGenerator::permutation(int64_t n) {
  std::vector<int64_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t i = rows.size(); i-- > 1;) std::swap(rows[i], rows[below_or(i)]);
  return rows;
}

}  // namespace lathe
