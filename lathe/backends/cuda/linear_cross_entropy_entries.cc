// Cross entropy over the classes of a linear layer: a product, then the rows of its logits, then two products
// with what the rows became, chunk by chunk.
#include <algorithm>

#include "lathe/backends/cuda/cuda_impl.h"
#include "lathe/backends/cuda/kernels/losses/linear_cross_entropy.h"
#include "lathe/backends/cuda/kernels/products/plain_product.h"
#include "lathe/backends/cuda/kernels/rows/elementwise.h"
#include "lathe/backends/cuda/products.h"
#include "lathe/core/ceil_div.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear_cross_entropy.h"

namespace lathe::cuda {
namespace vocabulary {
namespace {

/// A node and its products.  Rows of logits, and of d, their gradient, are padded to whole vectors, which
/// most vocabularies are not.
struct Shapes : op::LinearCrossEntropy {
  using LinearCrossEntropy::LinearCrossEntropy;

  int64_t ld() const { return Product::padded(v); }
  /// logits[rows,v] = x · Wᵀ
  Product logits(int64_t rows) const {
    Product p;
    p.m = rows, p.n = v, p.k = c;
    p.type = type;
    p.b_transposed = true;
    p.c_padded = ld() != v;
    return p;
  }
  /// dx[rows,c] = d · W
  Product input_gradient(int64_t rows) const {
    Product p;
    p.m = rows, p.n = c, p.k = v;
    p.type = p.c_type = type;
    p.a_padded = ld() != v;
    return p;
  }
  /// dW[v,c] = dᵀ · x
  Product weight_gradient(int64_t rows) const {
    Product p;
    p.m = v, p.n = c, p.k = rows;
    p.type = type;
    p.a_transposed = true;
    p.a_padded = ld() != v;
    return p;
  }
};

/// The workspace, in bytes from its begin.
struct Places {
  size_t product, weight, logits, d, losses, lse, right, factor, end;

  explicit Places(const Shapes& s) {
    const auto scores = static_cast<size_t>(s.chunk * s.ld()), rows = static_cast<size_t>(s.m);
    size_t at = 0, most = 0;
    const auto take = [&](size_t bytes) {
      const size_t begin = at;
      at += round_up(bytes, size_t{256});
      return begin;
    };
    for (const int64_t n : {std::min(s.chunk, s.m), s.m % s.chunk}) {
      if (n == 0) continue;
      const auto need = [&](const Product& p) {
        most = std::max({most, Products::workspace_bytes(p), plain_product_workspace_bytes(p)});
      };
      need(s.logits(n));
      if (s.wants_dx) need(s.input_gradient(n));
      if (s.wants_dw) need(s.weight_gradient(n));
    }
    product = take(most);
    weight = take(s.w_type == s.type ? 0 : static_cast<size_t>(s.v * s.c) * size_of(s.type));
    logits = take(scores * sizeof(float));
    d = s.type == DType::f32 || !s.is_backward() ? logits : take(scores * size_of(s.type));
    losses = take(rows * sizeof(float));
    lse = take(rows * sizeof(float));
    right = take(rows * sizeof(int32_t));
    factor = take(sizeof(float));
    end = at;
  }
};

size_t workspace(const Node& node, const Program& program) { return Places(Shapes(node, program)).end; }

bool library_accepts(const Node& node, const Program& program) {
  const Shapes s(node, program);
  return Products::accepts(s.logits(s.chunk)) &&
         (!s.wants_dx || Products::accepts(s.input_gradient(s.chunk))) &&
         (!s.wants_dw || Products::accepts(s.weight_gradient(s.chunk)));
}

enum class By { kLibrary, kPlain };

/// Launches a node, or only prepares its products.
class Work {
 public:
  Work(const Call& call, By by, bool prepare)
      : c_(call), s_(call.node, call.program), at_(s_), by_(by), prepare_(prepare) {}

  void run() {
    weight_ = c_.input<std::byte>(s_.x + 1);
    if (s_.w_type != s_.type) {
      std::byte* rounded = place<std::byte>(at_.weight);
      if (!prepare_) cast(c_.stream, s_.w_type, s_.type, s_.v * s_.c, weight_, rounded);
      weight_ = rounded;
    }
    if (s_.is_backward() && !prepare_)
      factor_of_rows(c_.stream, s_.m, s_.v, labels(0), c_.input<float>(s_.dloss), place<float>(at_.factor));
    if (s_.m == 0 && !prepare_) clear();
    for (int64_t first = 0; first < s_.m; first += s_.chunk) chunk(first, std::min(s_.chunk, s_.m - first));
    if (s_.is_forward() && !prepare_)
      join_rows(c_.stream, s_.m, s_.v, labels(0), place<float>(at_.losses), place<int32_t>(at_.right),
                c_.output<float>(s_.loss), c_.output<int32_t>(s_.loss + 1));
  }

 private:
  template <typename T>
  T* place(size_t at) const {
    return reinterpret_cast<T*>(c_.workspace + at);
  }
  const int32_t* labels(int64_t row) const { return c_.input<int32_t>(s_.x + 3) + row; }
  int64_t bytes_before(int64_t row) const { return row * s_.c * static_cast<int64_t>(size_of(s_.type)); }
  float* lse(int64_t row) const {
    return (s_.lse_out >= 0 ? c_.output<float>(s_.lse_out) : place<float>(at_.lse)) + row;
  }

  void clear() const {
    if (s_.wants_dw)
      cudaMemsetAsync(c_.output<float>(s_.dx + 1), 0, static_cast<size_t>(s_.v * s_.c) * sizeof(float),
                      c_.stream);
    if (s_.wants_db)
      cudaMemsetAsync(c_.output<float>(s_.dx + 2), 0, static_cast<size_t>(s_.v) * sizeof(float), c_.stream);
  }

  void product(const Product& p) const {
    std::byte* workspace = c_.workspace + at_.product;
    if (prepare_)
      c_.products.prepare(c_.stream, p, workspace);
    else if (by_ == By::kLibrary)
      c_.products.launch(c_.stream, p, workspace);
    else
      plain_product(c_.stream, p, workspace);
  }

  void chunk(int64_t first, int64_t rows) const {
    const std::byte* x = c_.input<std::byte>(s_.x) + bytes_before(first);
    Product scores = s_.logits(rows);
    scores.a = x, scores.b = weight_, scores.c = place<float>(at_.logits);
    product(scores);
    const LogitRows logits{
        rows,          s_.v,        s_.ld(), place<float>(at_.logits), c_.input<float>(s_.x + 2),
        labels(first), s_.smoothing};
    if (s_.is_forward() && !prepare_)
      score_rows(c_.stream, logits, place<float>(at_.losses) + first, lse(first),
                 place<int32_t>(at_.right) + first);
    if (s_.is_backward()) gradients(first, logits, x);
  }

  void gradients(int64_t first, const LogitRows& logits, const std::byte* x) const {
    void* d = c_.workspace + at_.d;
    const float* log_sums = s_.lse_in >= 0 ? c_.input<float>(s_.lse_in) + first : lse(first);
    if (!prepare_) differentiate_rows(c_.stream, logits, log_sums, place<float>(at_.factor), s_.type, d);
    if (s_.wants_dw) {
      Product w = s_.weight_gradient(logits.rows);
      w.a = d, w.b = x, w.c = c_.output<float>(s_.dx + 1);
      if (first > 0) w.addend = w.c;
      product(w);
    }
    if (s_.wants_db && !prepare_)
      sum_rows(c_.stream, s_.type, logits.rows, s_.v, s_.ld(), d, first > 0, c_.output<float>(s_.dx + 2));
    if (!s_.wants_dx) return;
    Product in = s_.input_gradient(logits.rows);
    in.a = d, in.b = weight_, in.c = c_.output<std::byte>(s_.dx) + bytes_before(first);
    product(in);
  }

  const Call& c_;
  const Shapes s_;
  const Places at_;
  const By by_;
  const bool prepare_;
  const std::byte* weight_ = nullptr;  ///< in the type of x
};

void prepare(const Call& c) { Work(c, By::kLibrary, true).run(); }
template <By kBy>
void launch(const Call& c) {
  Work(c, kBy, false).run();
}

}  // namespace
}  // namespace vocabulary

std::vector<Entry> linear_cross_entropy_entries() {
  std::vector<Entry> entries;
  for (const OpDef* op :
       {&op::linear_cross_entropy, &op::linear_cross_entropy_bwd, &op::linear_cross_entropy_with_bwd}) {
    entries.push_back({op, "cublaslt", vocabulary::launch<vocabulary::By::kLibrary>, vocabulary::workspace,
                       vocabulary::library_accepts, vocabulary::prepare});
    entries.push_back({op, "plain", vocabulary::launch<vocabulary::By::kPlain>, vocabulary::workspace});
  }
  return entries;
}

}  // namespace lathe::cuda
