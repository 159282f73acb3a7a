// Rows that each of the processes that train together gives, on all of them.
#include "lathe/ops/gather_ranks.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/functional.h"

namespace lathe::op {
namespace {

std::vector<Type> infer_gather_ranks(std::span<const Type> in, const Attrs& attrs) {
  const int64_t ranks = attrs.i("ranks");
  if (in[0].dtype != DType::f32 || in[0].shape.size() != 2 || ranks < 1)
    fail(ErrorCode::kShape, "gather_ranks: found {} of {} ranks, expected f32[n,c] of at least one",
         to_string(in[0]), ranks);
  return {{DType::f32, {ranks * in[0].shape[0], in[0].shape[1]}}};
}

/// One process.
void ref_gather_ranks(Reference& r) {
  for (size_t i = 0; i < r.out[0].size(); ++i) r.out[0][i] = r.in[0][i % r.in[0].size()];
}

std::vector<Case> gather_ranks_cases() {
  const auto of = [](const char* name, const Shape& shape, int64_t ranks) {
    return Case{name, {shape}, {{"ranks", ranks}}};
  };
  return {of("alone", {3, 5}, 1), of("two", {37, 24}, 2), of("three, one row", {1, 768}, 3)};
}

Cost gather_ranks_cost(const Node& node, const Program& program) {
  return {.bytes = static_cast<double>(bytes_of(program.type(node.in[0]))) +
                   static_cast<double>(bytes_of(program.type(node.out[0])))};
}

/// Each rank has a loss of all rows; the gradient is that of the sum of these losses.
std::vector<Value> gather_ranks_gradient(const Grad& g) {
  const int64_t rank = g.node.attrs.i("rank");
  const Type own = g.in(0).type();
  const auto part = [&](Value all, int64_t of) { return slice(all, of * elements(own), own.shape); };
  const Value flat = concat({g.dout[0]});
  if (rank >= 0) return {part(g.program.emit(all_reduce, {flat}, {{"bf16", false}})[0], rank)};
  Value sum = part(flat, 0);
  for (int64_t other = 1; other < g.node.attrs.i("ranks"); ++other) sum = add(sum, part(flat, other));
  return {sum};
}

}  // namespace

/// The x of every rank of the backend's process group (Backend::group), one after the other by rank; without
/// a group, x that many times.  Every rank runs it with an x of the same shape.
/// rank: of this process, for the gradient; -1: there is no group.
const OpDef gather_ranks{
    .name = "gather_ranks",
    .signature = "x[n,c]:f32 -> all[m,c]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"ranks", int64_t{1}}, {"rank", int64_t{-1}}},
    .infer = infer_gather_ranks,
    .gradient = gather_ranks_gradient,
    .reference = ref_gather_ranks,
    .cases = gather_ranks_cases,
    .bound = {.ulp = 0},
    .cost = gather_ranks_cost,
};

}  // namespace lathe::op
