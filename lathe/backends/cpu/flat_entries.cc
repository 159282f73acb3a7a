// Views, which the memory plan has resolved, and the optimizer over flat arenas.
#include <cmath>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/ops.h"
#include "lathe/ops/optimizer.h"

namespace lathe::cpu {
namespace {

void run_accumulate(const Call& c) {
  Rows(c.pool, c.isa)
      .accumulate(elements(c.in_type(0)), *c.input<float>(2), c.input<float>(1), c.output<float>(0));
}

void run_all_reduce(const Call& c) {
  const size_t count = static_cast<size_t>(elements(c.in_type(0)));
  const DType wire = c.node.attrs.b("bf16") ? DType::bf16 : DType::f32;
  if (c.group != nullptr) c.group->sum({c.output<float>(0), count}, wire).check();  // in place
}

double hyper_of(const Call& c, int input, Hyper h) { return c.input<float>(input)[static_cast<int>(h)]; }

size_t norm_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::sum_of_squares_workspace_bytes(elements(program.type(node.in[0])));
}

void run_grad_norm(const Call& c) {
  const double sum =
      Rows(c.pool, c.isa).sum_of_squares(elements(c.in_type(0)), c.input<float>(0), c.workspace);
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
  const auto update = [&](int64_t begin, int64_t count, double decay) {
    a.weight_decay = decay;
    c.parameters->adamw(c.pool, c.isa, a, begin, count, c.input<float>(1), c.output<float>(0),
                        c.output<float>(1), c.output<float>(2));
  };
  update(0, std::min(decayed, n), c.node.attrs.f("weight_decay"));
  if (decayed < n) update(decayed, n - decayed, 0);
}

}  // namespace

std::vector<Entry> flat_entries() {
  return {{&op::slice, nullptr},
          {&op::concat, nullptr},
          {&op::accumulate, run_accumulate},
          {&op::all_reduce, run_all_reduce},
          {&op::grad_norm, run_grad_norm, norm_workspace},
          {&op::adamw, run_adamw}};
}

}  // namespace lathe::cpu
