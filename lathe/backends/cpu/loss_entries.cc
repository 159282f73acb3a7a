// Losses: a few rows of scores each, so that plain loops serve where Rows has none.
#include <algorithm>
#include <cmath>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/losses.h"

namespace lathe::cpu {
namespace {

Rows::Size size_of_input(const Call& c, int i) { return {c.rows(i), c.cols(i)}; }

size_t loss_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::cross_entropy_workspace_bytes(elements(program.type(node.in.back())));
}

void run_cross_entropy(const Call& c) {
  *c.output<float>(0) = Rows(c.pool, c.isa)
                            .cross_entropy(size_of_input(c, 0), c.node.attrs.f("smoothing"),
                                           c.input<float>(0), c.input<int32_t>(1), c.workspace);
}

void run_cross_entropy_bwd(const Call& c) {
  Rows(c.pool, c.isa)
      .cross_entropy_bwd(size_of_input(c, 1), c.node.attrs.f("smoothing"), *c.input<float>(0),
                         c.input<float>(1), c.input<int32_t>(2), c.output<float>(0));
}

void run_segment_cross_entropy(const Call& c) {
  *c.output<float>(0) =
      Rows(c.pool, c.isa)
          .segment_cross_entropy(size_of_input(c, 0), c.node.attrs.i("column"), c.input<float>(0), c.cols(2),
                                 c.input<int32_t>(1), c.input<int32_t>(2), c.workspace);
}

void run_segment_cross_entropy_bwd(const Call& c) {
  Rows(c.pool, c.isa)
      .segment_cross_entropy_bwd(size_of_input(c, 1), c.node.attrs.i("column"), *c.input<float>(0),
                                 c.input<float>(1), c.cols(3), c.input<int32_t>(2), c.input<int32_t>(3),
                                 c.output<float>(0));
}

template <typename F>
void mean_of(const Call& c, F term) {
  const int64_t n = elements(c.in_type(0));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += term(c.input<float>(0)[i], c.input<float>(1)[i]);
  *c.output<float>(0) = static_cast<float>(sum / static_cast<double>(n));
}

template <typename F>
void gradient_of_mean(const Call& c, F derivative) {
  const int64_t n = elements(c.in_type(1));
  const double scale = static_cast<double>(*c.input<float>(0)) / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    c.output<float>(0)[i] =
        static_cast<float>(scale * derivative(c.input<float>(1)[i], c.input<float>(2)[i]));
}

void run_mse(const Call& c) {
  mean_of(c, [](double x, double y) { return (x - y) * (x - y); });
}
void run_mse_bwd(const Call& c) {
  gradient_of_mean(c, [](double x, double y) { return 2 * (x - y); });
}
void run_bce(const Call& c) {
  mean_of(c,
          [](double x, double y) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))) - x * y; });
}
void run_bce_bwd(const Call& c) {
  gradient_of_mean(c, [](double x, double y) { return 1 / (1 + std::exp(-x)) - y; });
}

}  // namespace

std::vector<Entry> loss_entries() {
  return {{&op::cross_entropy, run_cross_entropy, loss_workspace},
          {&op::cross_entropy_bwd, run_cross_entropy_bwd},
          {&op::segment_cross_entropy, run_segment_cross_entropy, loss_workspace},
          {&op::segment_cross_entropy_bwd, run_segment_cross_entropy_bwd},
          {&op::mse, run_mse},
          {&op::mse_bwd, run_mse_bwd},
          {&op::bce_with_logits, run_bce},
          {&op::bce_with_logits_bwd, run_bce_bwd}};
}

}  // namespace lathe::cpu
