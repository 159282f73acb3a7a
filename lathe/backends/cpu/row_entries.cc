// Norms, dropout and what is fused of them, gather_rows, scatter_add_rows.
#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/norms/head_norm.h"
#include "lathe/ops/norms/layer_norm.h"
#include "lathe/ops/norms/rms_norm.h"
#include "lathe/ops/qkv_heads.h"
#include "lathe/ops/rotary.h"
#include "lathe/ops/rows.h"
#include "lathe/ops/segment_mean.h"

namespace lathe::cpu {
namespace {

Rows::Size size_of_value(const Type& type) { return {elements(type) / type.shape.back(), type.shape.back()}; }

/// gamma and beta are inputs i and i + 1, mean and rstd outputs o and o + 1.
Rows::Norm norm_of(const Call& c, int i, int o) {
  return {c.input<float>(i), c.input<float>(i + 1), static_cast<float>(c.node.attrs.f("eps")),
          c.output<float>(o), c.output<float>(o + 1)};
}

/// sample_ids, positions and rng are inputs i to i + 2.
Rows::Dropped dropped_of(const Call& c, int i) {
  const auto* rng = c.input<uint32_t>(i + 2);
  return {dropout_rule(rng[0], rng[1], static_cast<uint32_t>(c.node.attrs.i("site")), c.node.attrs.f("p")),
          c.input<int32_t>(i), c.input<int32_t>(i + 1)};
}

void run_layer_norm(const Call& c) {
  Rows(c.pool, c.isa).layer_norm(c.in_type(0).dtype, c.size(0), c.in[0], norm_of(c, 1, 1), c.out[0]);
}

/// Where the sum goes if output 1 is its norm: if nothing else reads the sum, it becomes the norm in place.
std::byte* sum_of(const Call& c) { return c.out[c.out_is_read ? 0 : 1]; }

void run_add_layer_norm(const Call& c) {
  Rows(c.pool, c.isa)
      .add_layer_norm(c.in_type(0).dtype, c.size(0), nullptr, c.in[0], c.in[1], norm_of(c, 2, 2), sum_of(c),
                      c.out[1]);
}

void run_dropout_add_layer_norm(const Call& c) {
  const Rows::Dropped dropped = dropped_of(c, 2);
  Rows(c.pool, c.isa)
      .add_layer_norm(c.in_type(0).dtype, c.size(0), &dropped, c.in[0], c.in[1], norm_of(c, 5, 2), sum_of(c),
                      c.out[1]);
}

void run_embed_layer_norm(const Call& c) {
  const void* tables[] = {c.in[0], c.in[2], c.in[4]};
  const int32_t* ids[] = {c.input<int32_t>(1), c.input<int32_t>(3), c.input<int32_t>(5)};
  Rows(c.pool, c.isa)
      .embed_layer_norm(c.in_type(0).dtype, size_of_value(c.out_type(0)), tables, ids, norm_of(c, 6, 2),
                        reinterpret_cast<float*>(sum_of(c)), c.output<float>(1));
}

size_t layer_norm_bwd_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::layer_norm_bwd_workspace_bytes(size_of_value(program.type(node.in[0])));
}

void norm_bwd(const Call& c, const Rows::Dropped* dropped, void* dd, const void* past) {
  Rows(c.pool, c.isa)
      .layer_norm_bwd(c.in_type(0).dtype, c.size(0), c.in[0], c.in[1], c.input<float>(2), c.input<float>(3),
                      c.input<float>(4), c.out[0], c.output<float>(1), c.output<float>(2), c.workspace,
                      dropped, dd, past);
}
void run_layer_norm_bwd(const Call& c) { norm_bwd(c, nullptr, nullptr, nullptr); }
void run_layer_norm_dropout_bwd(const Call& c) {
  const Rows::Dropped dropped = dropped_of(c, 5);
  norm_bwd(c, &dropped, c.out[3], nullptr);
}
void run_layer_norm_bwd_add(const Call& c) { norm_bwd(c, nullptr, nullptr, c.in[5]); }

/// gamma is input i.
Rows::RmsNorm rms_norm_of(const Call& c, int i, float eps, float* rstd) {
  return {c.input<float>(i), c.node.attrs.b("plus_one") ? 1.f : 0.f, eps, rstd};
}
float eps_of(const Call& c) { return static_cast<float>(c.node.attrs.f("eps")); }

void run_rms_norm(const Call& c) {
  Rows(c.pool, c.isa)
      .rms_norm(c.in_type(0).dtype, c.size(0), c.in[0], nullptr,
                rms_norm_of(c, 1, eps_of(c), c.output<float>(1)), nullptr, c.out[0]);
}
void run_add_rms_norm(const Call& c) {
  Rows(c.pool, c.isa)
      .rms_norm(c.in_type(0).dtype, c.size(0), c.in[0], c.in[1],
                rms_norm_of(c, 2, eps_of(c), c.output<float>(2)), sum_of(c), c.out[1]);
}

size_t rms_norm_bwd_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::rms_norm_bwd_workspace_bytes(size_of_value(program.type(node.in[0])));
}
void rms_bwd(const Call& c, const void* past) {
  float* const rstd = reinterpret_cast<float*>(c.in[3]);  // only read
  Rows(c.pool, c.isa)
      .rms_norm_bwd(c.in_type(0).dtype, c.size(0), c.in[0], c.in[1], rms_norm_of(c, 2, 0, rstd), past,
                    c.out[0], c.output<float>(1), c.workspace);
}
void run_rms_norm_bwd(const Call& c) { rms_bwd(c, nullptr); }
void run_rms_norm_bwd_add(const Call& c) { rms_bwd(c, c.in[4]); }

void run_dropout(const Call& c) {
  Rows(c.pool, c.isa).dropout(c.in_type(0).dtype, c.size(0), dropped_of(c, 1), c.in[0], c.out[0]);
}

Rows::HeadNorm head_norm_of(const Call& c, int qkv, float eps, float* rstd) {
  const QkvHeads of = qkv_heads(c.node.op->name, c.cols(qkv), c.node.attrs);
  return {of.heads,
          of.kv_heads,
          of.width,
          c.input<float>(qkv + 1),
          c.input<float>(qkv + 2),
          c.node.attrs.b("plus_one") ? 1.f : 0.f,
          eps,
          rstd};
}
void run_head_norm(const Call& c) {
  Rows(c.pool, c.isa)
      .head_norm(c.in_type(0).dtype, c.size(0), c.in[0], head_norm_of(c, 0, eps_of(c), c.output<float>(1)),
                 c.out[0]);
}
size_t head_norm_bwd_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::head_norm_bwd_workspace_bytes(program.type(node.in[0]).shape[0],
                                             program.type(node.in[2]).shape[0]);
}
void run_head_norm_bwd(const Call& c) {
  float* const rstd = reinterpret_cast<float*>(c.in[4]);  // only read
  Rows(c.pool, c.isa)
      .head_norm_bwd(c.in_type(0).dtype, c.size(0), c.in[0], c.in[1], head_norm_of(c, 1, 0, rstd), c.out[0],
                     c.output<float>(1), c.output<float>(2), c.workspace);
}

size_t rotary_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::rotary_workspace_bytes(program.type(node.in[0]).shape[0],
                                      static_cast<int64_t>(node.attrs.numbers("frequencies").size()));
}

void run_rotary(const Call& c) {
  const QkvHeads of = qkv_heads("rotary", c.cols(0), c.node.attrs);
  const std::vector<float> frequencies = frequencies_of(c.node.attrs);
  const Rows::Turn turn{of.heads + of.kv_heads,    of.width / 2,
                        frequencies.data(),        c.input<int32_t>(1),
                        c.node.attrs.b("inverse"), static_cast<float>(c.node.attrs.f("factor"))};
  Rows(c.pool, c.isa).rotary(c.in_type(0).dtype, c.size(0), turn, c.in[0], c.out[0], c.workspace);
}

size_t segment_mean_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::segment_mean_workspace_bytes(size_of_value(program.type(node.out[0])));
}

void run_segment_mean(const Call& c) {
  Rows(c.pool, c.isa)
      .segment_mean(c.in_type(0).dtype, size_of_value(c.out_type(0)), c.input<int32_t>(1), c.in[0], c.out[0],
                    c.workspace, c.ld(0));
}

void run_segment_mean_bwd(const Call& c) {
  Rows(c.pool, c.isa)
      .segment_mean_bwd(c.in_type(0).dtype, c.size(0), c.input<int32_t>(1), c.in[0], c.node.attrs.i("tokens"),
                        c.out[0], c.ld_out(0));
}

void run_gather_rows(const Call& c) {
  Rows(c.pool, c.isa)
      .gather_rows(c.in_type(0).dtype, c.out_type(0).dtype,
                   {elements(c.out_type(0)) / c.cols(0), c.cols(0), c.ld_out(0)}, c.in[0],
                   c.input<int32_t>(1), c.out[0], c.ld(0));
}

size_t scatter_workspace(const Node& node, const Program& program, Isa, int) {
  return Rows::scatter_add_rows_workspace_bytes(size_of_value(program.type(node.in[0])),
                                                node.attrs.i("rows"));
}

void run_scatter_add_rows(const Call& c) {
  Rows(c.pool, c.isa)
      .scatter_add_rows(c.in_type(0).dtype, c.out_type(0).dtype, c.size(0), c.in[0], c.input<int32_t>(1),
                        c.node.attrs.i("rows"), c.node.attrs.i("padding"), c.out[0], c.workspace,
                        c.table.get(), c.ld_out(0));
}

}  // namespace

std::vector<Entry> row_entries() {
  // The sum is written over x, which no other thread has read; if nothing reads the sum, the norm is.  The
  // residual is an operand of products: many threads have read it, and writing to its lines is slow.
  const std::vector<InPlace> sum_and_norm = {{0, 0}, {1, 0}, {1, 1}};
  // For the same reason layer_norm_bwd_add does not write over r.
  return {
      {.op = &op::layer_norm,
       .run = run_layer_norm,
       .may_overwrite = {{0, 0}},
       .gaps_in = 0b1,
       .gaps_out = 0b1},
      {.op = &op::layer_norm_bwd,
       .run = run_layer_norm_bwd,
       .workspace_bytes = layer_norm_bwd_workspace,
       .may_overwrite = {{0, 0}, {0, 1}},
       .gaps_in = 0b11,
       .gaps_out = 0b1},
      {.op = &op::layer_norm_dropout_bwd,
       .run = run_layer_norm_dropout_bwd,
       .workspace_bytes = layer_norm_bwd_workspace,
       .may_overwrite = {{0, 0}, {3, 1}},
       .gaps_in = 0b11,
       .gaps_out = 0b1001},
      {.op = &op::layer_norm_bwd_add,
       .run = run_layer_norm_bwd_add,
       .workspace_bytes = layer_norm_bwd_workspace,
       .may_overwrite = {{0, 0}, {0, 1}},
       .gaps_in = 0b100011,
       .gaps_out = 0b1},
      {.op = &op::add_layer_norm,
       .run = run_add_layer_norm,
       .may_overwrite = sum_and_norm,
       .gaps_in = 0b11,
       .gaps_out = 0b11},
      {.op = &op::rms_norm, .run = run_rms_norm, .may_overwrite = {{0, 0}}, .gaps_in = 0b1, .gaps_out = 0b1},
      {.op = &op::rms_norm_bwd,
       .run = run_rms_norm_bwd,
       .workspace_bytes = rms_norm_bwd_workspace,
       .may_overwrite = {{0, 0}, {0, 1}},
       .gaps_in = 0b11,
       .gaps_out = 0b1},
      {.op = &op::rms_norm_bwd_add,
       .run = run_rms_norm_bwd_add,
       .workspace_bytes = rms_norm_bwd_workspace,
       .may_overwrite = {{0, 0}, {0, 1}},
       .gaps_in = 0b10011,
       .gaps_out = 0b1},
      {.op = &op::add_rms_norm,
       .run = run_add_rms_norm,
       .may_overwrite = sum_and_norm,
       .gaps_in = 0b11,
       .gaps_out = 0b11},
      {.op = &op::dropout_add_layer_norm,
       .run = run_dropout_add_layer_norm,
       .may_overwrite = sum_and_norm,
       .gaps_in = 0b11,
       .gaps_out = 0b11},
      {&op::embed_layer_norm, run_embed_layer_norm},
      {.op = &op::dropout, .run = run_dropout, .may_overwrite = {{0, 0}}, .gaps_in = 0b1, .gaps_out = 0b1},
      {.op = &op::head_norm,
       .run = run_head_norm,
       .may_overwrite = {{0, 0}},
       .gaps_in = 0b1,
       .gaps_out = 0b1},
      {.op = &op::head_norm_bwd,
       .run = run_head_norm_bwd,
       .workspace_bytes = head_norm_bwd_workspace,
       .may_overwrite = {{0, 0}, {0, 1}},
       .gaps_in = 0b11,
       .gaps_out = 0b1},
      {.op = &op::rotary,
       .run = run_rotary,
       .workspace_bytes = rotary_workspace,
       .may_overwrite = {{0, 0}},
       .gaps_in = 0b1,
       .gaps_out = 0b1},
      {.op = &op::segment_mean,
       .run = run_segment_mean,
       .workspace_bytes = segment_mean_workspace,
       .gaps_in = 0b1},
      {.op = &op::segment_mean_bwd, .run = run_segment_mean_bwd, .gaps_out = 0b1},
      {.op = &op::gather_rows, .run = run_gather_rows, .gaps_in = 0b1, .gaps_out = 0b1},
      {.op = &op::look_up, .run = run_gather_rows, .gaps_in = 0b1, .gaps_out = 0b1},
      {.op = &op::scatter_add_rows,
       .run = run_scatter_add_rows,
       .workspace_bytes = scatter_workspace,
       .apart = true,
       .gaps_in = 0b1,
       .gaps_out = 0b1}};
}

}  // namespace lathe::cpu
