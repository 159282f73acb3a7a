#include "lathe/backends/cpu/attention.h"
#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/ops.h"

namespace lathe::cpu {
namespace {

/// The inputs that forward and backward share begin at different places.
struct Places {
  int q, cu, row_ids, rng;
};
constexpr Places kForward{0, 3, 4, 5}, kBackward{1, 6, 7, 8};

Attention describe(const Call& c, const Places& at) {
  const auto* rng = c.input<uint32_t>(at.rng);
  Attention a;
  a.t = c.in_type(at.q).dtype;
  a.tokens = c.rows(at.q);
  a.sequences = c.cols(at.row_ids);
  a.heads = c.node.attrs.i("heads");
  a.width = c.cols(at.q) / a.heads;
  a.scale = static_cast<float>(c.node.attrs.f("scale"));
  a.cu = c.input<int32_t>(at.cu);
  a.sample_ids = c.input<int32_t>(at.row_ids);
  a.dropout =
      dropout_rule(rng[0], rng[1], static_cast<uint32_t>(c.node.attrs.i("site")), c.node.attrs.f("p"));
  return a;
}

void run_attention(const Call& c) {
  attention(c.pool, c.isa, describe(c, kForward), c.in[0], c.in[1], c.in[2], c.out[0], c.output<float>(1),
            c.workspace);
}

void run_attention_bwd(const Call& c) {
  attention_bwd(c.pool, c.isa, describe(c, kBackward), c.in[0], c.in[1], c.in[2], c.in[3], c.in[4],
                c.input<float>(5), c.out[0], c.out[1], c.out[2], c.workspace);
}

size_t forward_workspace(const Node& node, const Program& program, Isa isa, int threads) {
  const Type& q = program.type(node.in[kForward.q]);
  return attention_workspace_bytes(isa, q.dtype, q.shape[0], q.shape[1] / node.attrs.i("heads"), threads);
}

size_t backward_workspace(const Node& node, const Program& program, Isa isa, int threads) {
  const Type& q = program.type(node.in[kBackward.q]);
  return attention_bwd_workspace_bytes(isa, q.dtype, q.shape[0], q.shape[1] / node.attrs.i("heads"), threads);
}

bool accepts(const Node& node, const Program& program) {
  return program.type(node.in[0]).shape[1] / node.attrs.i("heads") <= 256;
}

}  // namespace

std::vector<Entry> attention_entries() {
  return {{&op::attention, run_attention, forward_workspace, accepts},
          {&op::attention_bwd, run_attention_bwd, backward_workspace, accepts}};
}

}  // namespace lathe::cpu
