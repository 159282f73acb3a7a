// Views, which the memory plan has resolved, and the optimizer over flat arenas.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"

namespace lathe::cpu {
namespace {

void run_accumulate(const Call& c) {
  Rows(c.pool, c.isa)
      .accumulate(elements(c.in_type(0)), *c.input<float>(2), c.input<float>(1), c.output<float>(0));
}

size_t all_reduce_workspace(const Node& node, const Program& program, Isa, int) {
  const Type& type = program.type(node.in[0]);
  return type.dtype == DType::f32 ? 0 : static_cast<size_t>(elements(type)) * sizeof(float);
}

/// In place.  A group sums f32: numbers of other types are widened, summed and rounded.
void run_all_reduce(const Call& c) {
  if (c.group == nullptr) return;
  const int64_t count = elements(c.in_type(0));
  const DType dtype = c.in_type(0).dtype, wire = c.node.attrs.b("bf16") ? DType::bf16 : DType::f32;
  const bool wide = dtype == DType::f32;
  const Rows rows(c.pool, c.isa);
  float* sums = wide ? c.output<float>(0) : reinterpret_cast<float*>(c.workspace);
  if (!wide) rows.cast(dtype, DType::f32, count, c.out[0], sums);
  c.group->sum({sums, static_cast<size_t>(count)}, wire).check();
  if (!wide) rows.cast(DType::f32, dtype, count, sums, c.out[0]);
}

/// In place.  Packed copies of weights that other ranks have updated are packed anew.
void run_all_gather(const Call& c) {
  const Shape& counts = c.node.attrs.shape("counts");
  const int64_t rank = c.node.attrs.i("rank"), count = elements(c.in_type(1));
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  float* const all = c.output<float>(0);
  if (c.input<float>(1) != all + begin) {
    std::copy_n(c.input<float>(1), count, all + begin);
    c.parameters->changed();
  }
  if (c.group == nullptr) return;
  c.group->gather_parts({all, static_cast<size_t>(elements(c.in_type(0)))}, counts).check();
  c.parameters->changed_outside(c.pool, c.origin + begin, c.origin + begin + count);
}

void run_gather_ranks(const Call& c) {
  const int64_t count = elements(c.in_type(0)), ranks = c.node.attrs.i("ranks");
  float* const all = c.output<float>(0);
  for (int64_t r = 0; r < ranks; ++r)
    if (c.group == nullptr || r == c.group->rank()) std::copy_n(c.input<float>(0), count, all + r * count);
  if (c.group == nullptr) return;
  const Shape counts(static_cast<size_t>(ranks), count);
  c.group->gather_parts({all, static_cast<size_t>(ranks * count)}, counts).check();
}

double hyper_of(const Call& c, int input, Hyper h) { return c.input<float>(input)[static_cast<int>(h)]; }

size_t norm_workspace(const Node& node, const Program& program, Isa, int) {
  size_t bytes = 0;
  for (const int input : {node.in[0], node.in[2]})
    if (input >= 0)
      bytes = std::max(bytes, Rows::sum_of_squares_workspace_bytes(elements(program.type(input))));
  return bytes;
}

void run_grad_norm(const Call& c) {
  double sum = 0;
  for (const int i : {0, 2})
    if (c.in[static_cast<size_t>(i)] != nullptr)
      sum += Rows(c.pool, c.isa)
                 .sum_of_squares(elements(c.in_type(i)), c.in_type(i).dtype, c.in[static_cast<size_t>(i)],
                                 c.workspace, i == 0 ? c.table.get() : nullptr);
  *c.output<float>(0) = static_cast<float>(std::sqrt(sum) * hyper_of(c, 1, Hyper::kInverseScale));
}

void run_adamw(const Call& c) {
  const float norm = *c.input<float>(4), loss = *c.input<float>(5);
  if (!std::isfinite(norm) || !std::isfinite(loss)) return;
  const auto hyper = [&](Hyper h) { return hyper_of(c, 6, h); };
  const float max_norm = c.input<float>(6)[static_cast<int>(Hyper::kMaxGradNorm)];
  AdamW a;
  a.lr = hyper(Hyper::kLearningRate);
  a.beta1 = c.node.attrs.f("beta1");
  a.beta2 = c.node.attrs.f("beta2");
  a.eps = c.node.attrs.f("eps");
  a.bias_correction1 = hyper(Hyper::kBiasCorrection1);
  a.bias_correction2 = hyper(Hyper::kBiasCorrection2);
  a.clip = hyper(Hyper::kInverseScale) *
           static_cast<double>(max_norm > 0 ? std::min(1.0f, max_norm / (norm + 1e-6f)) : 1.0f);
  const int64_t n = elements(c.in_type(0)), decayed = c.node.attrs.i("decayed");
  Gradients gradients{.exact = c.input<float>(1), .table = c.table.get()};
  if (c.in[7] != nullptr) {
    gradients.rounded = c.in[7];
    gradients.first = c.node.attrs.i("first");
    gradients.last = gradients.first + elements(c.in_type(7));
  }
  const Updated arrays{gradients, c.output<float>(0), c.output<float>(1), c.output<float>(2), c.origin};
  const auto update = [&](int64_t begin, int64_t count, double decay) {
    a.weight_decay = decay;
    c.parameters->adamw(c.pool, c.isa, a, c.origin + begin, count, arrays);
  };
  update(0, std::min(decayed, n), c.node.attrs.f("weight_decay"));
  if (decayed < n) update(decayed, n - decayed, 0);
}

}  // namespace

std::vector<Entry> flat_entries() {
  return {{&op::slice, nullptr},
          {&op::concat, nullptr},
          {&op::accumulate, run_accumulate},
          {&op::all_reduce, run_all_reduce, all_reduce_workspace},
          {&op::all_gather, run_all_gather},
          {&op::gather_ranks, run_gather_ranks},
          {&op::grad_norm, run_grad_norm, norm_workspace},
          {&op::adamw, run_adamw}};
}

}  // namespace lathe::cpu
