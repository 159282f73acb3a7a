// add, mul, scale, cast, activations, mean.
#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/ops/elementwise.h"
#include "lathe/ops/reduce.h"

namespace lathe::cuda {
namespace {

using Unary = void (*)(cudaStream_t, DType, int64_t, const void*, void*);
using Binary = void (*)(cudaStream_t, DType, int64_t, const void*, const void*, void*);

template <Unary kKernel>
void unary(const Call& c) {
  kKernel(c.stream, c.in_type(0).dtype, elements(c.in_type(0)), c.in[0], c.out[0]);
}

template <Binary kKernel>
void binary(const Call& c) {
  kKernel(c.stream, c.in_type(0).dtype, elements(c.in_type(0)), c.in[0], c.in[1], c.out[0]);
}

void run_gated(const Call& c) {
  geglu(c.stream, c.in_type(0).dtype, c.rows(0), c.cols(0) / 2, c.in[0], c.out[0]);
}

void run_gated_bwd(const Call& c) {
  geglu_bwd(c.stream, c.in_type(0).dtype, c.rows(0), c.cols(0), c.in[0], c.in[1], c.out[0]);
}

bool is_gelu(const Node& node, const Program&) { return node.attrs.s("activation") == "gelu"; }

void run_scale(const Call& c) {
  scale(c.stream, c.in_type(0).dtype, elements(c.in_type(0)), c.in[0],
        static_cast<float>(c.node.attrs.f("factor")), c.out[0]);
}

void run_cast(const Call& c) {
  cast(c.stream, c.in_type(0).dtype, c.out_type(0).dtype, elements(c.in_type(0)), c.in[0], c.out[0]);
}

size_t mean_workspace(const Node& node, const Program& program) {
  return mean_workspace_bytes(elements(program.type(node.in[0])));
}

void run_mean(const Call& c) {
  mean(c.stream, c.in_type(0).dtype, elements(c.in_type(0)), c.in[0], c.output<float>(0), c.workspace);
}

void run_mean_bwd(const Call& c) {
  mean_bwd(c.stream, c.out_type(0).dtype, elements(c.out_type(0)), c.input<float>(0), c.out[0]);
}

}  // namespace

std::vector<Entry> elementwise_entries() {
  return {{&op::add, "map", binary<&add>},
          {&op::mul, "map", binary<&mul>},
          {&op::scale, "map", run_scale},
          {&op::cast, "map", run_cast},
          {&op::relu, "map", unary<&relu>},
          {&op::relu_bwd, "map", binary<&relu_bwd>},
          {&op::tanh, "map", unary<&tanh>},
          {&op::tanh_bwd, "map", binary<&tanh_bwd>},
          {&op::gelu, "map", unary<&gelu>},
          {&op::gelu_bwd, "map", binary<&gelu_bwd>},
          {&op::gated, "elements", run_gated, nullptr, is_gelu},
          {&op::gated_bwd, "elements", run_gated_bwd, nullptr, is_gelu},
          {&op::mean, "blocks", run_mean, mean_workspace},
          {&op::mean_bwd, "map", run_mean_bwd}};
}

}  // namespace lathe::cuda
