// Gradient descent with momentum over flat arenas.
#include "lathe/ops/optimizers/sgd.h"

#include <cmath>

#include "lathe/ops/optimizers/optimizer.h"

namespace lathe::op {
namespace {

void ref_sgd(Reference& r) {
  const double momentum = r.node.attrs.f("momentum"), decay = r.node.attrs.f("weight_decay");
  const bool nesterov = r.node.attrs.b("nesterov");
  const size_t decayed = static_cast<size_t>(r.node.attrs.i("decayed"));
  const double* hyper = r.in[5].data();
  const double rate = hyper[static_cast<int>(Hyper::kLearningRate)];
  const double take = hyper[static_cast<int>(Hyper::kTake)];
  const double norm = r.in[3][0], factor = gradient_factor(hyper, norm);
  const bool apply = std::isfinite(norm) && std::isfinite(r.in[4][0]);
  r.out[1] = r.in[2];
  r.magnitude[1] = r.in[2];
  for (size_t i = 0; i < r.in[0].size(); ++i) {
    const double p = r.in[0][i];
    r.out[0][i] = r.magnitude[0][i] = p;
    if (!apply) continue;
    const double g = r.in[1][i] * factor + (i < decayed ? decay * p : 0);
    double step = g, size = std::abs(r.in[1][i] * factor) + (i < decayed ? decay * std::abs(p) : 0);
    if (momentum != 0) {
      const double before = momentum * r.in[2][i];
      r.out[1][i] = before + take * g;
      r.magnitude[1][i] = std::abs(before) + take * size;
      step = nesterov ? g + momentum * r.out[1][i] : r.out[1][i];
      size += r.magnitude[1][i];
    }
    r.out[0][i] = p - rate * step;
    r.magnitude[0][i] = std::abs(p) + rate * size;
  }
}

void adjust_sgd(Reference& r) {
  r.in[3][0] = std::abs(r.in[3][0]) * 5;
  r.in[5] = {0.1, 0.7, 0, 1.0, 0.5};
}
void adjust_not_finite(Reference& r) {
  adjust_sgd(r);
  r.in[4][0] = NAN;
}

std::vector<Case> sgd_cases() {
  const auto shapes = [](int64_t n, int64_t kept) {
    return std::vector<Shape>{{n}, {n}, {kept}, {1}, {1}, {kHyperCount}};
  };
  const Attrs decay{{"weight_decay", 0.1}, {"decayed", int64_t{20}}};
  const Attrs momentum{{"momentum", 0.9}, {"weight_decay", 0.1}, {"decayed", int64_t{20}}};
  const Attrs nesterov{{"momentum", 0.9}, {"nesterov", true}};
  return {{"one", shapes(1, 1), {}, {}, 1, adjust_sgd},
          {"part decayed", shapes(37, 1), decay, {}, 1, adjust_sgd},
          {"momentum", shapes(5003, 5003), momentum, {}, 1, adjust_sgd},
          {"nesterov", shapes(33, 33), nesterov, {}, 1, adjust_sgd},
          {"not finite", shapes(33, 33), momentum, {}, 1, adjust_not_finite}};
}

Cost sgd_cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 6); }

}  // namespace

/// One update of gradient descent with the gradient times gradient_factor.  The first `decayed` elements have
/// weight decay, which is added to the gradient.  m: the momentum buffer, kept as momentum · m + kTake · g;
/// without momentum it is [1] and stays as it is.  A norm or loss that is not finite leaves everything as it
/// is.
const OpDef sgd{
    .name = "sgd",
    .signature = "p[n]:f32 g[n]:f32 m[k]:f32 norm[1]:f32 loss[1]:f32 hyper[5]:f32 -> p2[n]:f32 m2[k]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}, {"decayed", int64_t{0}}},
    .gradient = not_differentiable,
    .reference = ref_sgd,
    .cases = sgd_cases,
    .bound = {.ulp = 4},
    .cost = sgd_cost,
    .in_place = {{0, 0}, {1, 2}},
    .source = "torch.optim.SGD",
};

}  // namespace lathe::op
