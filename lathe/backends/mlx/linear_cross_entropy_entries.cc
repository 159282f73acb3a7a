// Cross entropy over the classes of a linear layer, chunk by chunk: each waits for the one before, so that
// only one has its logits in memory.
#include <algorithm>

#include "lathe/backends/mlx/lowering.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear_cross_entropy.h"

namespace lathe::mlx {
namespace vocabulary {
namespace {

/// Adds `more` to what there is.
void add_to(std::optional<mx::array>& sum, const mx::array& more) { sum = sum ? mx::add(*sum, more) : more; }

class Chunks {
 public:
  explicit Chunks(const Call& call)
      : c_(call),
        s_(call.node, call.program),
        weight_(mx::astype(call[s_.x + 1], call.in_dtype(s_.x))),
        wide_(mx::transpose(f32(weight_))),
        labels_(mx::reshape(call[s_.x + 3], {static_cast<int>(s_.m), 1})),
        counts_(mx::logical_and(mx::greater_equal(labels_, mx::array(0)),
                                mx::less(labels_, mx::array(static_cast<int>(s_.v))))),
        count_(mx::maximum(mx::sum(f32(counts_)), number(1))) {}

  Arrays run() {
    for (int64_t first = 0; first < s_.m; first += s_.chunk)
      chunk(static_cast<int>(first), static_cast<int>(std::min(s_.m, first + s_.chunk)));
    Arrays out;
    for (const int id : c_.node.out) {
      const Type& type = c_.program.type(id);
      out.push_back(mx::zeros(shape_of(type.shape), dtype_of(type.dtype)));
    }
    const auto put = [&](int output, const std::optional<mx::array>& found) {
      if (output >= 0 && found) out[static_cast<size_t>(output)] = *found;
    };
    if (s_.is_forward() && s_.m > 0) {
      put(s_.loss, mx::reshape(mx::divide(tree_sum(mx::concatenate(losses_)), count_), {1}));
      put(s_.loss + 1, mx::reshape(mx::sum(mx::astype(mx::concatenate(right_), mx::int32)), {1}));
      put(s_.lse_out, mx::reshape(mx::concatenate(lse_), {-1}));
    }
    if (s_.wants_dx && s_.m > 0) put(s_.dx, mx::concatenate(dx_, 0));
    if (s_.wants_dw) put(s_.dx + 1, dw_);
    if (s_.wants_db) put(s_.dx + 2, db_);
    return out;
  }

 private:
  mx::array rows_of(const mx::array& x, int begin, int end) const {
    return mx::slice(x, {begin, 0}, {end, static_cast<int>(x.shape(1))});
  }

  void chunk(int begin, int end) {
    mx::array x = rows_of(c_[s_.x], begin, end);
    if (!done_.empty()) x = mx::depends({x}, done_)[0];
    done_.clear();
    mx::array z = mx::matmul(f32(x), wide_);
    if (c_.has(s_.x + 2)) z = mx::add(z, c_[s_.x + 2]);
    const mx::array label = rows_of(labels_, begin, end), counts = rows_of(counts_, begin, end);
    const mx::array classes = c_.constants.range(static_cast<int>(s_.v));
    const mx::array lse = s_.is_forward()
                              ? score(z, label, counts, classes)
                              : rows_of(mx::reshape(c_[s_.lse_in], {static_cast<int>(s_.m), 1}), begin, end);
    if (s_.is_backward()) differentiate(x, z, lse, label, counts, classes);
  }

  mx::array score(const mx::array& z, const mx::array& label, const mx::array& counts,
                  const mx::array& classes) {
    const mx::array most = mx::max(z, 1, true);
    const mx::array lse =
        mx::where(counts, mx::add(most, mx::log(row_sums(mx::exp(mx::subtract(z, most))))), number(0));
    const mx::array of_label = mx::sum(mx::where(mx::equal(label, classes), z, number(0)), 1, true);
    mx::array wanted = of_label;
    if (s_.smoothing > 0)
      wanted = mx::add(mx::multiply(number(1 - s_.smoothing), wanted),
                       mx::multiply(number(s_.smoothing / static_cast<double>(s_.v)), row_sums(z)));
    const mx::array before = mx::logical_and(mx::equal(z, of_label), mx::less(classes, label));
    const mx::array above = mx::any(mx::logical_or(mx::greater(z, of_label), before), 1, true);
    losses_.push_back(mx::where(counts, mx::subtract(lse, wanted), number(0)));
    right_.push_back(mx::logical_and(counts, mx::logical_not(above)));
    lse_.push_back(lse);
    done_ = {losses_.back(), right_.back()};
    return lse;
  }

  void differentiate(const mx::array& x, const mx::array& z, const mx::array& lse, const mx::array& label,
                     const mx::array& counts, const mx::array& classes) {
    mx::array wanted = f32(mx::equal(label, classes));
    if (s_.smoothing > 0)
      wanted = mx::add(mx::multiply(number(1 - s_.smoothing), wanted),
                       number(s_.smoothing / static_cast<double>(s_.v)));
    const mx::array slope =
        mx::multiply(mx::divide(c_[s_.dloss], count_), mx::subtract(mx::exp(mx::subtract(z, lse)), wanted));
    const mx::array d = mx::astype(mx::where(counts, slope, number(0)), x.dtype());
    if (s_.wants_dx) {
      dx_.push_back(mx::matmul(d, weight_));
      done_.push_back(dx_.back());
    }
    if (s_.wants_dw) {
      add_to(dw_, mx::matmul(mx::transpose(f32(d)), f32(x)));
      done_.push_back(*dw_);
    }
    if (s_.wants_db) {
      add_to(db_, mx::sum(f32(d), 0));
      done_.push_back(*db_);
    }
  }

  const Call& c_;
  const op::LinearCrossEntropy s_;
  const mx::array weight_, wide_, labels_, counts_, count_;  ///< weight_: in the dtype of x; wide_: its f32
  Arrays losses_, right_, lse_, dx_;                         ///< of each chunk
  std::optional<mx::array> dw_, db_;
  Arrays done_;  ///< what the next chunk waits for
};

Arrays run(const Call& c) { return Chunks(c).run(); }

/// The weight in f32, and rounded where it was not, the sum of dw, and some bytes for each logit of a chunk,
/// as they were measured on MLX's CPU build: it begins the next chunk before it frees all of the last one.
size_t working(const Node& node, const Program& program) {
  const op::LinearCrossEntropy s(node, program);
  const size_t weight = static_cast<size_t>(s.v * s.c), scores = static_cast<size_t>(s.chunk * s.v);
  const bool several = s.m > s.chunk;
  size_t of_weight = several && s.wants_dw ? sizeof(float) : 0;
  if (s.type != DType::f32) of_weight += sizeof(float);
  if (s.w_type != s.type) of_weight += size_of(s.type);
  const size_t of_score = s.is_backward() ? (several ? 46 : 27) : (several ? 31 : 13);
  return weight * of_weight + scores * of_score;
}

}  // namespace
}  // namespace vocabulary

std::vector<Entry> linear_cross_entropy_entries() {
  std::vector<Entry> entries;
  for (const OpDef* op :
       {&op::linear_cross_entropy, &op::linear_cross_entropy_bwd, &op::linear_cross_entropy_with_bwd})
    entries.push_back({op, "chunks", vocabulary::run, nullptr, vocabulary::working});
  return entries;
}

}  // namespace lathe::mlx
