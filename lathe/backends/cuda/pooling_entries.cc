// segment_sum, segment_max, l2_normalize: what makes one vector of the vectors of a text's tokens.
#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/rows/pooling.h"
#include "lathe/ops/pooling.h"

namespace lathe::cuda {
namespace {

/// Rows and columns of the last axis.
RowsSize matrix_of(const Type& type) { return {elements(type) / type.shape.back(), type.shape.back()}; }
int64_t tokens_of(const Call& c) { return c.out_type(0).shape[0]; }
float least_length(const Call& c) { return static_cast<float>(c.node.attrs.f("eps")); }

Segments rows_of(const Call& c) { return {c.input<int32_t>(1), c.input<int32_t>(2)}; }

void run_segment_sum(const Call& c) {
  segment_sum(c.stream, c.in_type(0).dtype, matrix_of(c.out_type(0)), rows_of(c),
              op::segment_weights(c.node.attrs), c.in[0], c.out[0]);
}
void run_segment_sum_bwd(const Call& c) {
  segment_sum_bwd(c.stream, c.in_type(0).dtype, matrix_of(c.in_type(0)), rows_of(c),
                  op::segment_weights(c.node.attrs), c.in[0], tokens_of(c), c.out[0]);
}
void run_segment_max(const Call& c) {
  segment_max(c.stream, c.in_type(0).dtype, matrix_of(c.out_type(0)), rows_of(c), c.in[0], c.out[0],
              c.output<int32_t>(1));
}
void run_segment_max_bwd(const Call& c) {
  segment_max_bwd(c.stream, c.in_type(0).dtype, matrix_of(c.in_type(0)), c.input<int32_t>(2),
                  c.input<int32_t>(1), c.in[0], tokens_of(c), c.out[0]);
}
void run_l2_normalize(const Call& c) {
  l2_normalize(c.stream, c.in_type(0).dtype, matrix_of(c.in_type(0)), least_length(c), c.in[0], c.out[0],
               c.output<float>(1));
}
void run_l2_normalize_bwd(const Call& c) {
  l2_normalize_bwd(c.stream, c.in_type(0).dtype, matrix_of(c.in_type(0)), least_length(c), c.in[0], c.in[1],
                   c.input<float>(2), c.out[0]);
}

}  // namespace

std::vector<Entry> pooling_entries() {
  return {{&op::segment_sum, "columns", run_segment_sum},
          {&op::segment_sum_bwd, "columns", run_segment_sum_bwd},
          {&op::segment_max, "columns", run_segment_max},
          {&op::segment_max_bwd, "columns", run_segment_max_bwd},
          {&op::l2_normalize, "warp per row", run_l2_normalize},
          {&op::l2_normalize_bwd, "warp per row", run_l2_normalize_bwd}};
}

}  // namespace lathe::cuda
