// Flat arenas of parameters, gradients and optimizer state: views into them, and the accumulation of
// gradients.
#include "lathe/ops/optimizers/flat.h"

#include <cmath>

#include "lathe/core/error.h"
#include "lathe/ops/elementwise.h"

namespace lathe::op {
namespace {

std::vector<Type> infer_slice(std::span<const Type> in, const Attrs& attrs) {
  if (in[0].shape.size() != 1) fail(ErrorCode::kShape, "slice: x is {}, expected x[n]", to_string(in[0]));
  const int64_t offset = attrs.i("offset"), most = elements(in[0]);
  const Shape& shape = attrs.shape("shape");
  int64_t count = 1;
  bool fits = 0 <= offset && offset <= most;
  for (const int64_t dimension : shape)
    fits = fits && dimension >= 0 && !__builtin_mul_overflow(count, dimension, &count);
  if (!fits || count > most - offset)
    fail(ErrorCode::kShape, "slice: {} from {} on does not lie in {}", to_string(shape), offset,
         to_string(in[0]));
  return {{in[0].dtype, shape}};
}

std::vector<Type> infer_concat(std::span<const Type> in, const Attrs&) {
  int64_t total = 0;
  for (const Type& type : in) {
    if (type.dtype != in[0].dtype)
      fail(ErrorCode::kShape, "concat: found {} next to {}", to_string(type), to_string(in[0]));
    total += elements(type);
  }
  return {{in[0].dtype, {total}}};
}

void ref_slice(Reference& r) {
  const size_t offset = static_cast<size_t>(r.node.attrs.i("offset"));
  for (size_t i = 0; i < r.out[0].size(); ++i) r.out[0][i] = r.in[0][offset + i];
}

void ref_concat(Reference& r) {
  size_t at = 0;
  for (const auto& part : r.in)
    for (double x : part) r.out[0][at++] = x;
}

void ref_accumulate(Reference& r) {
  const double keep = r.in[2][0];
  for (size_t i = 0; i < r.out[0].size(); ++i) {
    const double kept = keep == 0 ? 0 : keep * r.in[0][i];
    r.out[0][i] = kept + r.in[1][i];
    r.magnitude[0][i] = std::abs(kept) + std::abs(r.in[1][i]);
  }
}

/// Zeros, but for the view.
std::vector<Value> gradient_of_slice(const Grad& g) {
  const Type whole = g.in(0).type();
  const int64_t offset = g.node.attrs.i("offset"), end = offset + elements(g.dout[0].type());
  const auto zeros = [&](int64_t begin, int64_t count) {
    const Value part = g.program.emit(op::slice, {g.in(0)}, {{"offset", begin}, {"shape", Shape{count}}})[0];
    return g.program.emit(op::scale, {part}, {{"factor", 0.0}})[0];
  };
  std::vector<Value> parts;
  if (offset > 0) parts.push_back(zeros(0, offset));
  parts.push_back(g.dout[0]);
  if (end < whole.shape[0]) parts.push_back(zeros(end, whole.shape[0] - end));
  return g.program.emit(op::concat, parts);
}

std::vector<Value> gradient_of_concat(const Grad& g) {
  std::vector<Value> parts;
  int64_t at = 0;
  for (size_t i = 0; i < g.node.in.size(); ++i) {
    const Type type = g.in(static_cast<int>(i)).type();
    parts.push_back(g.program.emit(op::slice, {g.dout[0]}, {{"offset", at}, {"shape", type.shape}})[0]);
    at += elements(type);
  }
  return parts;
}

Cost no_cost(const Node&, const Program&) { return {}; }
Cost accumulate_cost(const Node& node, const Program& program) { return elementwise_cost(node, program, 2); }

}  // namespace

/// A view of `shape` elements of a flat tensor.
const OpDef slice{
    .name = "slice",
    .signature = "x[n] -> y[..]:x",
    .attrs = {{"offset", int64_t{0}}, {"shape", Shape{}}},
    .infer = infer_slice,
    .gradient = gradient_of_slice,
    .reference = ref_slice,
    .cases =
        [] {
          return std::vector<Case>{{"middle", {{50}}, {{"offset", int64_t{7}}, {"shape", Shape{4, 5}}}}};
        },
    .bound = {.ulp = 0},
    .cost = no_cost,
    .aliasing = Aliasing::kSlice,
};

/// All inputs, one after the other, in one flat tensor.
const OpDef concat{
    .name = "concat",
    .signature = "x[..] -> y[n]:x",
    .infer = infer_concat,
    .gradient = gradient_of_concat,
    .reference = ref_concat,
    .cases =
        [] {
          return std::vector<Case>{{"three", {{3, 5}, {1}, {17}}}};
        },
    .bound = {.ulp = 0},
    .cost = no_cost,
    .aliasing = Aliasing::kConcat,
};

/// total = keep · total + g.  keep = 0 starts anew and does not read what was there.
const OpDef accumulate{
    .name = "accumulate",
    .signature = "total[n]:f32 g[n]:f32 keep[1]:f32 -> sum[n]:f32",
    .gradient = not_differentiable,
    .reference = ref_accumulate,
    .cases =
        [] {
          return std::vector<Case>{{"odd", {{37}, {37}, {1}}}, {"long", {{4099}, {4099}, {1}}}};
        },
    .bound = {.ulp = 2},
    .cost = accumulate_cost,
    .in_place = {{0, 0}},
};

}  // namespace lathe::op
