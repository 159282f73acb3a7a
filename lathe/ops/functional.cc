#include "lathe/ops/functional.h"

#include "lathe/ops/elementwise.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_cross_entropy.h"
#include "lathe/ops/linear_fp8.h"
#include "lathe/ops/linear_int8.h"
#include "lathe/ops/norms/head_norm.h"
#include "lathe/ops/norms/layer_norm.h"
#include "lathe/ops/norms/rms_norm.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/pooling.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/rotary.h"
#include "lathe/ops/rows.h"
#include "lathe/ops/segment_mean.h"

namespace lathe {
namespace {

Value one(const OpDef& op, const std::vector<Value>& in, const Attrs& attrs = {}) {
  return emit(op, in, attrs)[0];
}

}  // namespace

Value add(Value a, Value b) { return one(op::add, {a, b}); }
Value scale(Value x, double factor) { return one(op::scale, {x}, {{"factor", factor}}); }
Value cast(Value x, DType dtype) {
  return x.type().dtype == dtype ? x : one(op::cast, {x}, {{"to", std::string(name_of(dtype))}});
}
Value relu(Value x) { return one(op::relu, {x}); }
Value gelu(Value x) { return one(op::gelu, {x}); }
Value tanh(Value x) { return one(op::tanh, {x}); }
Value gated(Value x, const char* activation) {
  return one(op::gated, {x}, {{"activation", std::string(activation)}});
}
Value mean(Value x) { return one(op::mean, {x}); }
Value segment_mean(Value x, Value cu) { return one(op::segment_mean, {x, cu}); }
Value segment_sum(Value x, Value first, Value cu, const char* weights) {
  return one(op::segment_sum, {x, first, cu}, {{"weights", std::string(weights)}});
}
Value segment_max(Value x, Value first, Value cu) { return one(op::segment_max, {x, first, cu}); }
Value l2_normalize(Value x) { return one(op::l2_normalize, {x}); }
Value rotary(Value qkv, Value positions, int64_t heads, int64_t kv_heads, const Numbers& frequencies,
             double factor) {
  return one(op::rotary, {qkv, positions},
             {{"heads", heads}, {"kv_heads", kv_heads}, {"frequencies", frequencies}, {"factor", factor}});
}
Value head_norm(Value qkv, Value q_weight, Value k_weight, int64_t heads, int64_t kv_heads, double eps,
                bool plus_one) {
  return one(op::head_norm, {qkv, q_weight, k_weight},
             {{"heads", heads}, {"kv_heads", kv_heads}, {"eps", eps}, {"plus_one", plus_one}});
}
Value linear(Value x, Value w, Value b) { return one(op::linear, {x, w, b}); }
Value linear_int8(Value x, Value w, Value b) { return one(op::linear_int8, {x, w, b}); }
Value linear_fp8(Value x, Value w, Value b) { return one(op::linear_fp8, {x, w, b}); }
bool fits_fp8(const Type& w) { return w.shape[0] % 16 == 0 && w.shape[1] % 16 == 0; }
LossAndCorrect linear_cross_entropy(Value x, Value w, Value b, Value labels, double smoothing) {
  const auto out = emit(op::linear_cross_entropy, {x, w, b, labels}, {{"smoothing", smoothing}});
  return {out[0], out[1]};
}
Value layer_norm(Value x, Value gamma, Value beta, double eps) {
  return one(op::layer_norm, {x, gamma, beta}, {{"eps", eps}});
}
Value rms_norm(Value x, Value gamma, double eps, bool plus_one) {
  return one(op::rms_norm, {x, gamma}, {{"eps", eps}, {"plus_one", plus_one}});
}
Value gather_rows(Value x, Value ids) { return one(op::gather_rows, {x, ids}); }
Value look_up(Value table, Value ids, int64_t padding) {
  return one(op::look_up, {table, ids}, {{"padding", padding}});
}
Value concat(const std::vector<Value>& parts) { return one(op::concat, parts); }
Value slice(Value x, int64_t offset, const Shape& shape) {
  return one(op::slice, {x}, {{"offset", offset}, {"shape", shape}});
}

}  // namespace lathe
