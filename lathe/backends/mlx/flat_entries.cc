// Views of flat arenas, here by value, and the optimizer over them.
#include <cmath>

#include "lathe/backends/mlx/lowering.h"
#include "lathe/ops/ops.h"
#include "lathe/ops/optimizer.h"

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

/// This device trains in one process; open_device refuses more.
Arrays run_all_reduce(const Call& c) { return {c.ranks == nullptr ? c[0] : sum_among(*c.ranks, c[0])}; }

/// One number of `hyper`: [1].
mx::array hyper_of(const mx::array& hyper, Hyper h) {
  const int i = static_cast<int>(h);
  return mx::slice(hyper, {i}, {i + 1});
}

Arrays run_grad_norm(const Call& c) {
  return {mx::multiply(mx::sqrt(tree_sum(mx::square(c[0]))), hyper_of(c[1], Hyper::kInverseScale))};
}

Arrays run_adamw(const Call& c) {
  const Attrs& a = c.node.attrs;
  const mx::array &p = c[0], &m = c[2], &v = c[3], &norm = c[4], &loss = c[5];
  const auto hyper = [&](Hyper h) { return hyper_of(c[6], h); };
  const mx::array rate = hyper(Hyper::kLearningRate), most = hyper(Hyper::kMaxGradNorm);
  const mx::array apply = mx::logical_and(mx::isfinite(norm), mx::isfinite(loss));
  const mx::array clip =
      mx::where(mx::greater(most, number(0)),
                mx::minimum(number(1), mx::divide(most, mx::add(norm, number(1e-6)))), number(1));
  const mx::array g = mx::multiply(mx::multiply(c[1], hyper(Hyper::kInverseScale)), clip);
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

}  // namespace

std::vector<Entry> flat_entries() {
  return {{&op::slice, "view", run_slice},          {&op::concat, "copy", run_concat},
          {&op::accumulate, "map", run_accumulate}, {&op::all_reduce, "host", run_all_reduce},
          {&op::grad_norm, "tree", run_grad_norm},  {&op::adamw, "map", run_adamw}};
}

}  // namespace lathe::mlx
