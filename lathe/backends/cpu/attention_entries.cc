#include <algorithm>

#include "lathe/backends/cpu/attention.h"
#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/qkv_heads.h"

namespace lathe::cpu {
namespace {

/// The inputs that forward and backward share begin at different places.
struct Places {
  int qkv, cu, row_ids, rng;
};
constexpr Places kForward{0, 1, 2, 3}, kBackward{1, 4, 5, 6};

QkvHeads heads_of(const Node& node, const Type& qkv) {
  return qkv_heads(node.op->name, qkv.shape[1], node.attrs);
}

/// Tokens of a row that memory is planned for.
int64_t longest_of(const Node& node, const Type& qkv) {
  const int64_t longest = node.attrs.i("longest"), tokens = qkv.shape[0];
  return longest == 0 ? tokens : std::min(longest, tokens);
}

void check_rows(const Call& c, const Places& at) {
  const int32_t* cu = c.input<int32_t>(at.cu);
  const int64_t longest = longest_of(c.node, c.in_type(at.qkv)), rows = c.cols(at.row_ids);
  for (int64_t row = 0; row < rows; ++row)
    if (cu[row + 1] - cu[row] > longest)
      fail(ErrorCode::kShape, "attention: row {} has {} tokens, expected at most {}", row,
           cu[row + 1] - cu[row], longest);
}

Attention describe(const Call& c, const Places& at) {
  const auto* rng = c.input<uint32_t>(at.rng);
  Attention a;
  a.t = c.in_type(at.qkv).dtype;
  a.tokens = c.rows(at.qkv);
  a.sequences = c.cols(at.row_ids);
  const QkvHeads of = heads_of(c.node, c.in_type(at.qkv));
  a.heads = of.heads;
  a.kv_heads = of.kv_heads;
  a.width = of.width;
  a.qkv_stride = c.ld(at.qkv);
  a.out_stride = c.node.op == &op::attention ? c.ld_out(0) : c.ld(0);
  a.scale = static_cast<float>(c.node.attrs.f("scale"));
  a.causal = c.node.attrs.b("causal");
  a.window = c.node.attrs.i("window");
  a.results_are_cold = c.out_is_cold;
  a.cu = c.input<int32_t>(at.cu);
  a.sample_ids = c.input<int32_t>(at.row_ids);
  a.dropout =
      dropout_rule(rng[0], rng[1], static_cast<uint32_t>(c.node.attrs.i("site")), c.node.attrs.f("p"));
  return a;
}

/// k (part 1) or v (2) of the first token, or their gradients.
template <typename Byte>
Byte* part_of(const Attention& a, int part, Byte* qkv) {
  return qkv + static_cast<size_t>((a.heads + (part - 1) * a.kv_heads) * a.width) * size_of(a.t);
}

void run_attention(const Call& c) {
  check_rows(c, kForward);
  const Attention a = describe(c, kForward);
  const std::byte* qkv = c.in[0];
  attention(c.pool, c.isa, a, qkv, part_of(a, 1, qkv), part_of(a, 2, qkv), c.out[0], c.output<float>(1),
            c.workspace);
}

void run_attention_bwd(const Call& c) {
  check_rows(c, kBackward);
  const Attention a = describe(c, kBackward);
  const std::byte* qkv = c.in[1];
  std::byte* dqkv = c.out[0];
  attention_bwd(c.pool, c.isa, a, c.in[0], qkv, part_of(a, 1, qkv), part_of(a, 2, qkv), c.in[2],
                c.input<float>(3), dqkv, part_of(a, 1, dqkv), part_of(a, 2, dqkv), c.workspace);
}

size_t forward_workspace(const Node& node, const Program& program, Isa isa, int threads) {
  const Type& qkv = program.type(node.in[kForward.qkv]);
  return attention_workspace_bytes(isa, qkv.dtype, longest_of(node, qkv), heads_of(node, qkv).width, threads);
}

size_t backward_workspace(const Node& node, const Program& program, Isa isa, int threads) {
  const Type& qkv = program.type(node.in[kBackward.qkv]);
  const QkvHeads of = heads_of(node, qkv);
  return attention_bwd_workspace_bytes(isa, qkv.dtype, longest_of(node, qkv), of.width, of.group(), threads);
}

bool accepts(const Node& node, const Program& program) {
  const Places& at = node.op == &op::attention ? kForward : kBackward;
  return heads_of(node, program.type(node.in[static_cast<size_t>(at.qkv)])).width <= 256;
}

}  // namespace

std::vector<Entry> attention_entries() {
  return {{.op = &op::attention,
           .run = run_attention,
           .workspace_bytes = forward_workspace,
           .accepts = accepts,
           .gaps_in = 0b1,
           .gaps_out = 0b1},
          {.op = &op::attention_bwd,
           .run = run_attention_bwd,
           .workspace_bytes = backward_workspace,
           .accepts = accepts,
           .apart = true,
           .gaps_in = 0b111,
           .gaps_out = 0b1}};
}

}  // namespace lathe::cpu
