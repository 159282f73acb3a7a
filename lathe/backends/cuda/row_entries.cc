// layer_norm, dropout, rotary, segment_mean, gather_rows, scatter_add_rows, and the fused ops of these.
#include <algorithm>

#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/rows/rows.h"
#include "lathe/core/philox.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/norms/layer_norm.h"
#include "lathe/ops/rotary.h"
#include "lathe/ops/rows.h"
#include "lathe/ops/segment_mean.h"

namespace lathe::cuda {
namespace {

RowsSize size_of_value(const Type& type) { return {elements(type) / type.shape.back(), type.shape.back()}; }

float eps_of(const Call& c) { return static_cast<float>(c.node.attrs.f("eps")); }

void run_layer_norm(const Call& c) {
  layer_norm(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), c.in[0], c.input<float>(1),
             c.input<float>(2), eps_of(c), c.out[0], c.output<float>(1), c.output<float>(2));
}

size_t layer_norm_bwd_workspace(const Node& node, const Program& program) {
  return layer_norm_bwd_workspace_bytes(size_of_value(program.type(node.in[0])));
}

/// The next node waits only for dx.
void finish_layer_norm_bwd(const Call& c, int64_t parts) {
  layer_norm_bwd_sums(c.beside(), c.cols(0), parts, c.workspace, c.output<float>(1), c.output<float>(2));
}

void norm_bwd(const Call& c, const void* past) {
  const int64_t parts =
      layer_norm_bwd(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), c.in[0], c.in[1],
                     c.input<float>(2), c.input<float>(3), c.input<float>(4), past, c.out[0], c.workspace);
  finish_layer_norm_bwd(c, parts);
}
void run_layer_norm_bwd(const Call& c) { norm_bwd(c, nullptr); }
void run_layer_norm_bwd_add(const Call& c) { norm_bwd(c, c.in[5]); }

/// The rule of a node with attributes site and p; rng: its input of that name.
DropoutRule dropout_rule(const Call& c, int rng) {
  const double p = c.node.attrs.f("p");
  return {static_cast<uint32_t>(c.node.attrs.i("site")), dropout_threshold(p), dropout_scale(p),
          c.input<uint32_t>(rng)};
}

void run_dropout(const Call& c) {
  dropout(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), dropout_rule(c, 3), c.input<int32_t>(1),
          c.input<int32_t>(2), c.in[0], nullptr, c.out[0]);
}

void run_dropout_add_layer_norm(const Call& c) {
  dropout_add_layer_norm(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), dropout_rule(c, 4),
                         c.input<int32_t>(2), c.input<int32_t>(3), c.in[0], c.in[1], c.input<float>(5),
                         c.input<float>(6), eps_of(c), c.out[0], c.out[1], c.output<float>(2),
                         c.output<float>(3));
}

void run_add_layer_norm(const Call& c) {
  dropout_add_layer_norm(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), {}, nullptr, nullptr,
                         c.in[0], c.in[1], c.input<float>(2), c.input<float>(3), eps_of(c), c.out[0],
                         c.out[1], c.output<float>(2), c.output<float>(3));
}

void run_layer_norm_dropout_bwd(const Call& c) {
  const int64_t parts =
      layer_norm_dropout_bwd(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), dropout_rule(c, 7),
                             c.input<int32_t>(5), c.input<int32_t>(6), c.in[0], c.in[1], c.input<float>(2),
                             c.input<float>(3), c.input<float>(4), c.out[0], c.out[3], c.workspace);
  finish_layer_norm_bwd(c, parts);
}

Embeddings embeddings(const Call& c) {
  return {c.in_type(0).dtype, c.in[0], c.in[2], c.in[4], c.input<int32_t>(1), c.input<int32_t>(3),
          c.input<int32_t>(5)};
}

void run_embed_layer_norm(const Call& c) {
  embed_layer_norm(c.stream, size_of_value(c.out_type(1)), embeddings(c), c.input<float>(6),
                   c.input<float>(7), eps_of(c), c.output<float>(0), c.output<float>(1), c.output<float>(2),
                   c.output<float>(3));
}

void run_embed_layer_norm_dropout(const Call& c) {
  embed_layer_norm_dropout(c.stream, size_of_value(c.out_type(0)), embeddings(c), c.input<float>(6),
                           c.input<float>(7), eps_of(c), dropout_rule(c, 10), c.input<int32_t>(8),
                           c.input<int32_t>(9), c.output<float>(0), c.out[3], c.output<float>(1),
                           c.output<float>(2));
}

void run_dropout_cast(const Call& c) {
  dropout_cast(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), dropout_rule(c, 3),
               c.input<int32_t>(1), c.input<int32_t>(2), c.in[0], c.output<float>(0));
}

void run_rotary(const Call& c) {
  const int64_t heads = c.node.attrs.i("heads"), width = c.cols(0) / (3 * heads);
  const std::vector<float> frequencies = frequencies_of(c.node.attrs);
  Turn turn{static_cast<int>(heads),
            static_cast<int>(width / 2),
            c.node.attrs.b("inverse"),
            c.input<int32_t>(1),
            {}};
  std::copy(frequencies.begin(), frequencies.end(), turn.frequencies);
  rotary(c.stream, c.in_type(0).dtype, c.rows(0), turn, c.in[0], c.out[0]);
}

/// As many heads of k and v as of q, no factor, and frequencies that fit the arguments of a kernel.
bool few_pairs(const Node& node, const Program&) {
  const int64_t kv_heads = node.attrs.i("kv_heads");
  return (kv_heads == 0 || kv_heads == node.attrs.i("heads")) && node.attrs.f("factor") == 1 &&
         std::ssize(node.attrs.numbers("frequencies")) <= Turn::kMostPairs;
}

void run_segment_mean(const Call& c) {
  segment_mean(c.stream, c.in_type(0).dtype, size_of_value(c.out_type(0)), c.input<int32_t>(1), c.in[0],
               c.out[0]);
}

void run_segment_mean_bwd(const Call& c) {
  segment_mean_bwd(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), c.input<int32_t>(1), c.in[0],
                   c.node.attrs.i("tokens"), c.out[0]);
}

void run_look_up(const Call& c) {
  look_up(c.stream, c.in_type(0).dtype, size_of_value(c.out_type(0)), c.in[0], c.input<int32_t>(1),
          c.output<float>(0));
}

void run_gather_rows(const Call& c) {
  gather_rows(c.stream, c.in_type(0).dtype, size_of_value(c.out_type(0)), c.in[0], c.input<int32_t>(1),
              c.out[0]);
}

size_t scatter_workspace(const Node& node, const Program& program) {
  return scatter_add_rows_workspace_bytes(size_of_value(program.type(node.in[0])));
}

size_t order_bytes(const Node& node, const Program& program) {
  return sort_rows_bytes(elements(program.type(node.in[1])));
}

/// Ids of the batch are there when a run begins.
bool ids_are_input(const Call& c) {
  return c.program.values()[static_cast<size_t>(c.node.in[1])].kind == ValueKind::kInput;
}

void sort_ids(const Call& c) {
  sort_rows(c.stream, elements(c.in_type(1)), c.input<int32_t>(1), c.node.attrs.i("rows"), c.own);
}

void sort_input_ids(const Call& c) {
  if (ids_are_input(c)) sort_ids(c);
}

template <bool kLate>
void run_scatter_add_rows(const Call& c) {
  if (!ids_are_input(c)) sort_ids(c);
  scatter_add_rows(kLate ? c.beside() : c.stream, c.in_type(0).dtype, c.out_type(0).dtype,
                   size_of_value(c.in_type(0)), c.in[0], c.own, c.node.attrs.i("rows"),
                   c.node.attrs.i("padding"), c.out[0], c.workspace);
}

/// Sums for few table rows take little of the GPU, for long: they run next to those of a large table.
bool is_small_table(const Node& node, const Program& program) {
  return node.attrs.i("rows") < program.type(node.in[0]).shape[0];
}

template <bool kLate>
Entry scatter() {
  return {.op = &op::scatter_add_rows,
          .name = kLate ? "sorted, beside" : "sorted",
          .launch = run_scatter_add_rows<kLate>,
          .workspace_bytes = scatter_workspace,
          .accepts = kLate ? is_small_table : nullptr,
          .late_outputs = kLate,
          .own_bytes = order_bytes,
          .begin = sort_input_ids};
}

/// Gradients of gamma and beta are outputs 1 and 2.
Entry layer_norm_backward(const OpDef& op, void (*run)(const Call&)) {
  return {.op = &op,
          .name = "warp per row",
          .launch = run,
          .workspace_bytes = layer_norm_bwd_workspace,
          .late_outputs = 0b110,
          .late = Late::kEnd};
}

}  // namespace

std::vector<Entry> row_entries() {
  return {{&op::layer_norm, "warp per row", run_layer_norm},
          layer_norm_backward(op::layer_norm_bwd, run_layer_norm_bwd),
          layer_norm_backward(op::layer_norm_bwd_add, run_layer_norm_bwd_add),
          {&op::dropout_add_layer_norm, "warp per row", run_dropout_add_layer_norm},
          {&op::add_layer_norm, "warp per row", run_add_layer_norm},
          layer_norm_backward(op::layer_norm_dropout_bwd, run_layer_norm_dropout_bwd),
          {&op::embed_layer_norm, "warp per row", run_embed_layer_norm},
          {&op::embed_layer_norm_dropout, "warp per row", run_embed_layer_norm_dropout},
          {&op::dropout_cast, "warp per row", run_dropout_cast},
          {&op::dropout, "warp per row", run_dropout},
          {&op::rotary, "block per token", run_rotary, nullptr, few_pairs},
          {&op::segment_mean, "columns", run_segment_mean},
          {&op::segment_mean_bwd, "columns", run_segment_mean_bwd},
          {&op::gather_rows, "warp per row", run_gather_rows},
          {&op::look_up, "warp per row", run_look_up},
          scatter<true>(),
          scatter<false>()};
}

}  // namespace lathe::cuda
