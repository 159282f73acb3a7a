// Losses, all in f32.
#include "lathe/backends/mlx/lowering.h"
#include "lathe/ops/losses.h"

namespace lathe::mlx {
namespace {

/// Scores [R, K] among which `right`, bool of the same shape, marks one per row, and rows that count: bool
/// [R, 1]. `member`: which of the columns belong to the row.
struct Choices {
  mx::array scores, member, right, counts;
  double smoothing = 0;  ///< share of the target that is spread evenly over all K, which are members then

  mx::array count() const { return mx::maximum(mx::sum(f32(counts)), number(1)); }
  mx::array masked() const { return mx::where(member, scores, number(kNoScore)); }
  mx::array most() const { return mx::max(masked(), 1, true); }
  /// exp(score − most), 0 where there is none.
  mx::array powers() const { return mx::where(member, mx::exp(mx::subtract(masked(), most())), number(0)); }
  mx::array loss() const {
    const mx::array lse = mx::add(most(), mx::log(row_sums(powers())));
    mx::array score = mx::sum(mx::where(right, scores, number(0)), 1, true);
    if (smoothing > 0)
      score = mx::add(mx::multiply(number(1 - smoothing), score),
                      mx::multiply(number(smoothing), mx::mean(scores, 1, true)));
    const mx::array terms = mx::where(counts, mx::subtract(lse, score), number(0));
    return mx::reshape(mx::divide(mx::sum(terms), count()), {1});
  }
  /// dloss / dscores; 0 in columns that are no members.
  mx::array gradient(const mx::array& dloss) const {
    const mx::array p = mx::divide(powers(), row_sums(powers()));
    mx::array wanted = f32(right);
    if (smoothing > 0)
      wanted = mx::add(mx::multiply(number(1 - smoothing), wanted), number(smoothing / scores.shape(1)));
    const mx::array d = mx::divide(mx::multiply(dloss, mx::subtract(p, wanted)), count());
    return mx::where(mx::logical_and(counts, member), d, number(0));
  }
};

Choices classes(const mx::array& logits, const mx::array& labels, double smoothing) {
  const int rows = static_cast<int>(logits.shape(0)), k = static_cast<int>(logits.shape(1));
  const mx::array label = mx::reshape(labels, {rows, 1});
  const mx::array counts =
      mx::logical_and(mx::greater_equal(label, mx::array(0)), mx::less(label, mx::array(k)));
  return {logits, mx::array(true), mx::equal(label, mx::arange(k)), counts, smoothing};
}

Arrays run_cross_entropy(const Call& c) { return {classes(c[0], c[1], c.node.attrs.f("smoothing")).loss()}; }
Arrays run_cross_entropy_bwd(const Call& c) {
  return {classes(c[1], c[2], c.node.attrs.f("smoothing")).gradient(c[0])};
}

int column_of(const Call& c) { return static_cast<int>(c.node.attrs.i("column")); }

/// Column `column` of logits [N, K] as scores [B, N] of which every row has its own tokens.
Choices tokens_of_rows(const mx::array& logits, int column, const mx::array& cu, const mx::array& targets) {
  const int tokens = static_cast<int>(logits.shape(0)), rows = static_cast<int>(targets.size());
  const mx::array begin = mx::reshape(mx::slice(cu, {0}, {rows}), {rows, 1});
  const mx::array end = mx::reshape(mx::slice(cu, {1}, {rows + 1}), {rows, 1});
  const mx::array target = mx::reshape(targets, {rows, 1}), token = mx::arange(tokens);
  const mx::array counts =
      mx::logical_and(mx::greater_equal(target, mx::array(0)), mx::less(target, mx::subtract(end, begin)));
  const mx::array right = mx::logical_and(counts, mx::equal(token, mx::add(begin, target)));
  const mx::array member = mx::logical_and(mx::greater_equal(token, begin), mx::less(token, end));
  const mx::array scores = mx::reshape(mx::slice(logits, {0, column}, {tokens, column + 1}), {1, tokens});
  return {mx::broadcast_to(scores, {rows, tokens}), member, right, counts};
}

Arrays run_segment(const Call& c) { return {tokens_of_rows(c[0], column_of(c), c[1], c[2]).loss()}; }

Arrays run_segment_bwd(const Call& c) {
  const mx::array d = tokens_of_rows(c[1], column_of(c), c[2], c[3]).gradient(c[0]);
  const mx::array of_token = mx::reshape(mx::sum(d, 0), {-1, 1});  // a token is in one row: the others add 0
  const mx::array column = mx::equal(mx::arange(c.cols(1)), mx::array(column_of(c)));
  return {mx::where(column, of_token, number(0))};
}

/// Ten bytes a score, as mlx_test finds them: every row has one of every token.
template <int kLogits, int kCu>
size_t bytes_of_scores(const Node& node, const Program& program) {
  const int64_t rows = program.type(node.in[kCu]).shape[0] - 1;
  return static_cast<size_t>(10 * rows * program.type(node.in[kLogits]).shape[0]);
}

mx::array mean_of(const mx::array& terms) {
  return mx::divide(tree_sum(terms), number(static_cast<double>(terms.size())));
}
/// dloss · d / n
Arrays spread(const Call& c, const mx::array& d) {
  return {mx::divide(mx::multiply(c[0], d), number(static_cast<double>(d.size())))};
}

Arrays run_mse(const Call& c) { return {mean_of(mx::square(mx::subtract(c[0], c[1])))}; }
Arrays run_mse_bwd(const Call& c) { return spread(c, mx::multiply(number(2), mx::subtract(c[1], c[2]))); }

Arrays run_bce(const Call& c) {
  const mx::array soft =
      mx::add(mx::maximum(c[0], number(0)), mx::log1p(mx::exp(mx::negative(mx::abs(c[0])))));
  return {mean_of(mx::subtract(soft, mx::multiply(c[0], c[1])))};
}
Arrays run_bce_bwd(const Call& c) {
  const mx::array sigmoid = mx::divide(number(1), mx::add(number(1), mx::exp(mx::negative(c[1]))));
  return spread(c, mx::subtract(sigmoid, c[2]));
}

}  // namespace

std::vector<Entry> loss_entries() {
  return {{&op::cross_entropy, "rows", run_cross_entropy, nullptr, working_bytes<0, 10>},
          {&op::cross_entropy_bwd, "rows", run_cross_entropy_bwd, nullptr, working_bytes<1, 2>},
          {&op::segment_cross_entropy, "masked", run_segment, nullptr, bytes_of_scores<0, 1>},
          {&op::segment_cross_entropy_bwd, "masked", run_segment_bwd, nullptr, bytes_of_scores<1, 2>},
          {&op::mse, "tree", run_mse},
          {&op::mse_bwd, "map", run_mse_bwd},
          {&op::bce_with_logits, "tree", run_bce, nullptr, working_bytes<0, 1, 9>},
          {&op::bce_with_logits_bwd, "map", run_bce_bwd}};
}

}  // namespace lathe::mlx
