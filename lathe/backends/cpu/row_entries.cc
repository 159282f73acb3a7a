// layer_norm, dropout, gather_rows, scatter_add_rows.
#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/ops.h"

namespace lathe::cpu {
namespace {

Rows::Size size_of_input(const Call& c, int i) { return {c.rows(i), c.cols(i)}; }

Rows::Size size_of_value(const Type& type) { return {elements(type) / type.shape.back(), type.shape.back()}; }

void run_layer_norm(const Call& c) {
  Rows(c.pool, c.isa)
      .layer_norm(c.in_type(0).dtype, size_of_input(c, 0), c.in[0], c.input<float>(1), c.input<float>(2),
                  static_cast<float>(c.node.attrs.f("eps")), c.out[0], c.output<float>(1),
                  c.output<float>(2));
}

size_t layer_norm_bwd_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::layer_norm_bwd_workspace_bytes(size_of_value(program.type(node.in[0])));
}

void run_layer_norm_bwd(const Call& c) {
  Rows(c.pool, c.isa)
      .layer_norm_bwd(c.in_type(0).dtype, size_of_input(c, 0), c.in[0], c.in[1], c.input<float>(2),
                      c.input<float>(3), c.input<float>(4), c.out[0], c.output<float>(1), c.output<float>(2),
                      c.workspace);
}

void run_dropout(const Call& c) {
  const auto* rng = c.input<uint32_t>(3);
  const DropoutRule rule =
      dropout_rule(rng[0], rng[1], static_cast<uint32_t>(c.node.attrs.i("site")), c.node.attrs.f("p"));
  Rows(c.pool, c.isa)
      .dropout(c.in_type(0).dtype, size_of_input(c, 0), rule, c.input<int32_t>(1), c.input<int32_t>(2),
               c.in[0], nullptr, c.out[0]);
}

void run_gather_rows(const Call& c) {
  const DType dtype = c.in_type(0).dtype;
  Rows(c.pool, c.isa)
      .gather_rows(dtype, dtype, size_of_value(c.out_type(0)), c.in[0], c.input<int32_t>(1), c.out[0]);
}

size_t scatter_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::scatter_add_rows_workspace_bytes(size_of_value(program.type(node.in[0])),
                                                node.attrs.i("rows"));
}

void run_scatter_add_rows(const Call& c) {
  Rows(c.pool, c.isa)
      .scatter_add_rows(c.in_type(0).dtype, c.out_type(0).dtype, size_of_input(c, 0), c.in[0],
                        c.input<int32_t>(1), c.node.attrs.i("rows"), c.out[0], c.workspace);
}

}  // namespace

std::vector<Entry> row_entries() {
  return {{&op::layer_norm, run_layer_norm},
          {&op::layer_norm_bwd, run_layer_norm_bwd, layer_norm_bwd_workspace},
          {&op::dropout, run_dropout},
          {&op::gather_rows, run_gather_rows},
          {&op::scatter_add_rows, run_scatter_add_rows, scatter_workspace}};
}

}  // namespace lathe::cpu
