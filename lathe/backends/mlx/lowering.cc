#include "lathe/backends/mlx/lowering.h"

#include <cstring>

#include "lathe/core/philox.h"

namespace lathe::mlx {
namespace {

/// The upper and lower half of a · b, u32.
std::pair<mx::array, mx::array> halves(uint32_t a, const mx::array& b) {
  const mx::array wide = mx::multiply(mx::array(uint64_t{a}, mx::uint64), mx::astype(b, mx::uint64));
  return {mx::astype(mx::right_shift(wide, mx::array(uint64_t{32}, mx::uint64)), mx::uint32),
          mx::astype(wide, mx::uint32)};
}

mx::array word(uint32_t x) { return mx::array(x, mx::uint32); }

}  // namespace

mx::array Constants::prefix(int64_t n, int64_t count) {
  const auto found = prefixes_.find({n, count});
  if (found != prefixes_.end()) return found->second;
  mx::array mask = mx::less(mx::arange(static_cast<int>(n)), mx::array(static_cast<int>(count)));
  mask.eval();
  return prefixes_.emplace(std::pair(n, count), mask).first->second;
}

mx::Dtype dtype_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return mx::float32;
    case DType::bf16:
      return mx::bfloat16;
    case DType::f16:
      return mx::float16;
    case DType::i32:
      return mx::int32;
    case DType::i64:
      return mx::int64;
    case DType::u8:
      return mx::uint8;
    case DType::f64:
      break;  // Metal has none
  }
  fail(ErrorCode::kUnsupported, "mlx: no arrays of f64");
}

mx::Shape shape_of(const Shape& shape) {
  mx::Shape out;
  for (const int64_t n : shape) out.push_back(static_cast<int>(n));
  return out;
}

mx::array array_of(std::span<const std::byte> bytes, const mx::Shape& shape, mx::Dtype dtype) {
  mx::allocator::Data data = mx::allocator::malloc(bytes.size());
  mx::allocator::Buffer buffer = data.buffer();
  std::memcpy(buffer.raw_ptr(), bytes.data(), bytes.size());
  return mx::array(std::move(data), shape, dtype);
}

mx::array dropout_decisions(int cols, const mx::array& position, const mx::array& sample, uint32_t site,
                            const mx::array& rng) {
  const int calls = (cols + 7) / 8;
  mx::Shape shape = mx::broadcast_shapes(position.shape(), sample.shape());
  shape.back() = calls;
  const auto spread = [&](const mx::array& x) { return mx::broadcast_to(x, shape); };
  const mx::array key = mx::view(rng, mx::uint32);
  mx::array k0 = mx::slice(key, {0}, {1}), k1 = mx::slice(key, {1}, {2});
  Arrays c{spread(mx::arange(0, calls, mx::uint32)), spread(position), spread(sample), spread(word(site))};
  for (int round = 0; round < 7; ++round) {
    const auto [a_high, a_low] = halves(0xD2511F53u, c[0]);
    const auto [b_high, b_low] = halves(0xCD9E8D57u, c[2]);
    c = {mx::bitwise_xor(mx::bitwise_xor(b_high, c[1]), k0), b_low,
         mx::bitwise_xor(mx::bitwise_xor(a_high, c[3]), k1), a_low};
    k0 = mx::add(k0, word(0x9E3779B9u));
    k1 = mx::add(k1, word(0xBB67AE85u));
  }
  // Decision j of a call is half j % 2 of word j / 2: in memory, all halves in order.
  const mx::array decisions = mx::view(mx::stack(c, -1), mx::uint16);
  mx::Shape flat = shape;
  flat.back() = 8 * calls;
  mx::Shape end = shape;
  end.back() = cols;
  return mx::slice(mx::reshape(decisions, flat), mx::Shape(shape.size(), 0), end);
}

mx::array drop(const mx::array& x, const mx::array& decisions, double p) {
  const mx::array kept = mx::greater_equal(mx::astype(decisions, mx::uint32), word(dropout_threshold(p)));
  return mx::where(kept, mx::multiply(x, number(dropout_scale(p))), number(0));
}

mx::array tree_sum(const mx::array& x) {
  constexpr int kLeaves = 32;  // a sum of so many, one after another, is off by a few ulp at most
  const int n = static_cast<int>(x.size());
  if (n <= kLeaves) return mx::sum(mx::reshape(x, {1, n}), 1);
  const mx::array flat = mx::reshape(x, {n});
  const int whole = n / kLeaves * kLeaves;
  const mx::array head =
      tree_sum(mx::sum(mx::reshape(mx::slice(flat, {0}, {whole}), {whole / kLeaves, kLeaves}), 1));
  return whole == n ? head : mx::add(head, tree_sum(mx::slice(flat, {whole}, {n})));
}

}  // namespace lathe::mlx
