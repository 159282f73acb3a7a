#include "lathe/backends/mlx/metal_kernels.h"

#include <algorithm>

#include "lathe/backends/mlx/metal_launch.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/philox.h"
#include "lathe/ops/fused.h"

namespace lathe::mlx {
namespace {

const MetalKernel kDropoutAddLayerNorm{
    "dropout_add_layer_norm",
    {"x", "r", "sample_ids", "positions", "rng", "gamma", "beta", "words", "numbers"},
    {"sum", "y", "mean", "rstd"},
#include "lathe/backends/mlx/metal/dropout_add_layer_norm.metal"
};
const MetalKernel kLayerNormDropoutBwd{
    "layer_norm_dropout_bwd",
    {"dy", "x", "gamma", "mean", "rstd", "sample_ids", "positions", "rng", "words", "numbers"},
    {"dx", "dd", "gamma_parts", "beta_parts"},
#include "lathe/backends/mlx/metal/layer_norm_dropout_bwd.metal"
};
const MetalKernel kSumParts{
    "sum_parts",
    {"gamma_parts", "beta_parts", "words"},
    {"dgamma", "dbeta"},
#include "lathe/backends/mlx/metal/sum_parts.metal"
};

constexpr int kLanes = 32, kRun = 8;  // as common.metal has them
constexpr int kSimdgroups = 8;        // of a threadgroup
constexpr int kThreads = kSimdgroups * kLanes;
constexpr int kRows = 4;                     // of a simdgroup in the backward pass, at least
constexpr int kParts = 64;                   // threadgroups of the backward pass, at most
constexpr int kColumns = 4 * kLanes * kRun;  // four runs a lane, which registers hold

/// Starts `groups` threadgroups.  templates: T and K of the body, where it has them.
Arrays launch(const MetalKernel& kernel, const Arrays& in, const std::vector<mx::Shape>& shapes,
              const std::vector<mx::Dtype>& dtypes, int groups, const Templates& templates) {
  return launch(kernel, in, shapes, dtypes, {groups, kThreads}, templates);
}

Arrays run_dropout_add_layer_norm(const Call& c) {
  const int rows = c.rows(0), cols = c.cols(0);
  const double p = c.node.attrs.f("p");
  const mx::array w = words<6>(
      {rows, cols, c.node.attrs.i("site"), dropout_threshold(p), c.has(3) ? 1 : 0, c.has(6) ? 1 : 0});
  const mx::array numbers({static_cast<float>(c.node.attrs.f("eps")), dropout_scale(p)});
  const mx::Dtype dtype = c.in_dtype(0);
  return launch(kDropoutAddLayerNorm,
                {c[0], c[1], c[2], c.has(3) ? c[3] : c[2], c[4], c[5], c.has(6) ? c[6] : c[5], w, numbers},
                {{rows, cols}, {rows, cols}, {rows}, {rows}}, {dtype, dtype, mx::float32, mx::float32},
                ceil_div(rows, kSimdgroups), {{"T", dtype}, {"K", ceil_div(cols, kLanes * kRun)}});
}

Arrays run_layer_norm_dropout_bwd(const Call& c) {
  const int rows = c.rows(0), cols = c.cols(0), parts = std::min(kParts, ceil_div(rows, kSimdgroups * kRows));
  const double p = c.node.attrs.f("p");
  const mx::array w =
      words<6>({rows, cols, c.node.attrs.i("site"), dropout_threshold(p), c.has(6) ? 1 : 0, parts});
  const mx::array numbers({dropout_scale(p)});
  const mx::Dtype dtype = c.in_dtype(0);
  const Arrays d = launch(
      kLayerNormDropoutBwd, {c[0], c[1], c[2], c[3], c[4], c[5], c.has(6) ? c[6] : c[5], c[7], w, numbers},
      {{rows, cols}, {rows, cols}, {parts, cols}, {parts, cols}}, {dtype, dtype, mx::float32, mx::float32},
      parts, {{"T", dtype}, {"K", ceil_div(cols, kLanes * kRun)}});
  const Arrays sums = launch(kSumParts, {d[2], d[3], words<2>({parts, cols})}, {{cols}, {cols}},
                             {mx::float32, mx::float32}, ceil_div(cols, kThreads), {});
  return {d[0], sums[0], sums[1], d[1]};
}

/// Rows that fit a simdgroup's registers, in tensors whose places 32 bits hold.
bool takes_rows(const Node& node, const Program& program) {
  const Type& x = program.type(node.in[0]);
  return x.shape[0] > 0 && x.shape[1] <= kColumns && elements(x) <= std::numeric_limits<int32_t>::max();
}

}  // namespace

std::vector<OwnKernel> own_kernels() {
  const std::string common = kMetalCommon;
  std::vector<OwnKernel> all = attention_kernels();
  all.push_back({{&op::dropout_add_layer_norm, "metal", run_dropout_add_layer_norm, takes_rows},
                 common + kDropoutAddLayerNorm.body});
  all.push_back({{&op::layer_norm_dropout_bwd, "metal", run_layer_norm_dropout_bwd, takes_rows},
                 common + kLayerNormDropoutBwd.body + kSumParts.body});
  return all;
}

std::string kernel_key(const OwnKernel& kernel, const std::string& chip) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : kernel.text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return fmt::format("{}, MLX {}, {} {:016x}", chip, mx::version(), kernel.entry.op->name, hash);
}

}  // namespace lathe::mlx
