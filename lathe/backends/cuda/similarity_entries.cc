// row_scores, pair_loss: how alike the vectors of two texts are, and what is learnt from that.
#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/rows/similarity.h"
#include "lathe/ops/similarity.h"

namespace lathe::cuda {
namespace {

Comparison comparison(const Call& c) {
  return {static_cast<int>(op::row_score(c.node.attrs)), static_cast<float>(c.node.attrs.f("shift"))};
}
RowsSize matrix_of(const Type& type) { return {type.shape[0], type.shape[1]}; }

void run_row_scores(const Call& c) {
  row_scores(c.stream, matrix_of(c.in_type(0)), comparison(c), c.input<float>(0), c.input<float>(1),
             c.output<float>(0));
}
void run_row_scores_bwd(const Call& c) {
  row_scores_bwd(c.stream, matrix_of(c.in_type(1)), comparison(c), c.input<float>(0), c.input<float>(1),
                 c.input<float>(2), c.input<float>(3), c.output<float>(0), c.output<float>(1));
}
void run_cosent(const Call& c) {
  cosent(c.stream, elements(c.in_type(0)), static_cast<float>(c.node.attrs.f("factor")), c.input<float>(0),
         c.input<int32_t>(1), c.output<float>(0), c.output<float>(1), c.workspace);
}
size_t workspace_of_cosent(const Node& node, const Program& program) {
  return cosent_workspace_bytes(elements(program.type(node.in[0])));
}
void run_pair_loss(const Call& c) {
  pair_loss(c.stream, elements(c.in_type(0)), op::pair_loss_kind(c.node.attrs) == op::PairLoss::kTriplet,
            static_cast<float>(c.node.attrs.f("margin")), c.input<float>(0), c.input<float>(1),
            c.output<float>(0), c.output<float>(1), c.output<float>(2));
}
void run_times(const Call& c) {
  times(c.stream, elements(c.out_type(0)), c.input<float>(0), c.input<float>(1), c.output<float>(0));
}

void run_columns(const Call& c) {
  first_columns(c.stream, matrix_of(c.in_type(0)), c.node.attrs.i("cols"), c.input<float>(0),
                c.output<float>(0));
}

}  // namespace

std::vector<Entry> similarity_entries() {
  return {{&op::row_scores, "warp per row", run_row_scores},
          {&op::row_scores_bwd, "elements", run_row_scores_bwd},
          {&op::cosent, "warp per score", run_cosent, workspace_of_cosent},
          {&op::pair_loss, "one warp", run_pair_loss},
          {&op::times, "elements", run_times},
          {&op::first_columns, "elements", run_columns},
          {&op::first_columns_bwd, "elements", run_columns}};
}

}  // namespace lathe::cuda
