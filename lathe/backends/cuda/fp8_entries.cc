// linear in fp8 and the gradient of its input: both operands are quantized into the workspace, the weight
// once per node, which is once per step for each of the two layouts.
#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/products/fp8.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/products.h"
#include "lathe/backends/cuda/rounded_states.h"
#include "lathe/core/ceil_div.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear_fp8.h"

namespace lathe::cuda {
namespace {

constexpr size_t kAlignment = 256;

size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

bool is_forward(const Node& node) { return node.op == &op::linear_fp8; }
bool has_bias(const Node& node) { return is_forward(node) && node.in[2] >= 0; }

/// y[M,N] = x[M,K] · W[N,K]ᵀ, or dx[M,N] = dy[M,K] · (Wᵀ)[N,K]ᵀ
Product describe(const Node& node, const Program& program) {
  const Type& x = program.type(node.in[0]);
  const Type& y = program.type(node.out[0]);
  Product p;
  p.k = x.shape.back(), p.n = y.shape.back(), p.m = elements(x) / p.k;
  p.type = p.c_type = DType::bf16;
  p.e4m3 = true, p.b_transposed = true;
  return p;
}

/// The workspace: the product's, both operands and their scales, the bias where it is not read in a
/// state's copy.
struct Layout {
  size_t a = 0, b = 0, a_scales = 0, b_scales = 0, bias = 0, bytes = 0;
};

Layout layout(const Node& node, const Program& program, const Product& p) {
  const auto m = static_cast<size_t>(p.m), n = static_cast<size_t>(p.n), k = static_cast<size_t>(p.k);
  const bool rounds_bias = has_bias(node) && rounded_inputs(node, program).bias < 0;
  Layout at;
  at.a = aligned(Products::workspace_bytes(p));
  at.b = at.a + aligned(m * k);
  at.a_scales = at.b + aligned(n * k);
  at.b_scales = at.a_scales + aligned(m * sizeof(float));
  at.bias = at.b_scales + aligned(n * sizeof(float));
  at.bytes = at.bias + (rounds_bias ? aligned(n * size_of(p.type)) : 0);
  return at;
}

size_t workspace_bytes(const Node& node, const Program& program) {
  return layout(node, program, describe(node, program)).bytes;
}

bool accepts(const Node& node, const Program& program) { return Products::accepts(describe(node, program)); }

/// The product with its addresses.
Product addressed(const Call& c) {
  Product p = describe(c.node, c.program);
  const Layout at = layout(c.node, c.program, p);
  p.a = c.workspace + at.a, p.b = c.workspace + at.b, p.c = c.out[0];
  p.a_scales = reinterpret_cast<const float*>(c.workspace + at.a_scales);
  p.b_scales = reinterpret_cast<const float*>(c.workspace + at.b_scales);
  if (has_bias(c.node)) p.bias = c.bias != nullptr ? c.bias : c.workspace + at.bias;
  if (c.node.op == &op::linear_fp8_bwd_input_add) p.addend = c.in[2];
  return p;
}

void prepare(const Call& c) { c.products.prepare(c.stream, addressed(c), c.workspace); }

void run(const Call& c) {
  const Product p = addressed(c);
  const Layout at = layout(c.node, c.program, p);
  const auto value = [&](size_t offset) { return reinterpret_cast<uint8_t*>(c.workspace + offset); };
  const auto scales = [&](size_t offset) { return reinterpret_cast<float*>(c.workspace + offset); };
  fp8_rows(c.stream, DType::bf16, p.m, p.k, c.in[0], value(at.a), scales(at.a_scales));
  const void* weight = c.weight != nullptr ? c.weight : c.in[1];
  const DType type = c.weight != nullptr ? DType::bf16 : c.in_type(1).dtype;
  if (is_forward(c.node))
    fp8_rows(c.stream, type, p.n, p.k, weight, value(at.b), scales(at.b_scales));
  else
    fp8_columns(c.stream, type, p.k, p.n, weight, value(at.b), scales(at.b_scales));
  if (has_bias(c.node) && c.bias == nullptr)
    cast(c.stream, DType::f32, DType::bf16, p.n, c.in[2], c.workspace + at.bias);
  c.products.launch(c.stream, p, c.workspace, c.own);
}

}  // namespace

std::vector<Entry> fp8_entries() {
  if (!Products::has_e4m3()) return {};
  std::vector<Entry> entries;
  for (const OpDef* op : {&op::linear_fp8, &op::linear_fp8_bwd_input, &op::linear_fp8_bwd_input_add})
    entries.push_back({.op = op,
                       .name = "cublaslt",
                       .launch = run,
                       .workspace_bytes = workspace_bytes,
                       .accepts = accepts,
                       .prepare = prepare,
                       .own_bytes = [](const Node&, const Program&) { return Products::kCounterBytes; }});
  return entries;
}

}  // namespace lathe::cuda
