#include "lathe/backends/cpu/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "lathe/backends/cpu/memory.h"
#include "lathe/backends/cpu/rows_shares.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/philox.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kSquaresBlock = 16384;

/// f(begin, end) on some rows at a time, few enough that they stay in a core's first cache between kernels.
template <typename F>
void for_groups(ThreadPool& pool, Rows::Size s, F f) {
  constexpr int64_t kElements = 4096;
  const int64_t rows = std::max<int64_t>(1, kElements / s.cols);
  for_shares(pool, s.rows, s.cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += rows) f(i, std::min(i + rows, end));
  });
}

// The kernels of rows [begin, end).
void normalize(const StorageKernels& kernels, int64_t begin, int64_t end, Rows::Size s, const void* x,
               const Rows::Norm& norm, void* y) {
  kernels.layer_norm(begin, end, s.cols, s.ld, x, norm.gamma, norm.beta, norm.eps, y, norm.mean, norm.rstd);
}
void drop(const StorageKernels& kernels, int64_t begin, int64_t end, Rows::Size s, const Rows::Dropped& d,
          const void* x, const void* residual, void* y) {
  kernels.dropout(begin, end, s.cols, s.ld, &d.rule, d.sample_ids, d.positions, x, residual, y);
}

/// sum = x + r of rows [begin, end).
void add_rows(const StorageKernels& kernels, DType t, int64_t begin, int64_t end, Rows::Size s, const void* x,
              const void* r, void* sum) {
  const auto add = [&](int64_t i, int64_t count) {
    kernels.add(count, at(x, i, t), at(r, i, t), at(sum, i, t));
  };
  if (s.dense())
    add(begin * s.cols, (end - begin) * s.cols);
  else
    for (int64_t row = begin; row < end; ++row) add(row * s.ld, s.cols);
}

/// Elementwise work: f(first element, count) on all elements.  Each share of consecutive elements begins on
/// its own cache line.  After each share `fence` is called, unless it is null.
template <typename F>
void for_elements(ThreadPool& pool, Rows::Size s, F f, void (*fence)() = nullptr) {
  const bool dense = s.dense();
  for_shares(pool, dense ? s.rows * s.cols : s.rows, dense ? 1 : s.cols, dense ? kLine : 1,
             [&](int64_t begin, int64_t end) {
               if (dense)
                 f(begin, end - begin);
               else
                 for (int64_t row = begin; row < end; ++row) f(row * s.ld, s.cols);
               if (fence != nullptr) fence();
             });
}
template <typename Kernel>
void unary(ThreadPool& pool, Kernel kernel, DType t, Rows::Size s, const void* x, void* y,
           void (*fence)() = nullptr) {
  for_elements(
      pool, s, [&](int64_t i, int64_t count) { kernel(count, at(x, i, t), at(y, i, t)); }, fence);
}
template <typename Kernel>
void binary(ThreadPool& pool, Kernel kernel, DType t, Rows::Size s, const void* a, const void* b, void* y) {
  for_elements(pool, s,
               [&](int64_t i, int64_t count) { kernel(count, at(a, i, t), at(b, i, t), at(y, i, t)); });
}

/// One row of scores, `stride` apart, in which `target` is right.  Targets outside are ignored.
struct Choice {
  int64_t begin, length, stride, target;
  bool counts() const { return target >= 0 && target < length; }
};
Choice class_row(int64_t row, Rows::Size s, const int32_t* labels) {
  return {row * s.cols, s.cols, 1, labels[row]};
}
Choice token_row(int64_t row, Rows::Size s, int64_t column, const int32_t* cu, const int32_t* targets) {
  return {cu[row] * s.cols + column, cu[row + 1] - cu[row], s.cols, targets[row]};
}

/// The score under the smoothed target.
double wanted_score(const Choice& c, double smoothing, const float* x) {
  const double right = x[c.target * c.stride];
  if (smoothing == 0) return right;
  double sum = 0;
  for (int64_t i = 0; i < c.length; ++i) sum += x[i * c.stride];
  return (1 - smoothing) * right + smoothing * sum / static_cast<double>(c.length);
}

/// Mean of −log softmax at the targets.  choice(row) → Choice; `losses` has room for one number per row.
template <typename F>
float choice_loss(ThreadPool& pool, const RowKernels& kernels, int64_t rows, int64_t cols, double smoothing,
                  const float* logits, double* losses, F choice) {
  for_shares(pool, rows, cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Choice c = choice(row);
      const float* x = logits + c.begin;
      losses[row] =
          c.counts() ? kernels.log_sum_exp(c.length, c.stride, x) - wanted_score(c, smoothing, x) : 0;
    }
  });
  double sum = 0;
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    sum += losses[row];
    count += choice(row).counts();
  }
  return count == 0 ? 0.f : static_cast<float>(sum / static_cast<double>(count));
}

template <typename F>
void choice_bwd(ThreadPool& pool, const RowKernels& kernels, int64_t rows, int64_t cols, double smoothing,
                float dloss, const float* logits, float* dlogits, F choice) {
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) count += choice(row).counts();
  const double factor = double{dloss} / static_cast<double>(std::max<int64_t>(count, 1));
  for_shares(pool, rows, cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Choice c = choice(row);
      if (!c.counts()) continue;
      const float* x = logits + c.begin;
      const double lse = kernels.log_sum_exp(c.length, c.stride, x);
      kernels.softmax_bwd(c.length, c.stride, x, lse, static_cast<float>(factor), dlogits + c.begin);
      const double everywhere = smoothing / static_cast<double>(c.length);
      if (smoothing != 0)
        for (int64_t i = 0; i < c.length; ++i)
          dlogits[c.begin + i * c.stride] -= static_cast<float>(factor * everywhere);
      const int64_t right = c.target * c.stride;  // p − 1 without cancellation
      dlogits[c.begin + right] =
          static_cast<float>(factor * (std::expm1(double{x[right]} - lse) + smoothing - everywhere));
    }
  });
}

}  // namespace

const RowKernels& row_kernels(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
    case Isa::kAvx2Vnni:
      return kRowsAvx2;
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
      return kRowsAvx512;
    case Isa::kAvx512Bf16:
    case Isa::kAmx:
      return kRowsAvx512Bf16;
#elif defined(__aarch64__)
    case Isa::kNeon:
    case Isa::kNeonDot:
    case Isa::kNeonBf16:
      return kRowsNeon;
#endif
    default:
      return kRowsPortable;
  }
}

DropoutRule dropout_rule(uint32_t seed, uint32_t step, uint32_t site, double p) {
  return {seed, step, site, dropout_threshold(p), dropout_scale(p)};
}

void Rows::layer_norm(DType t, Size s, const void* x, const Norm& norm, void* y) const {
  for_shares(pool_, s.rows, s.cols, 1,
             [&](int64_t begin, int64_t end) { normalize(of(kernels_, t), begin, end, s, x, norm, y); });
}

void Rows::add_layer_norm(DType t, Size s, const Dropped* dropped, const void* x, const void* r,
                          const Norm& norm, void* sum, void* y) const {
  const StorageKernels& kernels = of(kernels_, t);
  for_groups(pool_, s, [&](int64_t begin, int64_t end) {
    if (dropped != nullptr)
      drop(kernels, begin, end, s, *dropped, x, r, sum);
    else
      add_rows(kernels, t, begin, end, s, x, r, sum);
    normalize(kernels, begin, end, s, sum, norm, y);
  });
}

void Rows::embed_layer_norm(DType t, Size s, const void* const tables[3], const int32_t* const ids[3],
                            const Norm& norm, float* sum, float* y) const {
  constexpr int64_t kPart = 512;  // elements that are widened at a time
  for_groups(pool_, s, [&](int64_t begin, int64_t end) {
    float wide[2][kPart];
    for (int64_t i = begin; i < end; ++i)
      for (int64_t col = 0; col < s.cols; col += kPart) {
        const int64_t count = std::min(kPart, s.cols - col);
        const auto part = [&](int k) -> const void* {
          const void* stored = at(tables[k], ids[k][i] * s.cols + col, t);
          if (t == DType::f32) return stored;
          convert(kernels_, t, DType::f32, count, stored, wide[k % 2]);
          return wide[k % 2];
        };
        float* to = sum + i * s.cols + col;
        const void* first = part(0);
        kernels_.f32.add(count, first, part(1), to);
        kernels_.f32.add(count, to, part(2), to);
      }
    normalize(kernels_.f32, begin, end, s, sum, norm, y);
  });
}

size_t Rows::layer_norm_bwd_workspace_bytes(Size s) { return 2 * column_sums_workspace_bytes(s); }

void Rows::layer_norm_bwd(DType t, Size s, const void* dy, const void* x, const float* gamma,
                          const float* mean, const float* rstd, void* dx, float* dgamma, float* dbeta,
                          void* workspace, const Dropped* dropped, void* dd, const void* past) const {
  const StorageKernels& kernels = of(kernels_, t);
  float* gammas = static_cast<float*>(workspace);
  float* betas = gammas + row_blocks(s.rows) * s.cols;
  sum_rows(pool_, kernels_, s, {{gammas, dgamma}, {betas, dbeta}},
           [&](int64_t b, int64_t begin, int64_t end) {
             kernels.layer_norm_bwd(begin, end, s.cols, s.ld, dy, x, gamma, mean, rstd, past, dx,
                                    gammas + b * s.cols, betas + b * s.cols);
             if (dropped != nullptr) drop(kernels, begin, end, s, *dropped, dx, nullptr, dd);
           });
}

void Rows::rms_norm(DType t, Size s, const void* x, const void* r, const RmsNorm& n, void* sum,
                    void* y) const {
  const StorageKernels& kernels = of(kernels_, t);
  const void* const of_norm = r == nullptr ? x : sum;
  for_groups(pool_, s, [&](int64_t begin, int64_t end) {
    if (r != nullptr) add_rows(kernels, t, begin, end, s, x, r, sum);
    kernels.rms_norm(begin, end, s.cols, s.ld, of_norm, n.gamma, n.more, n.eps, y, n.rstd);
  });
}

void Rows::rms_norm_bwd(DType t, Size s, const void* dy, const void* x, const RmsNorm& n, const void* past,
                        void* dx, float* dgamma, void* workspace) const {
  float* partial = static_cast<float*>(workspace);
  sum_rows(pool_, kernels_, s, {{partial, dgamma}}, [&](int64_t b, int64_t begin, int64_t end) {
    float* const sums = partial + b * s.cols;
    std::fill_n(sums, s.cols, 0.f);
    of(kernels_, t).rms_norm_bwd(begin, end, s.cols, s.ld, dy, x, n.gamma, n.more, n.rstd, past, dx, sums);
  });
}

size_t Rows::column_sums_workspace_bytes(Size s) {
  return static_cast<size_t>(row_blocks(s.rows) * s.cols) * sizeof(float);
}

void Rows::column_sums(DType t, Size s, const void* x, float* sums, void* workspace) const {
  float* partial = static_cast<float*>(workspace);
  sum_rows(pool_, kernels_, s, {{partial, sums}}, [&](int64_t b, int64_t begin, int64_t end) {
    of(kernels_, t).column_sums(begin, end, s.cols, s.ld, x, partial + b * s.cols);
  });
}

void Rows::gelu(DType t, Size s, const void* x, void* y, bool cold) const {
  const StorageKernels& kernels = of(kernels_, t);
  unary(pool_, cold ? kernels.gelu_cold : kernels.gelu, t, s, x, y, cold ? kernels_.fence : nullptr);
}
void Rows::relu(DType t, Size s, const void* x, void* y) const {
  unary(pool_, of(kernels_, t).relu, t, s, x, y);
}
void Rows::tanh(DType t, Size s, const void* x, void* y) const {
  unary(pool_, of(kernels_, t).tanh, t, s, x, y);
}
void Rows::gelu_bwd(DType t, Size s, const void* dy, const void* x, void* dx) const {
  binary(pool_, of(kernels_, t).gelu_bwd, t, s, dy, x, dx);
}
void Rows::relu_bwd(DType t, Size s, const void* dy, const void* y, void* dx) const {
  binary(pool_, of(kernels_, t).relu_bwd, t, s, dy, y, dx);
}
void Rows::tanh_bwd(DType t, Size s, const void* dy, const void* y, void* dx) const {
  binary(pool_, of(kernels_, t).tanh_bwd, t, s, dy, y, dx);
}
void Rows::gated(DType t, Activation activation, Size s, const void* x, void* y, int64_t x_ld) const {
  const int64_t ld = x_ld == 0 ? 2 * s.cols : x_ld;
  const auto kernel = of(kernels_, t).gated[static_cast<int>(activation)];
  for_shares(pool_, s.rows, s.cols, 1,
             [&](int64_t begin, int64_t end) { kernel(begin, end, s.cols, s.ld, ld, x, y); });
}
void Rows::gated_bwd(DType t, Activation activation, Size s, const void* dy, const void* x, void* dx,
                     int64_t x_ld) const {
  const int64_t ld = x_ld == 0 ? 2 * s.cols : x_ld;
  const auto kernel = of(kernels_, t).gated_bwd[static_cast<int>(activation)];
  for_shares(pool_, s.rows, s.cols, 1,
             [&](int64_t begin, int64_t end) { kernel(begin, end, s.cols, s.ld, ld, dy, x, dx); });
}
void Rows::add(DType t, Size s, const void* a, const void* b, void* y) const {
  binary(pool_, of(kernels_, t).add, t, s, a, b, y);
}
void Rows::mul(DType t, Size s, const void* a, const void* b, void* y) const {
  binary(pool_, of(kernels_, t).mul, t, s, a, b, y);
}
void Rows::scale(DType t, Size s, const void* x, float factor, void* y) const {
  for_elements(pool_, s, [&](int64_t i, int64_t count) {
    of(kernels_, t).scale(count, at(x, i, t), factor, at(y, i, t));
  });
}

void Rows::cast(DType from, DType to, Size s, const void* x, void* y, int64_t y_ld) const {
  if (s.dense() && (y_ld == 0 || y_ld == s.cols))
    return for_elements(pool_, s, [&](int64_t i, int64_t count) {
      convert(kernels_, from, to, count, at(x, i, from), at(y, i, to));
    });
  const int64_t ld = y_ld == 0 ? s.cols : y_ld;
  for_shares(pool_, s.rows, s.cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      convert(kernels_, from, to, s.cols, at(x, i * s.ld, from), at(y, i * ld, to));
  });
}

void Rows::dropout(DType t, Size s, const Dropped& dropped, const void* x, void* y) const {
  for_shares(pool_, s.rows, s.cols, 1, [&](int64_t begin, int64_t end) {
    drop(of(kernels_, t), begin, end, s, dropped, x, nullptr, y);
  });
}

size_t Rows::sum_of_squares_workspace_bytes(int64_t n) {
  return static_cast<size_t>((n + kSquaresBlock - 1) / kSquaresBlock + 1) * sizeof(double);
}

double Rows::sum_of_squares(int64_t n, DType dtype, const void* x, void* workspace,
                            const WrittenRows* table) const {
  double* sums = static_cast<double*>(workspace);
  const int64_t blocks = (n + kSquaresBlock - 1) / kSquaresBlock;
  for_shares(pool_, blocks, kSquaresBlock, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kSquaresBlock, count = std::min(kSquaresBlock, n - first);
      const auto sum = of(kernels_, dtype).sum_of_squares;
      if (table == nullptr) {
        sums[b] = sum(count, at(x, first, dtype));
        continue;
      }
      sums[b] = 0;
      table->for_parts(first, first + count, [&](int64_t from, int64_t to, int64_t row) {
        if (row < 0 || table->is_written(row)) sums[b] += sum(to - from, at(x, from, dtype));
      });
    }
  });
  for (int64_t step = 1; step < blocks; step *= 2)
    for (int64_t b = 0; b + step < blocks; b += 2 * step) sums[b] += sums[b + step];
  return blocks == 0 ? 0 : sums[0];
}

void Rows::accumulate(int64_t n, float keep, const float* g, float* total) const {
  for_elements(pool_, n,
               [&](int64_t i, int64_t count) { kernels_.accumulate(count, keep, g + i, total + i); });
}

size_t Rows::cross_entropy_workspace_bytes(int64_t rows) {
  return static_cast<size_t>(rows) * sizeof(double);
}

float Rows::cross_entropy(Size s, double smoothing, const float* logits, const int32_t* labels,
                          void* workspace) const {
  return choice_loss(pool_, kernels_, s.rows, s.cols, smoothing, logits, static_cast<double*>(workspace),
                     [&](int64_t row) { return class_row(row, s, labels); });
}

void Rows::cross_entropy_bwd(Size s, double smoothing, float dloss, const float* logits,
                             const int32_t* labels, float* dlogits) const {
  std::memset(dlogits, 0, static_cast<size_t>(s.rows * s.cols) * sizeof(float));
  choice_bwd(pool_, kernels_, s.rows, s.cols, smoothing, dloss, logits, dlogits,
             [&](int64_t row) { return class_row(row, s, labels); });
}

float Rows::segment_cross_entropy(Size s, int64_t column, const float* logits, int64_t rows,
                                  const int32_t* cu, const int32_t* targets, void* workspace) const {
  return choice_loss(pool_, kernels_, rows, s.rows / std::max<int64_t>(rows, 1), 0, logits,
                     static_cast<double*>(workspace),
                     [&](int64_t row) { return token_row(row, s, column, cu, targets); });
}

void Rows::segment_cross_entropy_bwd(Size s, int64_t column, float dloss, const float* logits, int64_t rows,
                                     const int32_t* cu, const int32_t* targets, float* dlogits) const {
  std::memset(dlogits, 0, static_cast<size_t>(s.rows * s.cols) * sizeof(float));
  choice_bwd(pool_, kernels_, rows, s.rows / std::max<int64_t>(rows, 1), 0, dloss, logits, dlogits,
             [&](int64_t row) { return token_row(row, s, column, cu, targets); });
}

}  // namespace lathe::cpu
