// What computes a gradient, fused with the weight gradient of the layer that it goes to: the kernel over the
// rows gives the bias's gradient along with what it stores, and the product that of the weight alone.
#include <algorithm>

#include "lathe/backends/cuda/dropout_call.h"
#include "lathe/backends/cuda/kernels/column_sums.h"
#include "lathe/backends/cuda/kernels/plain_product.h"
#include "lathe/backends/cuda/kernels/rows.h"
#include "lathe/backends/cuda/products.h"
#include "lathe/ops/ops.h"

namespace lathe::cuda {
namespace {

RowsSize size_of_value(const Type& type) { return {elements(type) / type.shape.back(), type.shape.back()}; }

/// First parts: outputs that hold the layer's gradient and dw, what they launch and its workspace.
struct NormRows {
  static constexpr size_t kStored = 3, kWeight = 4;
  static void launch(const Call& c) {
    layer_norm_dropout_bwd(c.stream, c.in_type(0).dtype, size_of_value(c.in_type(0)), dropout_rule(c, 7),
                           c.input<int32_t>(5), c.input<int32_t>(6), c.in[0], c.in[1], c.input<float>(2),
                           c.input<float>(3), c.input<float>(4), c.out[0], c.out[3], c.output<float>(1),
                           c.output<float>(2), c.output<float>(5), c.workspace);
  }
  static size_t workspace_bytes(RowsSize s) { return layer_norm_bwd_workspace_bytes(s); }
};

struct GeluRows {
  static constexpr size_t kStored = 0, kWeight = 1;
  static void launch(const Call& c) {
    const RowsSize s = size_of_value(c.in_type(0));
    gelu_bwd_sums(c.stream, c.in_type(0).dtype, s.rows, s.cols, c.in[0], c.in[1], c.out[0],
                  c.output<float>(2), c.workspace);
  }
  static size_t workspace_bytes(RowsSize s) { return column_sums_workspace_bytes(s.rows, s.cols); }
};

/// dw[N,K] = dy[M,N]ᵀ · a[M,K], with dy the output kStored and a the last input.
template <typename Rows>
Product product(const Node& node, const Program& program) {
  const RowsSize dy = size_of_value(program.type(node.out[Rows::kStored]));
  const Type& a = program.type(node.in.back());
  Product p;
  p.m = dy.cols, p.n = a.shape.back(), p.k = dy.rows;
  p.type = a.dtype, p.c_type = DType::f32;
  p.a_transposed = true;
  return p;
}

template <typename Rows>
Product addressed(const Call& c) {
  Product p = product<Rows>(c.node, c.program);
  p.a = c.out[Rows::kStored], p.b = c.in.back(), p.c = c.out[Rows::kWeight];
  return p;
}

/// The parts run one after another, so they share it.
template <typename Rows>
size_t workspace_bytes(const Node& node, const Program& program) {
  const Product p = product<Rows>(node, program);
  return std::max({Rows::workspace_bytes(size_of_value(program.type(node.in[0]))),
                   Products::workspace_bytes(p), plain_product_workspace_bytes(p)});
}

template <typename Rows>
bool library_accepts(const Node& node, const Program& program) {
  return Products::accepts(product<Rows>(node, program));
}
template <typename Rows>
void prepare(const Call& c) {
  c.products.prepare(c.stream, addressed<Rows>(c), c.workspace);
}
template <typename Rows>
void run_library(const Call& c) {
  Rows::launch(c);
  c.products.launch(c.beside(), addressed<Rows>(c), c.workspace);
}
template <typename Rows>
void run_plain(const Call& c) {
  Rows::launch(c);
  plain_product(c.beside(), addressed<Rows>(c), c.workspace);
}

template <typename Rows>
void add(std::vector<Entry>& entries, const OpDef& op) {
  constexpr uint32_t kLate = 1u << Rows::kWeight;
  entries.push_back({&op, "cublaslt", run_library<Rows>, workspace_bytes<Rows>, library_accepts<Rows>,
                     prepare<Rows>, kLate});
  entries.push_back({&op, "plain", run_plain<Rows>, workspace_bytes<Rows>, nullptr, nullptr, kLate});
}

}  // namespace

std::vector<Entry> fused_weight_entries() {
  std::vector<Entry> entries;
  add<NormRows>(entries, op::layer_norm_dropout_bwd_weight);
  add<GeluRows>(entries, op::gelu_bwd_weight);
  return entries;
}

}  // namespace lathe::cuda
