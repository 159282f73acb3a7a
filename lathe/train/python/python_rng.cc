#include "lathe/train/python/python_rng.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "lathe/io/torch/pickle_writer.h"
#include "lathe/io/torch/torch_file.h"

namespace lathe {
namespace {

constexpr size_t kWords = 624, kTorchBytes = 5056;
using Words = std::array<uint32_t, kWords>;

/// MT19937 as seeded; all words are to be made anew before the first number.
Words seeded_words(uint32_t seed) {
  Words words{seed};
  for (uint32_t i = 1; i < kWords; ++i)
    words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;  // Matsumoto and Nishimura 2002
  return words;
}

/// CPUGeneratorImplState: seed, left, seeded, next, the words as 64 bits, and kept normal numbers: none.
std::array<std::byte, kTorchBytes> torch_bytes(uint32_t seed, const Words& words) {
  std::array<std::byte, kTorchBytes> out{};
  size_t at = 0;
  const auto put = [&](const auto& value) {
    std::memcpy(out.data() + at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(uint64_t{seed});
  put(int32_t{1});   // left
  put(int32_t{1});   // seeded
  put(uint64_t{0});  // next
  for (const uint32_t word : words) put(uint64_t{word});
  return out;
}

}  // namespace

Status write_python_rng(FileSystem& fs, const std::string& folder, uint64_t seed, int64_t step) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: neighbours lie far apart
  const auto mixed =
      static_cast<uint32_t>(((seed + 1) * kGolden + static_cast<uint64_t>(step) * (kGolden >> 1)) >> 32);
  const Words words = seeded_words(mixed);
  PickleBuilder make;
  std::vector<PickleBuilder::Ref> numbers;
  for (const uint32_t word : words) numbers.push_back(make.number(word));
  const PickleBuilder::Ref key = make.tuple(numbers), used_up = make.number(kWords);
  numbers.push_back(used_up);
  const std::array<std::byte, kTorchBytes> cpu = torch_bytes(mixed, words);
  const std::array<uint64_t, 2> cuda = {mixed, 0};  // seed and offset of Philox
  const auto bytes = [&make](std::span<const std::byte> content) {
    return make.tensor({DType::u8, {static_cast<int64_t>(content.size())}, content});
  };
  const auto root =
      make.dict({{"python", make.tuple({make.number(3), make.tuple(numbers), make.none()})},
                 {"numpy", make.tuple({make.text("MT19937"), key, used_up, make.number(0), make.real(0)})},
                 {"cpu", bytes(cpu)},
                 {"cuda", bytes(std::as_bytes(std::span(cuda)))}});
  return write_torch_file(fs, join_path(folder, kRngFile), *root);
}

}  // namespace lathe
