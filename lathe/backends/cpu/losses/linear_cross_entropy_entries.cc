// Cross entropy over the classes of a linear layer: a product, then the rows of its logits, then two products
// with what the rows became, chunk by chunk.
#include <algorithm>
#include <cmath>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/rows_shares.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear_cross_entropy.h"

namespace lathe::cpu {
namespace losses {
namespace {

constexpr int64_t kLine = 64;

/// A node, and its products.
struct Shapes : op::LinearCrossEntropy {
  int64_t ld;  ///< of the logits, in f32

  Shapes(const Node& node, const Program& program) : LinearCrossEntropy(node, program) {
    ld = round_up(v, kLine / 4);
    if (ld % 128 == 0) ld += kLine / 4;  // rows a multiple of 512 bytes apart fall on few sets of a cache
  }
  /// The logits' gradient lies over the logits, each row over the front of its own.
  int64_t d_ld() const { return ld * static_cast<int64_t>(sizeof(float) / size_of(type)); }

  /// logits[rows,v] = x · Wᵀ
  Gemm logits(int64_t rows) const {
    Gemm g;
    g.m = rows, g.n = v, g.k = c;
    g.a_type = type, g.b_type = w_type;
    g.b_transposed = true;
    g.lda = g.ldb = c, g.ldc = ld;
    return g;
  }
  /// dx[rows,c] = d · W
  Gemm input_gradient(int64_t rows) const {
    Gemm g;
    g.m = rows, g.n = c, g.k = v;
    g.a_type = g.c_type = type, g.b_type = w_type;
    g.lda = d_ld(), g.ldb = g.ldc = c;
    return g;
  }
  /// dW[v,c] = dᵀ · x
  Gemm weight_gradient(int64_t rows) const {
    Gemm g;
    g.m = v, g.n = c, g.k = rows;
    g.a_type = g.b_type = type;
    g.a_transposed = g.c_streams = true;
    g.lda = d_ld(), g.ldb = g.ldc = c;
    return g;
  }
};

/// The workspace, in bytes from its begin.
struct Places {
  size_t terms, lse, right, sums, logits, product, second, end;

  Places(const Shapes& s, Isa isa, int threads) {
    const auto rows = static_cast<size_t>(s.m), classes = static_cast<size_t>(s.v);
    size_t at = 0;
    const auto take = [&](size_t bytes) {
      const size_t begin = at;
      at += round_up(bytes, size_t{kLine});
      return begin;
    };
    terms = take(rows * sizeof(double));
    lse = take(rows * sizeof(float));
    right = take(rows * sizeof(int32_t));
    sums = take(classes * sizeof(float));
    logits = take(static_cast<size_t>(s.chunk * s.ld) * sizeof(float));
    size_t first = 0, next = 0;
    for (const int64_t n : {std::min(s.chunk, s.m), s.m % s.chunk}) {
      if (n == 0) continue;
      const size_t column_sums = Rows::column_sums_workspace_bytes({n, s.v});
      first = std::max({first, gemm_workspace_bytes(isa, s.logits(n), threads), column_sums});
      if (!s.is_backward()) continue;
      first = std::max(first, gemm_workspace_bytes(isa, s.weight_gradient(n), threads));
      next = std::max(next, gemm_workspace_bytes(isa, s.input_gradient(n), threads));
    }
    product = take(first);
    second = take(next);
    end = at;
  }
};

size_t workspace(const Node& node, const Program& program, Isa isa, int threads) {
  return Places(Shapes(node, program), isa, threads).end;
}

/// Whether no class has a larger logit, and none before it the same.
bool is_most(const float* z, int64_t v, int64_t label) {
  const float right = z[label];
  int32_t above = 0;
  for (int64_t j = 0; j < label; ++j) above += !(z[j] < right);
  for (int64_t j = label + 1; j < v; ++j) above += z[j] > right;
  return above == 0;
}

class Run {
 public:
  explicit Run(const Call& call)
      : call_(call),
        s_(call.node, call.program),
        kernels_(row_kernels(call.isa)),
        labels_(call.input<int32_t>(s_.x + 3)) {
    const Places places(s_, call.isa, call.pool.size());
    terms_ = at<double>(places.terms), lse_ = at<float>(places.lse), right_ = at<int32_t>(places.right);
    sums_ = at<float>(places.sums), logits_ = at<float>(places.logits);
    product_ = call.workspace + places.product, second_ = call.workspace + places.second;
    if (s_.lse_in >= 0) std::copy_n(call.input<float>(s_.lse_in), s_.m, lse_);
    if (s_.lse_out >= 0) lse_ = call.output<float>(s_.lse_out);
    int64_t counted = 0;
    for (int64_t i = 0; i < s_.m; ++i) counted += counts(i);
    count_ = static_cast<double>(std::max<int64_t>(counted, 1));
    if (s_.dloss >= 0) factor_ = double{*call.input<float>(s_.dloss)} / count_;
  }

  void operator()() {
    if (s_.m == 0) clear();
    for (int64_t first = 0; first < s_.m; first += s_.chunk) chunk(first, std::min(s_.chunk, s_.m - first));
    if (!s_.is_forward()) return;
    double loss = 0;
    int32_t correct = 0;
    for (int64_t i = 0; i < s_.m; ++i) loss += terms_[i], correct += right_[i];
    *call_.output<float>(s_.loss) = static_cast<float>(loss / count_);
    *call_.output<int32_t>(s_.loss + 1) = correct;
  }

 private:
  template <typename T>
  T* at(size_t place) const {
    return reinterpret_cast<T*>(call_.workspace + place);
  }
  bool counts(int64_t i) const { return labels_[i] >= 0 && labels_[i] < s_.v; }
  const std::byte* x(int64_t row) const {
    return cpu::at(call_.input<std::byte>(s_.x), row * call_.ld(s_.x), s_.type);
  }

  void clear() const {
    if (s_.wants_dw) std::fill_n(call_.output<float>(s_.dx + 1), s_.v * s_.c, 0.f);
    if (s_.wants_db) std::fill_n(call_.output<float>(s_.dx + 2), s_.v, 0.f);
  }

  void chunk(int64_t first, int64_t rows) {
    Gemm g = s_.logits(rows);
    g.a = x(first), g.lda = call_.ld(s_.x), g.b = call_.input<std::byte>(s_.x + 1), g.c = logits_;
    g.bias = call_.input<float>(s_.x + 2);
    gemm(call_.pool, call_.isa, g, product_);
    for_shares(call_.pool, rows, s_.v, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) row(first + i, logits_ + i * s_.ld);
    });
    if (s_.is_backward()) gradients(first, rows);
  }

  void row(int64_t i, float* z) {
    if (s_.is_forward()) {
      terms_[i] = 0, lse_[i] = 0, right_[i] = 0;
      if (counts(i)) score(i, z);
    }
    if (!s_.is_backward()) return;
    if (counts(i))
      differentiate(i, z);
    else
      std::memset(z, 0, static_cast<size_t>(s_.v) * size_of(s_.type));
  }

  void score(int64_t i, const float* z) {
    const double lse = kernels_.log_sum_exp(s_.v, 1, z);
    double wanted = z[labels_[i]];
    if (s_.smoothing != 0) {
      double sum = 0;
      for (int64_t j = 0; j < s_.v; ++j) sum += z[j];
      wanted = (1 - s_.smoothing) * wanted + s_.smoothing * sum / static_cast<double>(s_.v);
    }
    terms_[i] = lse - wanted;
    lse_[i] = static_cast<float>(lse);
    right_[i] = is_most(z, s_.v, labels_[i]);
  }

  /// z becomes factor · (softmax − smoothed one-hot), in the type of x.
  void differentiate(int64_t i, float* z) const {
    constexpr int64_t kPart = 2048;
    alignas(kLine) float part[kPart];
    const double everywhere = s_.smoothing / static_cast<double>(s_.v);
    const int64_t label = labels_[i];
    // p − 1 without cancellation
    const double right = factor_ * (std::expm1(double{z[label]} - lse_[i]) + s_.smoothing - everywhere);
    const bool in_place = s_.type == DType::f32;
    for (int64_t begin = 0; begin < s_.v; begin += kPart) {
      const int64_t n = std::min(kPart, s_.v - begin);
      float* d = in_place ? z + begin : part;
      kernels_.softmax_bwd(n, 1, z + begin, lse_[i], static_cast<float>(factor_), d);
      if (s_.smoothing != 0)
        for (int64_t j = 0; j < n; ++j) d[j] -= static_cast<float>(factor_ * everywhere);
      if (label >= begin && label < begin + n) d[label - begin] = static_cast<float>(right);
      if (!in_place) of(kernels_, s_.type).from_f32(n, d, cpu::at(static_cast<void*>(z), begin, s_.type));
    }
  }

  void gradients(int64_t first, int64_t rows) {
    float* db = s_.wants_db ? call_.output<float>(s_.dx + 2) : nullptr;
    float* sums = first == 0 ? db : sums_;
    Gemm w = s_.weight_gradient(rows), in = s_.input_gradient(rows);
    if (s_.wants_dw) {
      w.a = logits_, w.b = x(first), w.ldb = call_.ld(s_.x), w.c = call_.output<float>(s_.dx + 1);
      if (first > 0) w.addend = w.c;
      if (s_.wants_db) w.a_sums = sums;
    }
    if (s_.wants_dx) {
      in.a = logits_, in.b = call_.input<std::byte>(s_.x + 1);
      in.ldc = call_.ld_out(s_.dx);
      in.c = cpu::at(call_.output<std::byte>(s_.dx), first * in.ldc, s_.type);
    }
    if (s_.wants_dw && s_.wants_dx)
      gemm_pair(call_.pool, call_.isa, w, product_, in, second_);
    else if (s_.wants_dw || s_.wants_dx)
      gemm(call_.pool, call_.isa, s_.wants_dw ? w : in, s_.wants_dw ? product_ : second_);
    if (s_.wants_db && !s_.wants_dw)
      Rows(call_.pool, call_.isa).column_sums(s_.type, {rows, s_.v, s_.d_ld()}, logits_, sums, product_);
    if (s_.wants_db && first > 0)
      for (int64_t j = 0; j < s_.v; ++j) db[j] += sums_[j];
  }

  const Call& call_;
  const Shapes s_;
  const RowKernels& kernels_;
  const int32_t* labels_;
  double count_ = 1, factor_ = 0;
  double* terms_;   // of every row its part of the loss
  float* lse_;      // and the log of Σ exp(logits)
  int32_t* right_;  // and whether its label has the largest logit
  float* sums_;     // of a chunk's d over its rows
  float* logits_;
  std::byte *product_, *second_;
};

void run(const Call& call) { Run{call}(); }

}  // namespace
}  // namespace losses

std::vector<Entry> linear_cross_entropy_entries() {
  const auto entry = [](const OpDef& op, uint32_t gaps_in, uint32_t gaps_out) {
    return Entry{.op = &op,
                 .run = losses::run,
                 .workspace_bytes = losses::workspace,
                 .gaps_in = gaps_in,
                 .gaps_out = gaps_out};
  };
  return {entry(op::linear_cross_entropy, 0b1, 0), entry(op::linear_cross_entropy_bwd, 0b10, 0b1),
          entry(op::linear_cross_entropy_with_bwd, 0b1, 0b100)};
}

}  // namespace lathe::cpu
