#include "lathe/data/torch_random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr size_t kWords = 624, kShift = 397;
constexpr int64_t kWide = int64_t{1} << 28;  // randint draws from two words from this on
constexpr size_t kBlock = 16;                // the vector width that the long form of normal_ was written for

// The bytes of TorchGenerator::state.
struct StoredState {
  uint32_t words[kWords];
  uint32_t used, has_spare;
  double spare;
};
static_assert(sizeof(StoredState) == kWords * 4 + 16);  // no padding

// Box and Muller on 16 uniform numbers in place: element j and j + 8 make a pair.
void normal_block(float* block, float mean, float stddev) {
  for (size_t j = 0; j < kBlock / 2; ++j) {
    const float u1 = 1.0f - block[j], u2 = block[j + kBlock / 2];
    const float radius = std::sqrt(-2.0f * std::log(u1));
    const float theta = 2.0f * std::numbers::pi_v<float> * u2;
    block[j] = radius * std::cos(theta) * stddev + mean;
    block[j + kBlock / 2] = radius * std::sin(theta) * stddev + mean;
  }
}

}  // namespace

TorchGenerator::TorchGenerator(uint64_t seed) {
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

void TorchGenerator::refill() {
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % kWords] & 0x7FFFFFFFu);
    state_[i] = state_[(i + kShift) % kWords] ^ (y >> 1) ^ (y & 1 ? 0x9908B0DFu : 0);
  }
  used_ = 0;
}

uint32_t TorchGenerator::next32() {
  if (used_ == kWords) refill();
  uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

uint64_t TorchGenerator::next64() {
  const uint64_t high = next32();
  return high << 32 | next32();
}

std::vector<int32_t> TorchGenerator::randperm(int64_t n) {
  if (n < 0 || n >= std::numeric_limits<uint32_t>::max() / 20)
    fail(ErrorCode::kUnsupported, "randperm: expected 0 to {} items, found {}",
         std::numeric_limits<uint32_t>::max() / 20 - 1, n);
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i + 1 < n; ++i) std::swap(order[i], order[i + next32() % (n - i)]);
  return order;
}

void TorchGenerator::uniform(std::span<float> out, float low, float high) {
  for (float& x : out) x = static_cast<float>(next32() & 0xFFFFFFu) * 0x1p-24f * (high - low) + low;
}

void TorchGenerator::normal(std::span<float> out, float mean, float stddev) {
  if (out.size() < kBlock) {
    for (float& x : out) x = static_cast<float>(next_normal() * stddev + mean);
    return;
  }
  uniform(out);
  for (size_t i = 0; i + kBlock <= out.size(); i += kBlock) normal_block(&out[i], mean, stddev);
  if (out.size() % kBlock != 0) {  // the last 16 are drawn anew, some of them a second time
    const auto last = out.last(kBlock);
    uniform(last);
    normal_block(last.data(), mean, stddev);
  }
}

void TorchGenerator::truncated_normal(std::span<float> out, float stddev, float most) {
  if (!(most >= stddev / 2))
    fail(ErrorCode::kUnsupported, "truncated_normal: expected a bound of {} or more, found {}", stddev / 2,
         most);
  const auto beyond = [&](float x) { return std::abs(x) > most; };
  normal(out, 0, stddev);
  std::vector<float> others(out.size());
  while (std::any_of(out.begin(), out.end(), beyond)) {
    normal(others, 0, stddev);
    for (size_t i = 0; i < out.size(); ++i)
      if (beyond(out[i])) out[i] = others[i];
  }
}

bool TorchGenerator::bernoulli(float p) { return static_cast<float>(next32() & 0xFFFFFFu) * 0x1p-24f < p; }

void TorchGenerator::randint(int64_t high, std::span<int64_t> out) {
  if (high < 1) fail(ErrorCode::kUnsupported, "randint: expected numbers below 1 or more, found {}", high);
  const auto range = static_cast<uint64_t>(high);
  for (int64_t& x : out) x = static_cast<int64_t>((high < kWide ? next32() : next64()) % range);
}

int64_t TorchGenerator::random63() { return static_cast<int64_t>(next64() & ~(uint64_t{1} << 63)); }

std::vector<std::byte> TorchGenerator::state() const {
  StoredState stored{};
  std::copy(state_.begin(), state_.end(), stored.words);
  stored.used = static_cast<uint32_t>(used_);
  stored.has_spare = spare_normal_.has_value();
  stored.spare = spare_normal_.value_or(0);
  std::vector<std::byte> bytes(sizeof stored);
  std::memcpy(bytes.data(), &stored, sizeof stored);
  return bytes;
}

void TorchGenerator::restore(std::span<const std::byte> state) {
  StoredState stored;
  if (state.size() != sizeof stored)
    fail(ErrorCode::kInvalidData, "the state of a random generator: expected {} bytes, found {}",
         sizeof stored, state.size());
  std::memcpy(&stored, state.data(), sizeof stored);
  if (stored.used > kWords || stored.has_spare > 1)
    fail(ErrorCode::kInvalidData,
         "the state of a random generator: expected at most {} used words and a mark of 0 or 1, found {} and "
         "{}: these bytes are damaged",
         kWords, stored.used, stored.has_spare);
  std::copy(std::begin(stored.words), std::end(stored.words), state_.begin());
  used_ = stored.used;
  spare_normal_ = stored.has_spare ? std::optional<double>(stored.spare) : std::nullopt;
}

double TorchGenerator::next_normal() {
  if (spare_normal_) {
    const double spare = *spare_normal_;
    spare_normal_.reset();
    return spare;
  }
  const auto uniform53 = [this] { return static_cast<double>(next64() & ((1ull << 53) - 1)) * 0x1p-53; };
  const double u1 = uniform53(), u2 = uniform53();
  const double radius = std::sqrt(-2.0 * std::log1p(-u2)), theta = 2.0 * std::numbers::pi * u1;
  spare_normal_ = radius * std::sin(theta);
  return radius * std::cos(theta);
}

}  // namespace lathe
