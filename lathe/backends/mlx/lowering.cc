#include "lathe/backends/mlx/lowering.h"

#include <cstring>
#include <limits>

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

mx::array Constants::range(int n, mx::Dtype dtype) {
  const std::pair key(n, static_cast<int>(dtype.val()));
  const auto found = ranges_.find(key);
  if (found != ranges_.end()) return found->second;
  mx::array range = mx::arange(0, n, dtype);
  range.eval();
  return ranges_.emplace(key, range).first->second;
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
  for (const int64_t n : shape) {
    if (n > std::numeric_limits<int>::max())  // MLX counts a dimension in 32 bits
      fail(ErrorCode::kUnsupported, "mlx: found a tensor {}, takes dimensions below 2^31", to_string(shape));
    out.push_back(static_cast<int>(n));
  }
  return out;
}

mx::array array_of(std::span<const std::byte> bytes, const mx::Shape& shape, mx::Dtype dtype) {
  mx::allocator::Data data = mx::allocator::malloc(bytes.size());
  mx::allocator::Buffer buffer = data.buffer();
  std::memcpy(buffer.raw_ptr(), bytes.data(), bytes.size());
  return mx::array(std::move(data), shape, dtype);
}

/// The decisions of dropout: 16 bits each, u16 [.., cols].
static mx::array decisions(const Call& call, int cols, const mx::array& position, const mx::array& sample,
                           const mx::array& rng) {
  const int calls = (cols + 7) / 8;
  mx::Shape shape = mx::broadcast_shapes(position.shape(), sample.shape());
  shape.back() = calls;
  const auto spread = [&](const mx::array& x) { return mx::broadcast_to(x, shape); };
  const auto key = [&](int half, int round) {  // of all sites
    return call.shared.get(fmt::format("key {} {}", half, round), [&] {
      const uint32_t step = (half == 0 ? 0x9E3779B9u : 0xBB67AE85u) * static_cast<uint32_t>(round);
      return mx::add(mx::slice(mx::view(rng, mx::uint32), {half}, {half + 1}), word(step));
    });
  };
  Arrays c{spread(call.constants.range(calls, mx::uint32)), spread(position), spread(sample),
           spread(word(static_cast<uint32_t>(call.node.attrs.i("site"))))};
  for (int round = 0; round < 7; ++round) {
    const auto [a_high, a_low] = halves(0xD2511F53u, c[0]);
    const auto [b_high, b_low] = halves(0xCD9E8D57u, c[2]);
    c = {mx::bitwise_xor(mx::bitwise_xor(b_high, c[1]), key(0, round)), b_low,
         mx::bitwise_xor(mx::bitwise_xor(a_high, c[3]), key(1, round)), a_low};
  }
  // Decision j of a call is half j % 2 of word j / 2: in memory, all halves in order.
  const mx::array halves_in_order = mx::view(mx::stack(c, -1), mx::uint16);
  mx::Shape flat = shape;
  flat.back() = 8 * calls;
  mx::Shape end = shape;
  end.back() = cols;
  return mx::slice(mx::reshape(halves_in_order, flat), mx::Shape(shape.size(), 0), end);
}

mx::array kept(const Call& c, int cols, const mx::array& position, const mx::array& sample,
               const mx::array& rng) {
  const double p = c.node.attrs.f("p");
  return c.shared.get(
      fmt::format("kept {} {} {} {} {}", c.node.attrs.i("site"), p, cols, position.size(), sample.size()),
      [&] {
        const mx::array bits = mx::astype(decisions(c, cols, position, sample, rng), mx::uint32);
        return mx::greater_equal(bits, word(dropout_threshold(p)));
      });
}

mx::array drop(const mx::array& x, const mx::array& kept, double p) {
  return mx::where(kept, mx::multiply(x, number(dropout_scale(p))), number(0));
}

mx::array row_sums(const mx::array& x) {
  constexpr int kLeaves = 32;  // a sum of so many, one after another, is off by a few ulp at most
  const int rows = x.shape(0), n = x.shape(1);
  if (n <= kLeaves) return mx::sum(x, 1, true);
  const int whole = n / kLeaves * kLeaves;
  const mx::array head = row_sums(
      mx::sum(mx::reshape(mx::slice(x, {0, 0}, {rows, whole}), {rows, whole / kLeaves, kLeaves}), 2));
  return whole == n ? head : mx::add(head, row_sums(mx::slice(x, {0, whole}, {rows, n})));
}

mx::array tree_sum(const mx::array& x) {
  return mx::reshape(row_sums(mx::reshape(x, {1, static_cast<int>(x.size())})), {1});
}

}  // namespace lathe::mlx
