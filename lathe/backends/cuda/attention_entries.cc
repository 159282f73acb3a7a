#include <algorithm>
#include <cmath>

#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/attention/attention.h"
#include "lathe/core/philox.h"
#include "lathe/ops/attention.h"

namespace lathe::cuda {
namespace {

/// The inputs that forward and backward share begin at different places.
struct Places {
  int qkv, cu, row_ids, rng;
};
constexpr Places kForward{0, 1, 2, 3}, kBackward{1, 4, 5, 6};

int64_t width_of(const Node& node, const Type& qkv) { return qkv.shape[1] / 3 / node.attrs.i("heads"); }

const Type& qkv_of(const Node& node, const Program& program) {
  const Places& at = node.op == &op::attention ? kForward : kBackward;
  return program.type(node.in[static_cast<size_t>(at.qkv)]);
}

Attention describe(const Call& c, const Places& at) {
  const double p = c.node.attrs.f("p"), scale = c.node.attrs.f("scale");
  Attention a;
  a.t = c.in_type(at.qkv).dtype;
  a.tokens = c.rows(at.qkv);
  a.rows = c.cols(at.row_ids);
  const int64_t longest = c.program.longest_row();
  a.longest = longest > 0 ? std::min(longest, a.tokens) : a.tokens;
  a.heads = c.node.attrs.i("heads");
  a.width = width_of(c.node, c.in_type(at.qkv));
  a.scale = static_cast<float>(scale == 0 ? 1 / std::sqrt(static_cast<double>(a.width)) : scale);
  // no row is longer than a launch can count
  a.window = static_cast<int>(std::min<int64_t>(c.node.attrs.i("window"), 1 << 30));
  a.cu = c.input<int32_t>(at.cu);
  a.row_ids = c.input<int32_t>(at.row_ids);
  a.dropout = {static_cast<uint32_t>(c.node.attrs.i("site")), dropout_threshold(p), dropout_scale(p),
               c.input<uint32_t>(at.rng)};
  return a;
}

template <auto kernel>
void run_attention(const Call& c) {
  kernel(c.stream, describe(c, kForward), c.in[0], c.out[0], c.output<float>(1));
}

void run_attention_bwd(const Call& c) {
  attention_bwd(c.stream, c.beside(), describe(c, kBackward), c.in[0], c.in[1], c.in[2], c.input<float>(3),
                c.out[0], c.workspace);
  c.join();
}

void run_attention_bwd_plain(const Call& c) {
  attention_bwd_plain(c.stream, describe(c, kBackward), c.in[0], c.in[1], c.in[2], c.input<float>(3),
                      c.out[0], c.workspace);
}

size_t backward_workspace(const Node& node, const Program& program) {
  return attention_bwd_workspace_bytes(qkv_of(node, program).shape[0], node.attrs.i("heads"));
}

bool tensor_cores_accept(const Node& node, const Program& program) {
  const Type& qkv = qkv_of(node, program);
  return op::is_encoders(node.attrs) &&
         attention_on_tensor_cores(qkv.dtype, width_of(node, qkv), node.attrs.i("window") > 0);
}
bool plain_accepts(const Node& node, const Program& program) {
  return op::is_encoders(node.attrs) && width_of(node, qkv_of(node, program)) <= 256;
}

}  // namespace

std::vector<Entry> attention_entries() {
  return {{&op::attention, "tensor cores", run_attention<attention>, nullptr, tensor_cores_accept},
          {&op::attention, "plain", run_attention<attention_plain>, nullptr, plain_accepts},
          {&op::attention_bwd, "tensor cores", run_attention_bwd, backward_workspace, tensor_cores_accept},
          {&op::attention_bwd, "plain", run_attention_bwd_plain, backward_workspace, plain_accepts}};
}

}  // namespace lathe::cuda
