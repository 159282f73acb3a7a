// add, mul, scale, cast, activations, mean.
#include <algorithm>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/core/float16.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/reduce.h"

namespace lathe::cpu {
namespace {

using Unary = void (Rows::*)(DType, Rows::Size, const void*, void*) const;
using Binary = void (Rows::*)(DType, Rows::Size, const void*, const void*, void*) const;

template <Unary kMethod>
void unary(const Call& c) {
  (Rows(c.pool, c.isa).*kMethod)(c.in_type(0).dtype, c.size(0), c.in[0], c.out[0]);
}

template <Binary kMethod>
void binary(const Call& c) {
  (Rows(c.pool, c.isa).*kMethod)(c.in_type(0).dtype, c.size(0), c.in[0], c.in[1], c.out[0]);
}

void run_gelu(const Call& c) {
  Rows(c.pool, c.isa).gelu(c.in_type(0).dtype, c.size(0), c.in[0], c.out[0], c.out_is_cold);
}

Activation activation_of(const Call& c) {
  const std::string& name = c.node.attrs.s("activation");
  return name == "silu" ? Activation::kSilu : name == "gelu" ? Activation::kGelu : Activation::kGeluTanh;
}

void run_gated(const Call& c) {
  Rows(c.pool, c.isa)
      .gated(c.in_type(0).dtype, activation_of(c), {c.rows(0), c.cols(0) / 2, c.ld_out(0)}, c.in[0], c.out[0],
             c.ld(0));
}

void run_gated_bwd(const Call& c) {
  Rows(c.pool, c.isa)
      .gated_bwd(c.in_type(0).dtype, activation_of(c), c.size(0), c.in[0], c.in[1], c.out[0], c.ld(1));
}

void run_scale(const Call& c) {
  Rows(c.pool, c.isa)
      .scale(c.in_type(0).dtype, c.size(0), c.in[0], static_cast<float>(c.node.attrs.f("factor")), c.out[0]);
}

void run_cast(const Call& c) {
  Rows(c.pool, c.isa)
      .cast(c.in_type(0).dtype, c.out_type(0).dtype, c.size(0), c.in[0], c.out[0], c.ld_out(0));
}

/// Column sums of x seen as rows of one vector width, then their sum: blocked and in a fixed order.
constexpr int64_t kLanes = 16;

Rows::Size lanes_of(int64_t n) { return {n / kLanes, kLanes}; }

size_t mean_workspace(const Node& node, const Program& program, Isa, int) {
  return kLanes * sizeof(float) +
         Rows::column_sums_workspace_bytes(lanes_of(elements(program.type(node.in[0]))));
}

void run_mean(const Call& c) {
  const int64_t n = elements(c.in_type(0));
  const Rows::Size size = lanes_of(n);
  const DType dtype = c.in_type(0).dtype;
  float* sums = reinterpret_cast<float*>(c.workspace);
  Rows(c.pool, c.isa).column_sums(dtype, size, c.in[0], sums, c.workspace + kLanes * sizeof(float));
  double total = 0;
  for (int64_t i = 0; i < kLanes; ++i) total += sums[i];
  for (int64_t i = size.rows * kLanes; i < n; ++i)
    total += dtype == DType::f32    ? c.input<float>(0)[i]
             : dtype == DType::bf16 ? to_float(c.input<bf16>(0)[i])
                                    : to_float(c.input<f16>(0)[i]);
  *c.output<float>(0) = static_cast<float>(total / static_cast<double>(n));
}

void run_mean_bwd(const Call& c) {
  const int64_t n = elements(c.out_type(0));
  const float dx = *c.input<float>(0) / static_cast<float>(n);
  c.pool.run([&](int part, int parts) {
    const Share s = share(n, part, parts);
    const auto fill = [&](auto* out, auto value) { std::fill(out + s.begin, out + s.end, value); };
    switch (c.out_type(0).dtype) {
      case DType::bf16:
        return fill(c.output<bf16>(0), to_bf16(dx));
      case DType::f16:
        return fill(c.output<f16>(0), to_f16(dx));
      default:
        return fill(c.output<float>(0), dx);
    }
  });
}

}  // namespace

std::vector<Entry> elementwise_entries() {
  const std::vector<InPlace> x = {{0, 0}}, a_or_b = {{0, 0}, {0, 1}};
  const auto unary_entry = [&](const OpDef& op, void (*run)(const Call&)) {
    return Entry{.op = &op, .run = run, .may_overwrite = x, .gaps_in = 0b1, .gaps_out = 0b1};
  };
  const auto binary_entry = [&](const OpDef& op, void (*run)(const Call&)) {
    return Entry{.op = &op, .run = run, .may_overwrite = a_or_b, .gaps_in = 0b11, .gaps_out = 0b1};
  };
  return {binary_entry(op::add, binary<&Rows::add>),
          binary_entry(op::mul, binary<&Rows::mul>),
          unary_entry(op::scale, run_scale),
          {.op = &op::cast, .run = run_cast, .gaps_in = 0b1, .gaps_out = 0b1},
          unary_entry(op::relu, unary<&Rows::relu>),
          binary_entry(op::relu_bwd, binary<&Rows::relu_bwd>),
          unary_entry(op::tanh, unary<&Rows::tanh>),
          binary_entry(op::tanh_bwd, binary<&Rows::tanh_bwd>),
          unary_entry(op::gelu, run_gelu),
          binary_entry(op::gelu_bwd, binary<&Rows::gelu_bwd>),
          {.op = &op::gated, .run = run_gated, .gaps_in = 0b1, .gaps_out = 0b1},
          {.op = &op::gated_bwd,
           .run = run_gated_bwd,
           .may_overwrite = {{0, 1}},
           .gaps_in = 0b11,
           .gaps_out = 0b1},
          {&op::mean, run_mean, mean_workspace},
          {&op::mean_bwd, run_mean_bwd}};
}

}  // namespace lathe::cpu
