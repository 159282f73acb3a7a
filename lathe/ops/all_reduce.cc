// The sum over the processes that train together.
#include "lathe/ops/all_reduce.h"

namespace lathe::op {
namespace {

/// One process: its own.  Backends that belong to a group sum through it.
void ref_all_reduce(Reference& r) { r.out[0] = r.in[0]; }

Cost all_reduce_cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 1); }

}  // namespace

/// sum = Σ over the ranks of the backend's process group (Backend::group) of x, the same bits on every rank;
/// x itself where there is none.  Sums of bf16 numbers are rounded to bf16.  bf16: f32 numbers, too, travel
/// so (between hosts: ProcessGroup::sum).  Every rank runs its programs' all_reduce nodes in the same order.
const OpDef all_reduce{
    .name = "all_reduce",
    .signature = "x[n] -> sum[n]:x",
    .dtypes = {DType::f32, DType::bf16},
    .attrs = {{"bf16", false}},
    .gradient = not_differentiable,  // it comes after the backward pass
    .reference = ref_all_reduce,
    .cases =
        [] {
          return std::vector<Case>{{"one", {{1}}}, {"odd", {{37}}}, {"long", {{70001}}}};
        },
    .bound = {.ulp = 0},
    .cost = all_reduce_cost,
    .in_place = {{0, 0}},
};

}  // namespace lathe::op
