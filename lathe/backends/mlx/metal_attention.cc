// Own kernels of attention over packed rows: nothing is padded, and no matrix of scores lies in memory.
#include <cmath>
#include <limits>

#include "lathe/backends/mlx/metal_launch.h"
#include "lathe/core/philox.h"
#include "lathe/ops/attention.h"

namespace lathe::mlx {
namespace {

const MetalKernel kAttention{
    "attention",
    {"qkv", "cu", "row_ids", "rng", "words", "numbers"},
    {"y", "lse"},
#include "lathe/backends/mlx/metal/attention_block.metal"
#include "lathe/backends/mlx/metal/attention_forward.metal"
};
const MetalKernel kAttentionDq{
    "attention_dq",
    {"dy", "qkv", "y", "lse", "cu", "row_ids", "rng", "words", "numbers"},
    {"dq", "delta"},
#include "lathe/backends/mlx/metal/attention_block.metal"
#include "lathe/backends/mlx/metal/attention_dq.metal"
};
const MetalKernel kAttentionDkv{
    "attention_dkv",
    {"dy", "qkv", "lse", "delta", "dq", "cu", "row_ids", "rng", "words", "numbers"},
    {"dqkv"},
#include "lathe/backends/mlx/metal/attention_block.metal"
#include "lathe/backends/mlx/metal/attention_dkv.metal"
};

constexpr int kBlock = 32, kThreads = 128;  // as attention_block.metal has them
constexpr int kSide = 8;
constexpr int kWidest = 64;  // head whose tiles threadgroup memory holds

/// What the kernels of one node share.
struct Packed {
  const Call& c;
  int qkv, row_ids;  // inputs
  int tokens = c.rows(qkv), rows = static_cast<int>(c[row_ids].size());
  int heads = static_cast<int>(c.node.attrs.i("heads")), columns = c.cols(qkv) / 3;
  mx::Dtype dtype = c.in_dtype(qkv);

  mx::array integers() const {
    return words<6>({rows, tokens, heads, c.node.attrs.i("site"), dropout_threshold(c.node.attrs.f("p")),
                     c.node.attrs.i("window")});
  }
  mx::array numbers() const {
    const double scale = c.node.attrs.f("scale");
    const double width = columns / heads;
    return mx::array(
        {static_cast<float>(scale == 0 ? 1 / std::sqrt(width) : scale), dropout_scale(c.node.attrs.f("p"))});
  }
  /// Each row, and the tokens after the last one, may end within a block.
  Grid grid() const { return {(tokens / kBlock + rows + 1) * heads, kThreads}; }
  Templates templates() const { return {{"T", dtype}, {"D", columns / heads}}; }
};

Arrays run_attention(const Call& c) {
  const Packed a{c, 0, 2};
  return launch(kAttention, {c[0], c[1], c[2], c[3], a.integers(), a.numbers()},
                {{a.tokens, a.columns}, {a.heads, a.tokens}}, {a.dtype, mx::float32}, a.grid(),
                a.templates());
}

Arrays run_attention_bwd(const Call& c) {
  const Packed a{c, 1, 5};
  const mx::array integers = a.integers(), numbers = a.numbers();
  const Arrays d =
      launch(kAttentionDq, {c[0], c[1], c[2], c[3], c[4], c[5], c[6], integers, numbers},
             {{a.tokens, a.columns}, {a.heads, a.tokens}}, {a.dtype, mx::float32}, a.grid(), a.templates());
  return launch(kAttentionDkv, {c[0], c[1], c[3], d[1], d[0], c[4], c[5], c[6], integers, numbers},
                {{a.tokens, 3 * a.columns}}, {a.dtype}, a.grid(), a.templates());
}

/// Heads of whole matrices that fit, in tensors whose places 32 bits hold.
template <int kQkv>
bool takes_heads(const Node& node, const Program& program) {
  const Type& qkv = program.type(node.in[kQkv]);
  const int64_t width = qkv.shape[1] / 3 / node.attrs.i("heads");
  return op::is_encoders(node.attrs) && qkv.shape[0] > 0 && width % kSide == 0 && width <= kWidest &&
         elements(qkv) <= std::numeric_limits<int32_t>::max();
}

/// Gradients of the queries, which one kernel of the backward pass gives the other, and a number per query.
size_t between_kernels(const Node& node, const Program& program) {
  return bytes_of(program.type(node.in[2])) + bytes_of(program.type(node.in[3]));
}

}  // namespace

std::vector<OwnKernel> attention_kernels() {
  const std::string common = kMetalCommon;
  return {{{&op::attention, "metal", run_attention, takes_heads<0>}, common + kAttention.body},
          {{&op::attention_bwd, "metal", run_attention_bwd, takes_heads<1>, between_kernels},
           common + kAttentionDq.body + kAttentionDkv.body}};
}

}  // namespace lathe::mlx
