// Losses and their derivatives.
#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/losses/losses.h"
#include "lathe/ops/losses.h"

namespace lathe::cuda {
namespace {

ScoresSize size_of_input(const Call& c, int i) { return {c.rows(i), c.cols(i)}; }

/// The last input of all four holds labels or targets.
size_t choice_workspace(const Node& node, const Program& program) {
  return cross_entropy_workspace_bytes(elements(program.type(node.in.back())));
}

void run_cross_entropy(const Call& c) {
  cross_entropy(c.stream, size_of_input(c, 0), c.node.attrs.f("smoothing"), c.input<float>(0),
                c.input<int32_t>(1), c.output<float>(0), c.workspace);
}

void run_cross_entropy_bwd(const Call& c) {
  cross_entropy_bwd(c.stream, size_of_input(c, 1), c.node.attrs.f("smoothing"), c.input<float>(0),
                    c.input<float>(1), c.input<int32_t>(2), c.output<float>(0), c.workspace);
}

void run_segment_cross_entropy(const Call& c) {
  segment_cross_entropy(c.stream, size_of_input(c, 0), c.node.attrs.i("column"), c.input<float>(0), c.cols(2),
                        c.input<int32_t>(1), c.input<int32_t>(2), c.output<float>(0), c.workspace);
}

void run_segment_cross_entropy_bwd(const Call& c) {
  segment_cross_entropy_bwd(c.stream, size_of_input(c, 1), c.node.attrs.i("column"), c.input<float>(0),
                            c.input<float>(1), c.cols(3), c.input<int32_t>(2), c.input<int32_t>(3),
                            c.output<float>(0), c.workspace);
}

size_t pair_workspace(const Node& node, const Program& program) {
  return pair_loss_workspace_bytes(elements(program.type(node.in[0])));
}

using Pair = void (*)(cudaStream_t, int64_t, const float*, const float*, float*, void*);
using PairBwd = void (*)(cudaStream_t, int64_t, const float*, const float*, const float*, float*);

template <Pair kKernel>
void pair(const Call& c) {
  kKernel(c.stream, elements(c.in_type(0)), c.input<float>(0), c.input<float>(1), c.output<float>(0),
          c.workspace);
}

template <PairBwd kKernel>
void pair_bwd(const Call& c) {
  kKernel(c.stream, elements(c.in_type(1)), c.input<float>(0), c.input<float>(1), c.input<float>(2),
          c.output<float>(0));
}

}  // namespace

std::vector<Entry> loss_entries() {
  return {{&op::cross_entropy, "rows", run_cross_entropy, choice_workspace},
          {&op::cross_entropy_bwd, "rows", run_cross_entropy_bwd, choice_workspace},
          {&op::segment_cross_entropy, "rows", run_segment_cross_entropy, choice_workspace},
          {&op::segment_cross_entropy_bwd, "rows", run_segment_cross_entropy_bwd, choice_workspace},
          {&op::mse, "blocks", pair<&mse>, pair_workspace},
          {&op::mse_bwd, "map", pair_bwd<&mse_bwd>},
          {&op::bce_with_logits, "blocks", pair<&bce_with_logits>, pair_workspace},
          {&op::bce_with_logits_bwd, "map", pair_bwd<&bce_with_logits_bwd>}};
}

}  // namespace lathe::cuda
