// Views of flat arenas, here by value, and the optimizer over them.
#include <cmath>
#include <numeric>

#include "lathe/backends/mlx/lowering.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/optimizers/sgd.h"

namespace lathe::mlx {
namespace {

Arrays run_slice(const Call& c) {
  const int offset = static_cast<int>(c.node.attrs.i("offset"));
  const int count = static_cast<int>(elements(c.out_type(0)));
  return {
      mx::reshape(mx::slice(mx::flatten(c[0]), {offset}, {offset + count}), shape_of(c.out_type(0).shape))};
}

Arrays run_concat(const Call& c) {
  Arrays parts;
  for (const auto& part : c.in) parts.push_back(mx::flatten(*part));
  return {mx::concatenate(parts)};
}

Arrays run_accumulate(const Call& c) {
  const mx::array& keep = c[2];
  return {mx::where(mx::equal(keep, number(0)), c[1], mx::add(mx::multiply(keep, c[0]), c[1]))};
}

Arrays run_all_reduce(const Call& c) {
  const DType wire = c.node.attrs.b("bf16") ? DType::bf16 : DType::f32;
  return {c.ranks == nullptr ? c[0] : mx::astype(sum_among(*c.ranks, f32(c[0]), wire), c[0].dtype())};
}

Arrays run_all_gather(const Call& c) {
  const Shape& counts = c.node.attrs.shape("counts");
  if (c.ranks != nullptr) return {gather_among(*c.ranks, c[1], counts)};
  const int64_t rank = c.node.attrs.i("rank");
  const int begin = static_cast<int>(std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0}));
  const int end = begin + static_cast<int>(c[1].size()), all = static_cast<int>(c[0].size());
  Arrays parts{c[1]};
  if (begin > 0) parts.insert(parts.begin(), mx::slice(c[0], {0}, {begin}));
  if (end < all) parts.push_back(mx::slice(c[0], {end}, {all}));
  return {mx::concatenate(parts)};
}

Arrays run_gather_ranks(const Call& c) {
  const int64_t ranks = c.node.attrs.i("ranks");
  const mx::array own = mx::flatten(c[0]);
  const Shape counts(static_cast<size_t>(ranks), static_cast<int64_t>(own.size()));
  const mx::array all = c.ranks != nullptr ? gather_among(*c.ranks, own, counts)
                                           : mx::concatenate(Arrays(static_cast<size_t>(ranks), own));
  return {mx::reshape(all, {static_cast<int>(ranks) * c[0].shape(0), c[0].shape(1)})};
}

/// One number of `hyper`: [1].
mx::array hyper_of(const mx::array& hyper, Hyper h) {
  const int i = static_cast<int>(h);
  return mx::slice(hyper, {i}, {i + 1});
}

Arrays run_grad_norm(const Call& c) {
  mx::array sum = tree_sum(mx::square(c[0]));
  if (c.has(2)) sum = mx::add(sum, tree_sum(mx::square(f32(c[2]))));
  return {mx::multiply(mx::sqrt(sum), hyper_of(c[1], Hyper::kInverseScale))};
}

/// The gradients of all parameters of adamw: rounded ones in their place among the others.
mx::array gradients_of(const Call& c) {
  if (!c.has(7)) return c[1];
  const int first = static_cast<int>(c.node.attrs.i("first")), end = static_cast<int>(c[1].size());
  Arrays parts{f32(c[7])};
  if (first > 0) parts.insert(parts.begin(), mx::slice(c[1], {0}, {first}));
  if (first < end) parts.push_back(mx::slice(c[1], {first}, {end}));
  return mx::concatenate(parts);
}

/// What gradients of this norm are multiplied by, so that it is no greater than the hyper input has it.
mx::array clip_of(const mx::array& hyper, const mx::array& norm) {
  const mx::array most = hyper_of(hyper, Hyper::kMaxGradNorm);
  return mx::where(mx::greater(most, number(0)),
                   mx::minimum(number(1), mx::divide(most, mx::add(norm, number(1e-6)))), number(1));
}

Arrays run_adamw(const Call& c) {
  const Attrs& a = c.node.attrs;
  const mx::array &p = c[0], &m = c[2], &v = c[3], &norm = c[4], &loss = c[5];
  const auto hyper = [&](Hyper h) { return hyper_of(c[6], h); };
  const mx::array rate = hyper(Hyper::kLearningRate);
  const mx::array apply = mx::logical_and(mx::isfinite(norm), mx::isfinite(loss));
  const mx::array g =
      mx::multiply(mx::multiply(gradients_of(c), hyper(Hyper::kInverseScale)), clip_of(c[6], norm));
  const double beta1 = a.f("beta1"), beta2 = a.f("beta2");
  const mx::array m2 = mx::add(mx::multiply(number(beta1), m), mx::multiply(number(1 - beta1), g));
  const mx::array v2 =
      mx::add(mx::multiply(number(beta2), v), mx::multiply(number(1 - beta2), mx::square(g)));
  mx::array kept = p;
  if (a.f("weight_decay") != 0 && a.i("decayed") > 0) {
    const mx::array shrunk =
        mx::multiply(p, mx::subtract(number(1), mx::multiply(rate, number(a.f("weight_decay")))));
    kept = mx::where(c.constants.prefix(elements(c.in_type(0)), a.i("decayed")), shrunk, p);
  }
  const mx::array root = mx::divide(mx::sqrt(v2), mx::sqrt(hyper(Hyper::kBiasCorrection2)));
  const mx::array step = mx::multiply(mx::divide(rate, hyper(Hyper::kBiasCorrection1)),
                                      mx::divide(m2, mx::add(root, number(a.f("eps")))));
  return {mx::where(apply, mx::subtract(kept, step), p), mx::where(apply, m2, m), mx::where(apply, v2, v)};
}

/// Gradient times inverse scale and clip, and whether the update is made.
struct Scaled {
  mx::array g, apply, rate, take;
};
Scaled scaled(const Call& c) {
  const mx::array &norm = c[3], &loss = c[4];
  return {mx::multiply(mx::multiply(c[1], hyper_of(c[5], Hyper::kInverseScale)), clip_of(c[5], norm)),
          mx::logical_and(mx::isfinite(norm), mx::isfinite(loss)), hyper_of(c[5], Hyper::kLearningRate),
          hyper_of(c[5], Hyper::kTake)};
}

Arrays run_sgd(const Call& c) {
  const Attrs& a = c.node.attrs;
  const Scaled s = scaled(c);
  const mx::array &p = c[0], &m = c[2];
  mx::array g = s.g, m2 = m;
  if (a.f("weight_decay") != 0 && a.i("decayed") > 0) {
    const mx::array more = mx::add(g, mx::multiply(p, number(a.f("weight_decay"))));
    g = mx::where(c.constants.prefix(elements(c.in_type(0)), a.i("decayed")), more, g);
  }
  mx::array step = g;
  if (a.f("momentum") != 0) {
    const mx::array momentum = number(a.f("momentum"));
    m2 = mx::add(mx::multiply(momentum, m), mx::multiply(s.take, g));
    step = a.b("nesterov") ? mx::add(g, mx::multiply(momentum, m2)) : m2;
  }
  return {mx::where(s.apply, mx::subtract(p, mx::multiply(s.rate, step)), p), mx::where(s.apply, m2, m)};
}

/// Σ over the rows of x [r, c], in a tree of 32 at once, as tree_sum.
mx::array sum_of_rows(const mx::array& x) {
  constexpr int kLeaves = 32;
  const int rows = x.shape(0), cols = x.shape(1), whole = rows / kLeaves * kLeaves;
  if (rows <= kLeaves) return mx::sum(x, 0);
  const mx::array leaves = mx::reshape(mx::slice(x, {0, 0}, {whole, cols}), {whole / kLeaves, kLeaves, cols});
  const mx::array head = sum_of_rows(mx::sum(leaves, 1));
  return whole == rows ? head : mx::add(head, sum_of_rows(mx::slice(x, {whole, 0}, {rows, cols})));
}
mx::array mean_of_rows(const mx::array& x) { return mx::divide(sum_of_rows(x), number(x.shape(0))); }
mx::array mean_of_all(const mx::array& x) {
  return mx::divide(tree_sum(x), number(static_cast<double>(x.size())));
}

/// One tensor's new parameters, and what is kept of it: pieces of the arenas.
Arrays adafactor_of(const Scaled& s, const mx::array& p, const mx::array& g, const mx::array& kept,
                    double weight_decay, double clip_threshold) {
  const auto keep = [&](const mx::array& before, const mx::array& now) {
    return mx::add(mx::multiply(mx::subtract(number(1), s.take), before), mx::multiply(s.take, now));
  };
  const mx::array square = mx::add(mx::square(g), number(1e-30));
  mx::array kept2 = kept, u = g;
  if (g.ndim() == 2) {
    const int rows = g.shape(0), cols = g.shape(1);
    const mx::array of_rows = keep(mx::slice(kept, {0}, {rows}), mean_of_rows(mx::transpose(square)));
    const mx::array of_cols = keep(mx::slice(kept, {rows}, {rows + cols}), mean_of_rows(square));
    kept2 = mx::concatenate({of_rows, of_cols});
    const mx::array by_row = mx::rsqrt(mx::divide(of_rows, mean_of_all(of_rows)));
    u = mx::multiply(g, mx::multiply(mx::reshape(by_row, {rows, 1}), mx::rsqrt(of_cols)));
  } else {
    kept2 = keep(kept, square);
    u = mx::multiply(g, mx::rsqrt(kept2));
  }
  const mx::array rms = mx::sqrt(mean_of_all(mx::square(u)));
  const mx::array by = mx::divide(s.rate, mx::maximum(number(1), mx::divide(rms, number(clip_threshold))));
  const mx::array left = mx::subtract(number(1), mx::multiply(s.rate, number(weight_decay)));
  return {mx::flatten(mx::subtract(mx::multiply(p, left), mx::multiply(by, u))), kept2};
}

Arrays run_adafactor(const Call& c) {
  const Attrs& a = c.node.attrs;
  const Scaled s = scaled(c);
  const Shape& tensors = a.shape("tensors");
  Arrays parameters, moments;
  int at = 0, kept = 0;
  for (size_t k = 0; k < tensors.size(); k += 2) {
    const int rows = static_cast<int>(tensors[k]), cols = static_cast<int>(tensors[k + 1]);
    const int count = std::max(rows, 1) * cols;
    const mx::Shape shape = rows > 0 ? mx::Shape{rows, cols} : mx::Shape{cols};
    const Arrays both = adafactor_of(s, mx::reshape(mx::slice(c[0], {at}, {at + count}), shape),
                                     mx::reshape(mx::slice(s.g, {at}, {at + count}), shape),
                                     mx::slice(c[2], {kept}, {kept + rows + cols}),
                                     at < a.i("decayed") ? a.f("weight_decay") : 0, a.f("clip_threshold"));
    parameters.push_back(both[0]);
    moments.push_back(both[1]);
    at += count;
    kept += rows + cols;
  }
  return {mx::where(s.apply, mx::concatenate(parameters), c[0]),
          mx::where(s.apply, mx::concatenate(moments), c[2])};
}

/// What the norm works on in addition to the gradients as one: gradients in parts and, not fused, their
/// squares.
size_t norm_bytes(const Node& node, const Program& program) {
  const bool fused = compile_mode() == mx::CompileMode::enabled;
  return bytes_of(program.type(node.in[0])) * (fused ? 1 : 2);
}

/// What an optimizer works on, as mlx_test finds it.
size_t own_update_bytes(const Node& node, const Program& program) {
  const bool fused = compile_mode() == mx::CompileMode::enabled;
  return bytes_of(program.type(node.in[0])) * (fused ? 5 : 10);
}

}  // namespace

std::vector<Entry> flat_entries() {
  return {{&op::slice, "view", run_slice},
          {&op::concat, "copy", run_concat},
          {&op::accumulate, "map", run_accumulate},
          {&op::all_reduce, "host", run_all_reduce},
          {&op::all_gather, "host", run_all_gather},
          {&op::gather_ranks, "host", run_gather_ranks},
          {&op::grad_norm, "tree", run_grad_norm, nullptr, norm_bytes},
          {&op::adamw, "map", run_adamw, nullptr, own_update_bytes},
          {&op::sgd, "map", run_sgd, nullptr, own_update_bytes},
          {&op::adafactor, "per tensor", run_adafactor, nullptr, own_update_bytes}};
}

}  // namespace lathe::mlx
