#include "lathe/backends/mlx/lowering.h"

#include <cstring>
#include <limits>

namespace lathe::mlx {
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
