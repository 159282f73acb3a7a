#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lathe {

/// The random numbers of PyTorch's CPU generator (`torch.Generator().manual_seed(seed)`): MT19937 with the
/// low 32 bits of the seed.  Integers and truths are equal to PyTorch's; normal numbers differ only by the
/// rounding of log, sin and cos (about 1e-7 relative).  Source: Matsumoto and Nishimura 1998; behaviour of
/// torch 2.15.
class TorchGenerator {
 public:
  explicit TorchGenerator(uint64_t seed);

  uint32_t next32();
  /// Two draws, the first one in the high half.
  uint64_t next64();

  /// `torch.randperm(n)`.  Errors: kUnsupported from n = 2^32 / 20 on, where PyTorch takes another way.
  std::vector<int32_t> randperm(int64_t n);
  /// `Tensor.uniform_(low, high)` for float32.
  void uniform(std::span<float> out, float low = 0, float high = 1);
  /// `Tensor.normal_(mean, std)` for a contiguous float32 tensor of this many elements.
  void normal(std::span<float> out, float mean = 0, float stddev = 1);
  /// `torch.nn.init.trunc_normal_(mean 0, stddev, −most, most)` of torch 2.15: numbers beyond are drawn
  /// again, all at once, until there are none.  Errors: kUnsupported for most below stddev / 2, where PyTorch
  /// takes another way.
  void truncated_normal(std::span<float> out, float stddev, float most);
  /// An element of `torch.bernoulli(p)` for a float32 tensor on the CPU, whose elements are drawn in order:
  /// one draw each, also where p is 0 or 1.
  bool bernoulli(float p);
  /// `torch.randint(high, size, dtype=torch.long)`: [0, high).  One draw each, two from a `high` of 2^28 on.
  /// Errors: kUnsupported for a `high` below 1.
  void randint(int64_t high, std::span<int64_t> out);
  /// `torch.empty((), dtype=torch.int64).random_()`: the seed that an iterator of a DataLoader draws.
  int64_t random63();

  /// All that the next draws depend on, from which `restore` goes on, in another process too.
  std::vector<std::byte> state() const;
  /// Errors: kInvalidData, and nothing is changed, if these are not the bytes of a state.
  void restore(std::span<const std::byte> state);

 private:
  void refill();
  double next_normal();

  std::array<uint32_t, 624> state_;
  size_t used_ = 624;
  std::optional<double> spare_normal_;  // the second of a pair that the short form of `normal` has drawn
};

}  // namespace lathe
