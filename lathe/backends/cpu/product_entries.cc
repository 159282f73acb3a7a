// The matrix products: linear and its backward products.
#include <utility>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/gemm_int8.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_int8.h"

namespace lathe::cpu {
namespace {

int64_t rows_of(const Type& type) { return elements(type) / type.shape.back(); }

/// y[M,N] = x[M,K] · W[N,K]ᵀ
Gemm forward(const Node& node, const Program& program) {
  const Type& x = program.type(node.in[0]);
  const Type& w = program.type(node.in[1]);
  Gemm g;
  g.m = rows_of(x), g.n = w.shape[0], g.k = w.shape[1];
  g.a_type = g.c_type = x.dtype;
  g.b_type = w.dtype;
  g.b_transposed = true;
  g.lda = g.ldb = g.k, g.ldc = g.n;
  return g;
}

/// dx[M,K] = dy[M,N] · W[N,K]
Gemm input_gradient(const Node& node, const Program& program) {
  const Type& dy = program.type(node.in[0]);
  const Type& w = program.type(node.in[1]);
  Gemm g;
  g.m = rows_of(dy), g.n = w.shape[1], g.k = w.shape[0];
  g.a_type = g.c_type = dy.dtype;
  g.b_type = w.dtype;
  g.lda = g.k, g.ldb = g.ldc = g.n;
  return g;
}

/// dW[N,K] = dy[M,N]ᵀ · x[M,K], and db = Σ dy
Gemm weight_gradient(const Node& node, const Program& program) {
  const Type& dy = program.type(node.in[0]);
  const Type& x = program.type(node.in[1]);
  Gemm g;
  g.m = dy.shape.back(), g.n = x.shape.back(), g.k = rows_of(dy);
  g.a_type = g.b_type = dy.dtype;
  g.c_type = program.type(node.out[0]).dtype;
  g.a_transposed = g.c_streams = true;  // all gradients are written before the norm reads this one
  g.lda = g.m, g.ldb = g.ldc = g.n;
  return g;
}

template <Gemm (*kDescribe)(const Node&, const Program&)>
size_t workspace(const Node& node, const Program& program, Isa isa, int threads) {
  Gemm g = kDescribe(node, program);
  g.b_packed = packed_use(node, program, isa).has_value();
  return gemm_workspace_bytes(isa, g, threads);
}

template <Gemm (*kDescribe)(const Node&, const Program&)>
Gemm product(const Call& c) {
  Gemm g = kDescribe(c.node, c.program);
  g.a = c.in[0], g.b = c.in[1], g.c = c.out[0];
  g.lda = c.ld(0);
  if (g.a_transposed)
    g.ldb = c.ld(1);
  else
    g.ldc = c.ld_out(0);
  if (c.packed_weight != nullptr) g.b = c.packed_weight, g.b_packed = true;
  if (c.node.op == &op::linear) g.bias = c.input<float>(2);
  if (c.node.op == &op::linear_bwd_input_add) g.addend = c.in[2];
  if (c.out.size() > 1) g.a_sums = c.output<float>(1);
  g.c_cold = c.out_is_cold;
  g.workspace_cold = c.workspace_is_cold;
  return g;
}

template <Gemm (*kDescribe)(const Node&, const Program&)>
void run_product(const Call& c) {
  gemm(c.pool, c.isa, product<kDescribe>(c), c.workspace);
}

/// The gradient of the input after that of the weight: both read dy.
constexpr WithNext kWithInputs = {
    [](const Node& node, const Node& next) {
      return (next.op == &op::linear_bwd_input || next.op == &op::linear_bwd_input_add) &&
             next.in[0] == node.in[0];
    },
    [](const Call& call, const Call& next) {
      const Gemm products[] = {product<weight_gradient>(call), product<input_gradient>(next)};
      gemm_pair(call.pool, call.isa, products[0], call.workspace, products[1], next.workspace);
    }};

template <Gemm (*kDescribe)(const Node&, const Program&)>
Entry backward(const OpDef& op, uint32_t gaps_in, uint32_t gaps_out, std::vector<InPlace> may_overwrite = {},
               const WithNext* with_next = nullptr) {
  return {.op = &op,
          .run = run_product<kDescribe>,
          .workspace_bytes = workspace<kDescribe>,
          .may_overwrite = std::move(may_overwrite),
          .apart = true,
          .gaps_in = gaps_in,
          .gaps_out = gaps_out,
          .with_next = with_next};
}

template <Gemm (*kDescribe)(const Node&, const Program&)>
bool blas_accepts(const Node& node, const Program& program) {
  return blas_takes(kDescribe(node, program));
}

/// The workspace of the column sums that come with a gradient of weights.
template <Gemm (*kDescribe)(const Node&, const Program&)>
size_t blas_workspace(const Node& node, const Program& program, Isa, int) {
  const Gemm g = kDescribe(node, program);
  return g.a_transposed ? Rows::column_sums_workspace_bytes({g.k, g.m}) : 0;
}

template <Gemm (*kDescribe)(const Node&, const Program&)>
void run_by_blas(const Call& c) {
  const Gemm g = product<kDescribe>(c);
  blas_gemm(*c.blas, c.pool, g);
  if (g.a_sums != nullptr) Rows(c.pool, c.isa).column_sums(g.a_type, {g.k, g.m}, g.a, g.a_sums, c.workspace);
}

template <Gemm (*kDescribe)(const Node&, const Program&)>
Entry by_blas(const OpDef& op) {
  return {&op, run_by_blas<kDescribe>, blas_workspace<kDescribe>, blas_accepts<kDescribe>};
}

/// y[M,N] = x[M,K] · W[N,K]ᵀ in integers
Int8Product int8_forward(const Node& node, const Program& program) {
  const Type& x = program.type(node.in[0]);
  const Type& w = program.type(node.in[1]);
  Int8Product p;
  p.m = rows_of(x), p.n = p.ldy = w.shape[0], p.k = p.ldx = w.shape[1];
  p.type = x.dtype;
  return p;
}

bool int8_accepts(const Node& node, const Program& program) {
  return program.type(node.in[1]).shape[1] <= kInt8MostTerms;
}

size_t int8_workspace(const Node& node, const Program& program, Isa isa, int threads) {
  Int8Product p = int8_forward(node, program);
  p.packed = packed_use(node, program, isa).has_value();
  return int8_workspace_bytes(isa, p, threads);
}

void run_int8(const Call& c) {
  Int8Product p = int8_forward(c.node, c.program);
  p.x = c.in[0], p.w = c.in[1], p.y = c.out[0];
  p.ldx = c.ld(0), p.ldy = c.ld_out(0);
  if (c.packed_weight != nullptr) p.w = c.packed_weight, p.packed = true;
  p.bias = c.input<float>(2);
  int8_product(c.pool, c.isa, p, c.workspace);
}

}  // namespace

std::vector<Entry> product_entries() {
  return {{.op = &op::linear,
           .run = run_product<forward>,
           .workspace_bytes = workspace<forward>,
           .gaps_in = 0b1,
           .gaps_out = 0b1},
          backward<input_gradient>(op::linear_bwd_input, 0b1, 0b1),
          backward<input_gradient>(op::linear_bwd_input_add, 0b101, 0b1, {{0, 2}}),
          backward<weight_gradient>(op::linear_bwd_weight, 0b11, 0, {}, &kWithInputs),
          backward<weight_gradient>(op::linear_bwd_weight_cast, 0b11, 0, {}, &kWithInputs),
          {.op = &op::linear_int8,
           .run = run_int8,
           .workspace_bytes = int8_workspace,
           .accepts = int8_accepts,
           .gaps_in = 0b1,
           .gaps_out = 0b1}};
}

std::vector<Entry> blas_entries() {
  return {by_blas<forward>(op::linear), by_blas<input_gradient>(op::linear_bwd_input),
          by_blas<input_gradient>(op::linear_bwd_input_add), by_blas<weight_gradient>(op::linear_bwd_weight)};
}

}  // namespace lathe::cpu
