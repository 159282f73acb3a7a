// Layer normalisation, dropout, rotary positions, means of rows of tokens, picking rows and adding them up.
#include "lathe/backends/mlx/dropout.h"
#include "lathe/backends/mlx/segments.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/norms/layer_norm.h"
#include "lathe/ops/qkv_heads.h"
#include "lathe/ops/rotary.h"
#include "lathe/ops/rows.h"
#include "lathe/ops/segment_mean.h"

namespace lathe::mlx {
namespace {

Arrays run_layer_norm(const Call& c) {
  const mx::array x = f32(c[0]);
  const mx::array mean = mx::mean(x, -1, true), centred = mx::subtract(x, mean);
  const mx::array variance = mx::mean(mx::square(centred), -1, true);
  const mx::array rstd = mx::divide(number(1), mx::sqrt(mx::add(variance, number(c.node.attrs.f("eps")))));
  const mx::array scaled = mx::multiply(mx::multiply(centred, rstd), c[1]);
  return {mx::astype(c.has(2) ? mx::add(scaled, c[2]) : scaled, c.in_dtype(0)), mx::squeeze(mean, -1),
          mx::squeeze(rstd, -1)};
}

Arrays run_layer_norm_bwd(const Call& c) {
  const mx::array dy = f32(c.matrix(0));
  const mx::array mean = mx::reshape(c[3], {-1, 1}), rstd = mx::reshape(c[4], {-1, 1});
  const mx::array normal = mx::multiply(mx::subtract(f32(c.matrix(1)), mean), rstd);
  const mx::array g = mx::multiply(dy, c[2]);
  const mx::array plain = mx::mean(g, -1, true), skewed = mx::mean(mx::multiply(g, normal), -1, true);
  const mx::array dx = mx::multiply(rstd, mx::subtract(mx::subtract(g, plain), mx::multiply(normal, skewed)));
  return {mx::reshape(mx::astype(dx, c.in_dtype(0)), shape_of(c.out_type(0).shape)),
          mx::sum(mx::multiply(dy, normal), 0), mx::sum(dy, 0)};
}

Arrays run_dropout(const Call& c) {
  const auto column = [](const mx::array& ids) {
    return mx::reshape(mx::view(ids, mx::uint32), {static_cast<int>(ids.size()), 1});
  };
  const mx::array sample = column(c[1]);
  const mx::array position = c.has(2) ? column(c[2]) : mx::zeros_like(sample);
  const mx::array mask = kept(c, c.cols(0), position, sample, c[3]);
  return {mx::astype(drop(f32(c[0]), mx::reshape(mask, c[0].shape()), c.node.attrs.f("p")), c.in_dtype(0))};
}

size_t calls_of_rows(const Node& node, const Program& program) {
  const Type& x = program.type(node.in[0]);
  const int64_t cols = x.shape.back();
  return static_cast<size_t>(elements(x) / cols * ((cols + 7) / 8));
}
size_t dropout_workspace(const Node& node, const Program& program) {
  return deciding_bytes(node, program, calls_of_rows(node, program));
}
Held dropout_masks(const Node& node, const Program& program) {
  return masks_of(node, program, calls_of_rows(node, program));
}

Arrays run_rotary(const Call& c) {
  const QkvHeads of = qkv_heads("rotary", c.cols(0), c.node.attrs);
  const int all = static_cast<int>(of.all()), heads = static_cast<int>(of.heads + of.kv_heads);
  const int width = static_cast<int>(of.width), tokens = c.rows(0);
  const std::vector<float> frequencies = frequencies_of(c.node.attrs);
  const mx::array angle = mx::multiply(mx::reshape(f32(c[1]), {tokens, 1, 1}),
                                       mx::array(frequencies.data(), {1, 1, width / 2}, mx::float32));
  const double factor = c.node.attrs.f("factor");
  const auto times = [&](const mx::array& of_angle) {
    return factor == 1 ? of_angle : mx::multiply(of_angle, number(factor));
  };
  const mx::array cosine = times(mx::cos(angle)), sine = times(mx::sin(angle));
  const mx::array by = c.node.attrs.b("inverse") ? mx::negative(sine) : sine;
  const mx::array x = mx::reshape(f32(c[0]), {tokens, all, width});
  const mx::array turned = mx::slice(x, {0, 0, 0}, {tokens, heads, width});
  const Arrays pair = mx::split(turned, 2, -1);
  const mx::array first = mx::subtract(mx::multiply(pair[0], cosine), mx::multiply(pair[1], by));
  const mx::array second = mx::add(mx::multiply(pair[1], cosine), mx::multiply(pair[0], by));
  const mx::array values = mx::slice(x, {0, heads, 0}, {tokens, all, width});
  const mx::array y = mx::concatenate({mx::concatenate({first, second}, -1), values}, 1);
  return {mx::astype(mx::reshape(y, {tokens, c.cols(0)}), c.in_dtype(0))};
}

Arrays run_segment_mean(const Call& c) {
  const Segments s = segments_of(c[1], c.rows(0));
  const mx::array sum = sum_of_segments(s.holds, s.holds, f32(c[0]));
  return {mx::astype(mx::divide(sum, s.tokens), c.in_dtype(0))};
}
Arrays run_segment_mean_bwd(const Call& c) {
  const Segments s = segments_of(c[1], static_cast<int>(c.out_type(0).shape[0]));
  const mx::array each = mx::divide(f32(c[0]), s.tokens);
  return {mx::astype(mx::matmul(mx::transpose(s.holds), each), c.in_dtype(0))};
}

Arrays run_gather(const Call& c) { return {mx::take(c[0], c[1], 0)}; }
Arrays run_look_up(const Call& c) { return {f32(mx::take(c[0], c[1], 0))}; }

/// Up to this many rows the sums are one product with a matrix of zeros and ones, above it a scan over the
/// sorted ids: the product takes 2 · rows · n · c operations, the scan 12 · log₂ n · n · c bytes.
constexpr int64_t kProductRows = 512;

bool few_rows(const Node& node, const Program&) { return node.attrs.i("rows") <= kProductRows; }

/// The rows that are added up, those of the padding's id 0, f32 [n, c].
mx::array added_rows(const Call& c) {
  const int64_t padding = c.node.attrs.i("padding");
  if (padding < 0 || padding >= c.out_type(0).shape[0]) return f32(c[0]);
  const mx::array other = mx::not_equal(c[1], mx::array(static_cast<int>(padding)));
  return mx::where(mx::reshape(other, {static_cast<int>(c[1].size()), 1}), f32(c[0]), number(0));
}

Arrays scatter_by_product(const Call& c) {
  const int rows = static_cast<int>(c.out_type(0).shape[0]);
  const mx::array takes = mx::equal(mx::reshape(c.constants.range(rows), {rows, 1}), c[1]);
  return {mx::astype(mx::matmul(f32(takes), added_rows(c)), dtype_of(c.out_type(0).dtype))};
}

/// Adds the rows of equal ids, which are one after another, up towards the last of them, in ⌈log₂ n⌉ steps.
Arrays scatter_by_scan(const Call& c) {
  const int n = static_cast<int>(c[1].size()), cols = c.cols(0);
  const mx::array order = mx::argsort(c[1], 0);  // stable
  const mx::array ids = mx::take(c[1], order, 0);
  mx::array sums = mx::take(added_rows(c), order, 0);
  for (int distance = 1; distance < n; distance *= 2) {
    const mx::array same = mx::equal(mx::slice(ids, {distance}, {n}), mx::slice(ids, {0}, {n - distance}));
    const mx::array before = mx::where(mx::reshape(same, {n - distance, 1}),
                                       mx::slice(sums, {0, 0}, {n - distance, cols}), number(0));
    sums = mx::add(sums, mx::pad(before, {{distance, 0}, {0, 0}}));
  }
  const mx::array next = mx::concatenate({mx::slice(ids, {1}, {n}), mx::array({-1})});
  const mx::array last = mx::reshape(mx::not_equal(ids, next), {n, 1});
  // All but one of the terms of a row are zero: in whatever order they arrive, the sum is the same.
  const mx::Dtype dtype = dtype_of(c.out_type(0).dtype);
  const mx::array terms = mx::astype(mx::where(last, sums, number(0)), dtype);
  return {mx::scatter_add(mx::zeros(shape_of(c.out_type(0).shape), dtype), ids,
                          mx::reshape(terms, {n, 1, cols}), 0)};
}

}  // namespace

std::vector<Entry> row_entries() {
  return {{&op::layer_norm, "two passes", run_layer_norm, nullptr, working_bytes<0, 10, 6>},
          {&op::layer_norm_bwd, "two passes", run_layer_norm_bwd, nullptr, working_bytes<1, 18, 10>},
          {&op::dropout, "map", run_dropout, nullptr, dropout_workspace, dropout_masks},
          {&op::rotary, "pairs", run_rotary, nullptr, working_bytes<0, 12, 10>},
          {&op::segment_mean, "product", run_segment_mean, nullptr, working_bytes<0, 13>},
          {&op::segment_mean_bwd, "product", run_segment_mean_bwd},
          {&op::gather_rows, "take", run_gather},
          {&op::look_up, "take", run_look_up},
          {&op::scatter_add_rows, "product", scatter_by_product, few_rows},
          {&op::scatter_add_rows, "sorted scan", scatter_by_scan}};
}

}  // namespace lathe::mlx
