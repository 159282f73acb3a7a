// The matrix products: linear and its backward products, and linear in 8-bit integers.
#include <algorithm>

#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/products/gate.h"
#include "lathe/backends/cuda/kernels/products/linear_int8.h"
#include "lathe/backends/cuda/kernels/products/plain_product.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/products.h"
#include "lathe/backends/cuda/rounded_states.h"
#include "lathe/core/ceil_div.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_int8.h"

namespace lathe::cuda {
namespace {

constexpr size_t kAlignment = 256;

int64_t rows_of(const Type& type) { return elements(type) / type.shape.back(); }

bool is_forward(const Node& node) { return node.op == &op::linear || node.op == &op::linear_gelu; }

/// y[M,N] = x[M,K] · W[N,K]ᵀ
Product forward(const Node& node, const Program& program) {
  const Type& x = program.type(node.in[0]);
  const Type& w = program.type(node.in[1]);
  Product p;
  p.m = rows_of(x), p.n = w.shape[0], p.k = w.shape[1];
  p.type = p.c_type = x.dtype;
  p.b_transposed = true;
  return p;
}

/// dx[M,K] = dy[M,N] · W[N,K]
Product input_gradient(const Node& node, const Program& program) {
  const Type& dy = program.type(node.in[0]);
  const Type& w = program.type(node.in[1]);
  Product p;
  p.m = rows_of(dy), p.n = w.shape[1], p.k = w.shape[0];
  p.type = p.c_type = dy.dtype;
  return p;
}

/// dW[N,K] = dy[M,N]ᵀ · x[M,K], and db = Σ dy
Product weight_gradient(const Node& node, const Program& program) {
  const Type& dy = program.type(node.in[0]);
  const Type& x = program.type(node.in[1]);
  Product p;
  p.m = dy.shape.back(), p.n = x.shape.back(), p.k = rows_of(dy);
  p.type = dy.dtype, p.c_type = program.type(node.out[0]).dtype;
  p.a_transposed = true;
  return p;
}

size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

/// The workspace: the product's, then weight and bias, where they are not read as a state or its copy has
/// them.
struct Workspace {
  size_t product = 0, weight = 0, bias = 0;
  size_t total() const { return product + weight + bias; }
};

Workspace workspace(const Node& node, const Program& program, const Product& p) {
  Workspace w;
  w.product = aligned(std::max(Products::workspace_bytes(p), plain_product_workspace_bytes(p)));
  if (p.a_transposed) return w;
  const bool exact = p.type == DType::f32;
  const RoundedInputs copies = rounded_inputs(node, program);
  const auto own = [&](int input) {
    return aligned(static_cast<size_t>(elements(program.type(input))) * size_of(p.type));
  };
  if (program.type(node.in[1]).dtype != p.type && copies.weight < 0) w.weight = own(node.in[1]);
  const int bias = is_forward(node) ? node.in[2] : -1;
  const bool as_it_is = exact ? on_vectors(program, bias, p.type) : copies.bias >= 0;
  if (bias >= 0 && !as_it_is) w.bias = own(bias);
  return w;
}

template <Product (*kDescribe)(const Node&, const Program&)>
size_t workspace_bytes(const Node& node, const Program& program) {
  return workspace(node, program, kDescribe(node, program)).total();
}

/// Whether the weight's state is as it was when the program began.
bool is_settled(const Node& node, const Program& program) {
  const auto place = state_of(program, node.in[1]);
  for (const Node& before : program.nodes()) {
    if (&before == &node) break;
    for (const InPlace& update : before.op->in_place) {
      const auto updated = state_of(program, before.in[static_cast<size_t>(update.in)]);
      if (place && updated && updated->state == place->state) return false;
    }
  }
  return place.has_value();
}

/// The product with its addresses.  What it does not read as it is is written into the workspace.
template <Product (*kDescribe)(const Node&, const Program&)>
Product addressed(const Call& c, bool write) {
  Product p = kDescribe(c.node, c.program);
  const Workspace w = workspace(c.node, c.program, p);
  p.a = c.in[0], p.b = c.in[1], p.c = c.out[0];
  const auto as_read = [&](int input, const void* copy, size_t own_bytes, std::byte* own) -> const void* {
    const void* given = c.in[static_cast<size_t>(input)];
    if (own_bytes == 0) return copy != nullptr ? copy : given;
    if (write) cast(c.stream, DType::f32, p.type, elements(c.in_type(input)), given, own);
    return own;
  };
  if (!p.a_transposed) p.b = as_read(1, c.weight, w.weight, c.workspace + w.product);
  if (is_forward(c.node)) p.bias = as_read(2, c.bias, w.bias, c.workspace + w.product + w.weight);
  p.b_is_settled = w.weight == 0 && is_settled(c.node, c.program);
  if (p.a_transposed) p.a_sums = c.output<float>(1);
  if (c.node.op == &op::linear_bwd_input_add) p.addend = c.in[2];
  if (c.node.op == &op::linear_gelu) p.gelu = c.out[1], p.c_is_read = c.out_is_read;
  return p;
}

template <Product (*kDescribe)(const Node&, const Program&)>
void prepare(const Call& c) {
  c.products.prepare(c.stream, addressed<kDescribe>(c, false), c.workspace);
}
/// Only the end of the step reads gradients of weights: they may come late.
cudaStream_t stream_of(const Call& c, const Product& p) {
  if (!p.a_transposed || c.side == nullptr) return c.stream;
  const cudaStream_t side = c.beside();
  gate(side);
  return side;
}

template <Product (*kDescribe)(const Node&, const Program&)>
void run_library(const Call& c) {
  const Product p = addressed<kDescribe>(c, true);
  c.products.launch(stream_of(c, p), p, c.workspace, c.own);
}
template <Product (*kDescribe)(const Node&, const Program&)>
void run_plain(const Call& c) {
  const Product p = addressed<kDescribe>(c, true);
  plain_product(stream_of(c, p), p, c.workspace);
}
template <Product (*kDescribe)(const Node&, const Program&)>
bool library_accepts(const Node& node, const Program& program) {
  return Products::accepts(kDescribe(node, program));
}

size_t counter_bytes(const Node&, const Program&) { return Products::kCounterBytes; }

template <Product (*kDescribe)(const Node&, const Program&)>
void add_library(std::vector<Entry>& entries, const OpDef& op, uint32_t late_outputs = 0) {
  entries.push_back({.op = &op,
                     .name = "cublaslt",
                     .launch = run_library<kDescribe>,
                     .workspace_bytes = workspace_bytes<kDescribe>,
                     .accepts = library_accepts<kDescribe>,
                     .prepare = prepare<kDescribe>,
                     .late_outputs = late_outputs,
                     .own_bytes = counter_bytes});
}
template <Product (*kDescribe)(const Node&, const Program&)>
void add(std::vector<Entry>& entries, const OpDef& op, uint32_t late_outputs = 0) {
  add_library<kDescribe>(entries, op, late_outputs);
  entries.push_back(
      {&op, "plain", run_plain<kDescribe>, workspace_bytes<kDescribe>, nullptr, nullptr, late_outputs});
}

size_t int8_workspace(const Node& node, const Program& program) {
  const Type& w = program.type(node.in[1]);
  return linear_int8_workspace_bytes(rows_of(program.type(node.in[0])), w.shape[0], w.shape[1]);
}

void run_int8(const Call& c) {
  const Shape& w = c.in_type(1).shape;
  linear_int8(c.stream, c.in_type(0).dtype, c.rows(0), w[0], w[1], c.in[0], c.input<float>(1),
              c.input<float>(2), c.out[0], c.workspace);
}

}  // namespace

std::vector<Entry> product_entries() {
  std::vector<Entry> entries;
  add<forward>(entries, op::linear);
  add<input_gradient>(entries, op::linear_bwd_input);
  add<input_gradient>(entries, op::linear_bwd_input_add);
  add_library<forward>(entries, op::linear_gelu);
  add<weight_gradient>(entries, op::linear_bwd_weight, 0b11);
  add<weight_gradient>(entries, op::linear_bwd_weight_cast, 0b11);
  entries.push_back({&op::linear_int8, "dp4a", run_int8, int8_workspace});
  return entries;
}

}  // namespace lathe::cuda
