// What each of the processes that train together gives, on all of them.
#include "lathe/ops/all_gather.h"

#include <algorithm>
#include <numeric>

#include "lathe/core/error.h"

namespace lathe::op {
namespace {

std::vector<Type> infer_all_gather(std::span<const Type> in, const Attrs& attrs) {
  const Shape& counts = attrs.shape("counts");
  const size_t rank = static_cast<size_t>(attrs.i("rank"));
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (in[0] != Type{DType::f32, {total}} || rank >= counts.size() ||
      in[1] != Type{DType::f32, {counts[rank]}})
    fail(ErrorCode::kShape, "all_gather: found {} and {}, expected f32[{}] and part {} of {}",
         to_string(in[0]), to_string(in[1]), total, rank, to_string(counts));
  return {in[0]};
}

/// One process: what the others would give stays as it is.
void ref_all_gather(Reference& r) {
  const Shape& counts = r.node.attrs.shape("counts");
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + r.node.attrs.i("rank"), int64_t{0});
  r.out[0] = r.in[0];
  std::copy(r.in[1].begin(), r.in[1].end(), r.out[0].begin() + begin);
}

std::vector<Case> all_gather_cases() {
  const auto of = [](const char* name, const Shape& counts, int64_t rank) {
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    return Case{name, {{total}, {counts[static_cast<size_t>(rank)]}}, {{"counts", counts}, {"rank", rank}}};
  };
  return {of("alone", {37}, 0), of("first", {20, 17}, 0), of("middle", {64, 1000, 4099}, 1),
          of("last", {30000, 40001}, 1)};
}

Cost all_gather_cost(const Node& node, const Program& program) {
  return {.bytes = 2 * static_cast<double>(bytes_of(program.type(node.in[0])))};
}

}  // namespace

/// x with elements [counts[0] + … + counts[rank − 1], … + counts[rank]) from `own`, and those of every other
/// rank of the backend's process group (Backend::group) from what that rank gave; where there is no group
/// they stay.  own may be a view of x.  Every rank runs it with the same counts and its own number.
const OpDef all_gather{
    .name = "all_gather",
    .signature = "x[n]:f32 own[s]:f32 -> all[n]:f32",
    .dtypes = {DType::f32},
    .attrs = {{"counts", Shape{}}, {"rank", int64_t{0}}},
    .infer = infer_all_gather,
    .gradient = not_differentiable,  // it comes after the update
    .reference = ref_all_gather,
    .cases = all_gather_cases,
    .bound = {.ulp = 0},
    .cost = all_gather_cost,
    .in_place = {{0, 0}},
};

}  // namespace lathe::op
