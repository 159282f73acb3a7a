// What makes one vector of the vectors of a text's tokens: weighted sums, maxima, unit length.
#include "lathe/backends/mlx/segments.h"
#include "lathe/ops/pooling.h"

namespace lathe::mlx {
namespace {

/// The tokens that count, f32 [B, N], and their weights, likewise.
struct Counted {
  mx::array holds, weights;
};
Counted counted_of(const Call& c, int tokens) {
  const int rows = static_cast<int>(c[1].size());
  const auto column = [&](const mx::array& x) { return mx::reshape(x, {rows, 1}); };
  const mx::array begin = column(mx::slice(c[2], {0}, {rows})), first = column(c[1]);
  const mx::array end = column(mx::slice(c[2], {1}, {rows + 1})), token = mx::arange(tokens);
  const mx::array holds = f32(mx::logical_and(mx::less_equal(first, token), mx::less(token, end)));
  const mx::array count = f32(mx::maximum(mx::subtract(end, first), mx::array(1)));
  switch (op::segment_weights(c.node.attrs)) {
    case SegmentWeights::kMean:
      return {holds, mx::divide(holds, count)};
    case SegmentWeights::kSqrt:
      return {holds, mx::divide(holds, mx::sqrt(count))};
    default: {
      const mx::array place = f32(mx::add(mx::subtract(token, begin), mx::array(1)));
      const mx::array ends =
          f32(mx::add(mx::subtract(mx::add(end, first), mx::add(begin, begin)), mx::array(1)));
      return {holds,
              mx::divide(mx::multiply(mx::multiply(holds, place), number(2)), mx::multiply(count, ends))};
    }
  }
}

Arrays run_segment_sum(const Call& c) {
  const Counted counted = counted_of(c, c.rows(0));
  return {mx::astype(sum_of_segments(counted.holds, counted.weights, f32(c[0])), c.in_dtype(0))};
}

Arrays run_segment_sum_bwd(const Call& c) {
  const Counted counted = counted_of(c, static_cast<int>(c.out_type(0).shape[0]));
  return {mx::astype(mx::matmul(mx::transpose(counted.weights), f32(c[0])), c.in_dtype(0))};
}

/// The row of each token, [tokens] i32; of tokens that belong to none the last one's, or that after it.
mx::array rows_of_tokens(const mx::array& cu, int tokens) {
  const int rows = static_cast<int>(cu.size()) - 1;
  const mx::array ends = mx::reshape(mx::slice(cu, {1}, {rows + 1}), {rows, 1});
  return mx::sum(mx::astype(mx::less_equal(ends, mx::arange(tokens)), mx::int32), 0);
}

/// Takes the greatest along each row in ⌈log₂ n⌉ steps, so that the last token of a row has it.
Arrays run_segment_max(const Call& c) {
  const int n = c.rows(0), cols = c.cols(0), rows = static_cast<int>(c[2].size()) - 1;
  const mx::array row = rows_of_tokens(c[2], n), token = mx::arange(n);
  const mx::array first = mx::take(c[1], mx::minimum(row, mx::array(rows - 1)), 0);
  const mx::array counts = mx::reshape(mx::greater_equal(token, first), {n, 1});
  const mx::array least = number(-std::numeric_limits<double>::infinity()), none = mx::array(-1);
  mx::array best = mx::where(counts, f32(c[0]), least);
  mx::array place = mx::broadcast_to(mx::where(counts, mx::reshape(token, {n, 1}), none), {n, cols});
  for (int distance = 1; distance < n; distance *= 2) {
    const auto before = [&](const mx::array& x) { return mx::slice(x, {0, 0}, {n - distance, cols}); };
    const auto from = [&](const mx::array& x) { return mx::slice(x, {distance, 0}, {n, cols}); };
    const mx::array same = mx::reshape(
        mx::equal(mx::slice(row, {distance}, {n}), mx::slice(row, {0}, {n - distance})), {n - distance, 1});
    const mx::array earlier = before(best), later = from(best);
    const mx::array greater = mx::logical_or(mx::isnan(earlier), mx::greater_equal(earlier, later));
    const mx::array there = mx::greater_equal(before(place), mx::array(0));
    const mx::array takes = mx::logical_and(mx::logical_and(same, there), greater);
    const auto with_first = [&](const mx::array& x, const mx::array& rest) {
      return mx::concatenate({mx::slice(x, {0, 0}, {distance, cols}), rest}, 0);
    };
    const mx::array next = with_first(best, mx::where(takes, earlier, later));
    place = with_first(place, mx::where(takes, before(place), from(place)));
    best = next;
  }
  const mx::array begins = mx::slice(c[2], {0}, {rows}), ends = mx::slice(c[2], {1}, {rows + 1});
  const mx::array last = mx::maximum(mx::subtract(ends, mx::array(1)), mx::array(0));
  const mx::array empty = mx::reshape(mx::equal(begins, ends), {rows, 1});
  const mx::array at = mx::where(empty, none, mx::take(place, last, 0));
  const mx::array y = mx::where(mx::less(at, mx::array(0)), number(0), mx::take(best, last, 0));
  return {mx::astype(y, c.in_dtype(0)), mx::astype(at, mx::int32)};
}

Arrays run_segment_max_bwd(const Call& c) {
  const int tokens = static_cast<int>(c.out_type(0).shape[0]), rows = c.rows(0);
  const mx::array row = mx::minimum(rows_of_tokens(c[2], tokens), mx::array(rows - 1));
  const mx::array is_place = mx::equal(mx::take(c[1], row, 0), mx::reshape(mx::arange(tokens), {tokens, 1}));
  return {mx::astype(mx::where(is_place, mx::take(f32(c[0]), row, 0), number(0)), c.in_dtype(0))};
}

Arrays run_l2_normalize(const Call& c) {
  const mx::array x = f32(c[0]);
  const mx::array norm = mx::sqrt(mx::sum(mx::square(x), -1, true));
  return {mx::astype(mx::divide(x, mx::maximum(norm, number(c.node.attrs.f("eps")))), c.in_dtype(0)),
          mx::squeeze(norm, -1)};
}

Arrays run_l2_normalize_bwd(const Call& c) {
  const mx::array dy = f32(c[0]), y = f32(c[1]), norm = mx::expand_dims(c[2], -1);
  const mx::array eps = number(c.node.attrs.f("eps"));
  const mx::array along =
      mx::where(mx::greater(norm, eps), mx::sum(mx::multiply(dy, y), -1, true), number(0));
  return {mx::astype(mx::divide(mx::subtract(dy, mx::multiply(y, along)), mx::maximum(norm, eps)),
                     c.in_dtype(0))};
}

}  // namespace

std::vector<Entry> pooling_entries() {
  return {{&op::segment_sum, "product", run_segment_sum, nullptr, working_bytes<0, 13>},
          {&op::segment_sum_bwd, "product", run_segment_sum_bwd},
          {&op::segment_max, "scan", run_segment_max, nullptr, working_bytes<0, 40>},
          {&op::segment_max_bwd, "take", run_segment_max_bwd, nullptr, working_bytes<0, 16>},
          {&op::l2_normalize, "rows", run_l2_normalize},
          {&op::l2_normalize_bwd, "rows", run_l2_normalize_bwd}};
}

}  // namespace lathe::mlx
