// Views, which the memory plan has resolved, and the optimizer over flat arenas.
#include <algorithm>
#include <numeric>

#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/optimizers/adafactor.h"
#include "lathe/backends/cuda/kernels/optimizers/flat.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/nccl.h"
#include "lathe/ops/all_gather.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/optimizers/sgd.h"

namespace lathe::cuda {
namespace {

void run_accumulate(const Call& c) {
  accumulate(c.stream, elements(c.in_type(0)), c.input<float>(2), c.input<float>(1), c.output<float>(0));
}

/// Whether f32 numbers travel as bf16.
bool travels_rounded(const Node& node, const Program& program) {
  return node.attrs.b("bf16") && program.type(node.in[0]).dtype == DType::f32;
}

size_t all_reduce_workspace(const Node& node, const Program& program) {
  return travels_rounded(node, program) ? bytes_of({DType::bf16, program.type(node.in[0]).shape}) : 0;
}

void run_all_reduce(const Call& c) {
  if (c.nccl == nullptr) return;
  const int64_t n = elements(c.in_type(0));
  const DType type = c.in_type(0).dtype;
  if (!travels_rounded(c.node, c.program))
    return c.nccl->sum(c.stream, type, c.out[0], static_cast<size_t>(n));
  cast(c.stream, type, DType::bf16, n, c.out[0], c.workspace);
  c.nccl->sum(c.stream, DType::bf16, c.workspace, static_cast<size_t>(n));
  cast(c.stream, DType::bf16, type, n, c.workspace, c.out[0]);
}

void run_all_gather(const Call& c) {
  const Shape& counts = c.node.attrs.shape("counts");
  const int64_t rank = c.node.attrs.i("rank"), count = elements(c.in_type(1)), all = elements(c.in_type(0));
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  float* const to = c.output<float>(0);
  const bool in_place = c.input<float>(1) == to + begin;  // then what updated it rounded it, too
  if (!in_place) cast(c.stream, DType::f32, DType::f32, count, c.input<float>(1), to + begin);
  if (c.nccl != nullptr) c.nccl->gather(c.stream, to, counts);
  if (c.rounded == nullptr) return;
  const auto round = [&](int64_t from, int64_t until) {
    if (from < until)
      cast(c.stream, DType::f32, c.rounded_type, until - from, to + from,
           static_cast<std::byte*>(c.rounded) + static_cast<size_t>(from) * size_of(c.rounded_type));
  };
  round(0, in_place ? begin : all);
  if (in_place) round(begin + count, all);
}

void run_gather_ranks(const Call& c) {
  const int64_t count = elements(c.in_type(0)), all = elements(c.out_type(0));
  if (c.nccl != nullptr)
    return c.nccl->gather(c.stream, c.input<float>(0), static_cast<size_t>(count), c.output<float>(0));
  for (int64_t at = 0; at < all; at += count)
    cast(c.stream, DType::f32, DType::f32, count, c.input<float>(0), c.output<float>(0) + at);
}

int64_t count_of(const Program& program, int value) { return value < 0 ? 0 : elements(program.type(value)); }

Gradients gradients(const Call& c, int exact, int rounded, int64_t first) {
  const auto id = [&](int input) { return c.node.in[static_cast<size_t>(input)]; };
  return {c.input<float>(exact), c.in[static_cast<size_t>(rounded)], count_of(c.program, id(exact)),
          count_of(c.program, id(rounded)), first};
}

size_t norm_workspace(const Node& node, const Program& program) {
  return grad_norm_workspace_bytes(count_of(program, node.in[0]), count_of(program, node.in[2]));
}

void run_grad_norm(const Call& c) {
  grad_norm(c.stream, gradients(c, 0, 2, 0), c.input<float>(1), c.output<float>(0), c.workspace);
}

size_t adamw_workspace(const Node&, const Program&) { return kAdamwWorkspaceBytes; }

void run_adamw(const Call& c) {
  const Attrs& attrs = c.node.attrs;
  const AdamW a{attrs.f("beta1"), attrs.f("beta2"), attrs.f("eps"), attrs.f("weight_decay"),
                attrs.i("decayed")};
  adamw(c.stream, a, gradients(c, 1, 7, attrs.i("first")), c.input<float>(4), c.input<float>(5),
        c.input<float>(6), c.output<float>(0), c.output<float>(1), c.output<float>(2), c.rounded,
        c.rounded_type, c.workspace);
}

void run_sgd(const Call& c) {
  const Attrs& attrs = c.node.attrs;
  const Sgd a{attrs.f("momentum"), attrs.f("weight_decay"), attrs.b("nesterov"), attrs.i("decayed")};
  sgd(c.stream, a, elements(c.in_type(0)), c.input<float>(1), c.input<float>(3), c.input<float>(4),
      c.input<float>(5), c.output<float>(0), c.output<float>(1));
}

size_t adafactor_workspace(const Node& node, const Program&) {
  const Shape& tensors = node.attrs.shape("tensors");
  size_t bytes = 0;
  for (size_t k = 0; k < tensors.size(); k += 2)
    bytes = std::max(bytes, adafactor_workspace_bytes(tensors[k], tensors[k + 1]));
  return bytes;
}

void run_adafactor(const Call& c) {
  const Attrs& attrs = c.node.attrs;
  const Shape& tensors = attrs.shape("tensors");
  int64_t at = 0, kept = 0;
  for (size_t k = 0; k < tensors.size(); k += 2) {
    const int64_t rows = tensors[k], cols = tensors[k + 1];
    const double weight_decay = at < attrs.i("decayed") ? attrs.f("weight_decay") : 0;
    adafactor(c.stream,
              {rows, cols, c.input<float>(1) + at, c.output<float>(0) + at, c.output<float>(1) + kept,
               weight_decay, attrs.f("clip_threshold")},
              c.input<float>(3), c.input<float>(4), c.input<float>(5), c.workspace);
    at += std::max<int64_t>(rows, 1) * cols;
    kept += rows + cols;
  }
}

}  // namespace

std::vector<Entry> flat_entries() {
  return {{&op::slice, "view", nullptr},
          {&op::concat, "view", nullptr},
          {&op::accumulate, "map", run_accumulate},
          {.op = &op::all_reduce,
           .name = "nccl",
           .launch = run_all_reduce,
           .workspace_bytes = all_reduce_workspace,
           .own_queue = true},
          {&op::all_gather, "nccl", run_all_gather},
          {.op = &op::gather_ranks, .name = "nccl", .launch = run_gather_ranks, .own_queue = true},
          {&op::grad_norm, "blocks", run_grad_norm, norm_workspace},
          {&op::adamw, "one pass", run_adamw, adamw_workspace},
          {&op::sgd, "map", run_sgd},
          {&op::adafactor, "per tensor", run_adafactor, adafactor_workspace}};
}

}  // namespace lathe::cuda
