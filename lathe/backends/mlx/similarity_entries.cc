// How alike the vectors of two texts are, and what is learnt from that.
#include "lathe/backends/mlx/segments.h"
#include "lathe/ops/similarity.h"

namespace lathe::mlx {
namespace {

using op::PairLoss;
using op::RowScore;

mx::array difference(const Call& c, int a) {
  return mx::add(mx::subtract(c[a], c[a + 1]), number(c.node.attrs.f("shift")));
}

Arrays run_row_scores(const Call& c) {
  switch (op::row_score(c.node.attrs)) {
    case RowScore::kDot:
      return {mx::sum(mx::multiply(c[0], c[1]), 1)};
    case RowScore::kOneMinusDot:
      return {mx::subtract(number(1), mx::sum(mx::multiply(c[0], c[1]), 1))};
    case RowScore::kEuclidean:
      return {mx::sqrt(mx::sum(mx::square(difference(c, 0)), 1))};
    default:
      return {mx::sum(mx::abs(difference(c, 0)), 1)};
  }
}

Arrays run_row_scores_bwd(const Call& c) {
  const RowScore kind = op::row_score(c.node.attrs);
  const mx::array ds = mx::expand_dims(c[0], 1), s = mx::expand_dims(c[3], 1);
  if (kind == RowScore::kDot) return {mx::multiply(ds, c[2]), mx::multiply(ds, c[1])};
  if (kind == RowScore::kOneMinusDot) {
    const mx::array factor = mx::negative(ds);
    return {mx::multiply(factor, c[2]), mx::multiply(factor, c[1])};
  }
  const mx::array d = difference(c, 1), is_zero = mx::equal(s, number(0));
  const mx::array slope =
      kind == RowScore::kManhattan
          ? mx::sign(d)
          : mx::where(is_zero, number(0), mx::divide(d, mx::where(is_zero, number(1), s)));
  const mx::array da = mx::multiply(ds, slope);
  return {da, mx::negative(da)};
}

Arrays run_cosent(const Call& c) {
  const mx::array factor = number(c.node.attrs.f("factor"));
  const mx::array s = mx::multiply(c[0], factor), below = mx::expand_dims(s, 1);
  const mx::array counts = mx::less(mx::expand_dims(c[1], 1), c[1]);  // [i, j]: i has the lower rank
  const mx::array none = number(-std::numeric_limits<double>::infinity());
  const mx::array x = mx::where(counts, mx::subtract(below, s), none);
  const mx::array largest = mx::maximum(mx::max(x), number(0));
  const mx::array each = mx::exp(mx::subtract(x, largest));
  const mx::array sum = mx::add(mx::sum(each), mx::exp(mx::negative(largest)));
  const mx::array slope =
      mx::divide(mx::multiply(factor, mx::subtract(mx::sum(each, 1), mx::sum(each, 0))), sum);
  return {mx::reshape(mx::add(largest, mx::log(sum)), {1}), slope};
}

Arrays run_pair_loss(const Call& c) {
  const PairLoss kind = op::pair_loss_kind(c.node.attrs);
  const mx::array margin = number(c.node.attrs.f("margin")), zero = number(0);
  const mx::array share = number(1 / static_cast<double>(elements(c.in_type(0))));
  const auto mean = [&](const mx::array& x) { return mx::reshape(mx::multiply(mx::sum(x), share), {1}); };
  if (kind == PairLoss::kTriplet) {
    const mx::array over = mx::maximum(mx::add(mx::subtract(c[0], c[1]), margin), zero);
    const mx::array slope = mx::multiply(f32(mx::greater(over, zero)), share);
    return {mean(over), slope, mx::negative(slope)};
  }
  const mx::array near = mx::maximum(mx::subtract(margin, c[0]), zero), rest = mx::subtract(number(1), c[1]);
  const mx::array each = mx::add(mx::multiply(c[1], mx::square(c[0])), mx::multiply(rest, mx::square(near)));
  const mx::array slope = mx::subtract(mx::multiply(c[1], c[0]), mx::multiply(rest, near));
  return {mx::multiply(mean(each), number(0.5)), mx::multiply(slope, share),
          mx::multiply(mx::subtract(mx::square(c[0]), mx::square(near)),
                       number(0.5 / static_cast<double>(elements(c.in_type(0)))))};
}

Arrays run_times(const Call& c) { return {mx::multiply(c[0], c[1])}; }

Arrays run_first_columns(const Call& c) {
  const auto rows = static_cast<int>(c.in_type(0).shape[0]), cols = static_cast<int>(c.node.attrs.i("cols"));
  return {mx::slice(c[0], {0, 0}, {rows, cols})};
}

Arrays run_first_columns_bwd(const Call& c) {
  const auto more = static_cast<int>(c.node.attrs.i("cols") - c.in_type(0).shape[1]);
  return {mx::pad(c[0], {{0, 0}, {0, more}})};
}

}  // namespace

std::vector<Entry> similarity_entries() {
  return {{&op::row_scores, "rows", run_row_scores},
          {&op::row_scores_bwd, "rows", run_row_scores_bwd},
          {&op::cosent, "pairs", run_cosent},
          {&op::pair_loss, "elements", run_pair_loss},
          {&op::times, "elements", run_times},
          {&op::first_columns, "rows", run_first_columns},
          {&op::first_columns_bwd, "rows", run_first_columns_bwd}};
}

}  // namespace lathe::mlx
