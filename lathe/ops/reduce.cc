// mean: the loss of the SimpleModel example.
#include "lathe/ops/reduce.h"

#include <cmath>

namespace lathe::op {
namespace {

void ref_mean(Reference& r) {
  const double n = static_cast<double>(r.in[0].size());
  for (double x : r.in[0]) {
    r.out[0][0] += x / n;
    r.magnitude[0][0] += std::abs(x) / n;
  }
}

void ref_mean_bwd(Reference& r) {
  const double n = static_cast<double>(r.out[0].size());
  for (double& dx : r.out[0]) dx = r.in[0][0] / n;
}

Cost cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 1); }

}  // namespace

const OpDef mean{
    .name = "mean",
    .signature = "x[..] -> y[1]:f32",
    .gradient =
        [](const Grad& g) {
          return g.program.emit(mean_bwd, {g.dout[0], g.in(0)});
        },
    .reference = ref_mean,
    .cases =
        [] {
          return std::vector<Case>{
              {"one", {{1}}}, {"odd", {{3, 17}}}, {"matrix", {{64, 10}}}, {"long", {{131, 97}}}};
        },
    .bound = {.ulp = 4, .terms = [](const Reference& r) { return static_cast<double>(r.in[0].size()); }},
    .cost = cost,
};

const OpDef mean_bwd{
    .name = "mean_bwd",
    .signature = "dy[1]:f32 x[..] -> dx[..]:x",
    .gradient = not_differentiable,
    .reference = ref_mean_bwd,
    .cases =
        [] {
          return std::vector<Case>{{"one", {{1}, {1}}}, {"matrix", {{1}, {64, 10}}}};
        },
    .bound = {.ulp = 2},
    .cost = cost,
};

}  // namespace lathe::op
