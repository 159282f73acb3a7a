#pragma once
#include "lathe/program/program.h"

namespace lathe {

// Ordinary calls for model code: each appends one node to the program of its arguments.  Shapes as in the op.
// Errors: kShape where they are others or an argument is missing.

Value add(Value a, Value b);
Value scale(Value x, double factor);
/// Converts to the dtype; gives x itself if it has it.
Value cast(Value x, DType dtype);
Value relu(Value x);
Value gelu(Value x);
Value tanh(Value x);
/// x [.., 2 n] → [.., n]: the activation of the first half times the second half.  activation: gelu, silu or
/// gelu_tanh
Value gated(Value x, const char* activation);
Value mean(Value x);
/// x [N, c], cu [B+1] → [B, c]: the mean of each row of tokens
Value segment_mean(Value x, Value cu);
/// x [N, c], first [B], cu [B+1] → [B, c]: the sum of each row's tokens from `first` on, weighted as
/// op::segment_sum does by the name of `weights`
Value segment_sum(Value x, Value first, Value cu, const char* weights);
/// The same, the greatest by column
Value segment_max(Value x, Value first, Value cu);
/// x [.., n], each row divided by its Euclidean length
Value l2_normalize(Value x);
/// qkv [N, (heads + 2 kv_heads) · width], positions [N]: q and k turned by their positions.  kv_heads 0: as
/// many; frequencies: a number for each pair of columns of a head; factor: what q and k are multiplied with
Value rotary(Value qkv, Value positions, int64_t heads, int64_t kv_heads, const Numbers& frequencies,
             double factor = 1);
/// The same qkv with q and k of each head divided by their root mean square, times weights [width]
Value head_norm(Value qkv, Value q_weight, Value k_weight, int64_t heads, int64_t kv_heads, double eps,
                bool plus_one = false);
/// x [.., k], w [n, k], b [n] or none → [.., n]
Value linear(Value x, Value w, Value b);
/// The same in 8-bit integers; it has no gradient.
Value linear_int8(Value x, Value w, Value b);
/// The same in fp8, for x in bf16; weights' gradients are those of `linear`.
Value linear_fp8(Value x, Value w, Value b);
/// Whether weights of this type can be multiplied in fp8: tensor cores need widths that are multiples of 16.
bool fits_fp8(const Type& w);
/// x [m, c], w [v, c], b [v] or none, labels [m]: the mean cross entropy over the rows whose label lies in
/// [0, v), and the number of them whose label has the largest logit, i32.  The logits never exist whole;
/// smoothing: the share of a label that is spread evenly over all v.
struct LossAndCorrect {
  Value loss, correct;
};
LossAndCorrect linear_cross_entropy(Value x, Value w, Value b, Value labels, double smoothing = 0);
/// beta: [n] or none
Value layer_norm(Value x, Value gamma, Value beta, double eps);
/// x [.., n], gamma [n]: each row divided by its root mean square, times gamma; plus_one: times 1 + gamma
Value rms_norm(Value x, Value gamma, double eps, bool plus_one = false);
/// x [m, c], ids [n] → [n, c]
Value gather_rows(Value x, Value ids);
/// table [m, c] in any dtype, ids [n] → [n, c] f32.  Row `padding` gets no gradient, −1: every row gets one.
Value look_up(Value table, Value ids, int64_t padding = -1);
/// All elements of the tensors, one tensor after the other, flat: a view where the planner can make it one.
Value concat(const std::vector<Value>& parts);
/// A view of `shape` elements of a flat tensor, x [n].
Value slice(Value x, int64_t offset, const Shape& shape);

}  // namespace lathe
