// segment_sum, segment_max, l2_normalize: what makes one vector of the vectors of a text's tokens.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lathe/backends/cpu/cpu_impl.h"
#include "lathe/backends/cpu/rows_shares.h"
#include "lathe/ops/pooling.h"

namespace lathe::cpu {
namespace {

/// Columns that are summed at a time, as floats on the stack.
constexpr int64_t kColumns = 256;

/// f(row of the batch, first column, columns) on pieces of y [rows, cols] of a packed batch of `tokens`.
template <typename F>
void for_pieces(const Call& c, int64_t rows, int64_t cols, int64_t tokens, F f) {
  const int64_t pieces = ceil_div(cols, kColumns);
  const int64_t each = rows == 0 ? 0 : ceil_div(tokens, rows) * std::min(cols, kColumns);
  for_shares(c.pool, rows * pieces, each, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % pieces * kColumns;
      f(i / pieces, first, std::min(kColumns, cols - first));
    }
  });
}

PlaceWeight weight_of_row(const Call& c, int64_t b) {
  const auto *first = c.input<int32_t>(1), *cu = c.input<int32_t>(2);
  return weight_of_places(op::segment_weights(c.node.attrs), cu[b], first[b], cu[b + 1]);
}

void run_segment_sum(const Call& c) {
  const DType t = c.in_type(0).dtype;
  const RowKernels& kernels = row_kernels(c.isa);
  const auto *counted = c.input<int32_t>(1), *cu = c.input<int32_t>(2);
  const int64_t cols = c.cols(0), ld = c.ld(0);
  for_pieces(c, c.out_type(0).shape[0], cols, c.rows(0), [&](int64_t b, int64_t first, int64_t count) {
    const PlaceWeight of_row = weight_of_row(c, b);
    float sums[kColumns] = {}, x[kColumns];
    for (int64_t n = counted[b]; n < cu[b + 1]; ++n) {
      convert(kernels, t, DType::f32, count, at(c.in[0], n * ld + first, t), x);
      const float w = of_row.base + of_row.slope * static_cast<float>(n - cu[b] + 1);
      for (int64_t i = 0; i < count; ++i) sums[i] += w * x[i];
    }
    convert(kernels, DType::f32, t, count, sums, at(c.out[0], b * cols + first, t));
  });
}

/// dx = 0.
void clear_tokens(const Call& c) {
  const Type& dx = c.out_type(0);
  const size_t row_bytes = static_cast<size_t>(dx.shape[1]) * size_of(dx.dtype);
  for (int64_t n = 0; n < dx.shape[0]; ++n)
    std::memset(at(c.out[0], n * c.ld_out(0), dx.dtype), 0, row_bytes);
}

void run_segment_sum_bwd(const Call& c) {
  const DType t = c.in_type(0).dtype;
  const StorageKernels& kernels = of(row_kernels(c.isa), t);
  const auto *counted = c.input<int32_t>(1), *cu = c.input<int32_t>(2);
  const int64_t cols = c.cols(0), ld = c.ld_out(0), tokens = c.out_type(0).shape[0];
  clear_tokens(c);
  for_pieces(c, c.rows(0), cols, tokens, [&](int64_t b, int64_t first, int64_t count) {
    const PlaceWeight of_row = weight_of_row(c, b);
    for (int64_t n = counted[b]; n < cu[b + 1]; ++n)
      kernels.scale(count, at(c.in[0], b * cols + first, t),
                    of_row.base + of_row.slope * static_cast<float>(n - cu[b] + 1),
                    at(c.out[0], n * ld + first, t));
  });
}

void run_segment_max(const Call& c) {
  const DType t = c.in_type(0).dtype;
  const RowKernels& kernels = row_kernels(c.isa);
  const auto *counted = c.input<int32_t>(1), *cu = c.input<int32_t>(2);
  const int64_t cols = c.cols(0), ld = c.ld(0);
  for_pieces(c, c.out_type(0).shape[0], cols, c.rows(0), [&](int64_t b, int64_t first, int64_t count) {
    float best[kColumns] = {}, x[kColumns];
    int32_t* const place = c.output<int32_t>(1) + b * cols + first;
    std::fill(place, place + count, -1);
    for (int64_t n = counted[b]; n < cu[b + 1]; ++n) {
      convert(kernels, t, DType::f32, count, at(c.in[0], n * ld + first, t), x);
      for (int64_t i = 0; i < count; ++i)
        if (place[i] < 0 || x[i] > best[i] || (std::isnan(x[i]) && !std::isnan(best[i])))
          best[i] = x[i], place[i] = static_cast<int32_t>(n);
    }
    convert(kernels, DType::f32, t, count, best, at(c.out[0], b * cols + first, t));
  });
}

template <typename T>
void put_maxima(const Call& c) {
  const auto* dy = c.input<T>(0);
  const auto* place = c.input<int32_t>(1);
  const int64_t cols = c.cols(0), ld = c.ld_out(0);
  for (int64_t b = 0; b < c.rows(0); ++b)
    for (int64_t i = 0; i < cols; ++i)
      if (const int64_t n = place[b * cols + i]; n >= 0) c.output<T>(0)[n * ld + i] = dy[b * cols + i];
}

void run_segment_max_bwd(const Call& c) {
  clear_tokens(c);
  if (size_of(c.in_type(0).dtype) == sizeof(float))
    put_maxima<uint32_t>(c);
  else
    put_maxima<uint16_t>(c);
}

void run_l2_normalize(const Call& c) {
  const DType t = c.in_type(0).dtype;
  const StorageKernels& kernels = of(row_kernels(c.isa), t);
  const int64_t cols = c.cols(0);
  const double eps = c.node.attrs.f("eps");
  for_shares(c.pool, c.rows(0), cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const std::byte* x = at(c.in[0], row * cols, t);
      const double norm = std::sqrt(kernels.sum_of_squares(cols, x));
      c.output<float>(1)[row] = static_cast<float>(norm);
      kernels.scale(cols, x, static_cast<float>(1 / std::max(norm, eps)), at(c.out[0], row * cols, t));
    }
  });
}

void run_l2_normalize_bwd(const Call& c) {
  const DType t = c.in_type(0).dtype;
  const RowKernels& kernels = row_kernels(c.isa);
  const int64_t cols = c.cols(0);
  const double eps = c.node.attrs.f("eps");
  for_shares(c.pool, c.rows(0), cols, 1, [&](int64_t begin, int64_t end) {
    float dy[kColumns], y[kColumns];
    const auto for_parts = [&](int64_t row, auto use) {
      for (int64_t first = 0; first < cols; first += kColumns) {
        const int64_t count = std::min(kColumns, cols - first);
        convert(kernels, t, DType::f32, count, at(c.in[0], row * cols + first, t), dy);
        convert(kernels, t, DType::f32, count, at(c.in[1], row * cols + first, t), y);
        use(first, count);
      }
    };
    for (int64_t row = begin; row < end; ++row) {
      const double norm = c.input<float>(2)[row];
      double along = 0;
      if (norm > eps)
        for_parts(row, [&](int64_t, int64_t count) {
          for (int64_t i = 0; i < count; ++i) along += static_cast<double>(dy[i]) * y[i];
        });
      const auto factor = static_cast<float>(1 / std::max(norm, eps)), share = static_cast<float>(along);
      for_parts(row, [&](int64_t first, int64_t count) {
        for (int64_t i = 0; i < count; ++i) dy[i] = (dy[i] - y[i] * share) * factor;
        convert(kernels, DType::f32, t, count, dy, at(c.out[0], row * cols + first, t));
      });
    }
  });
}

}  // namespace

std::vector<Entry> pooling_entries() {
  return {{.op = &op::segment_sum, .run = run_segment_sum, .gaps_in = 0b1},
          {.op = &op::segment_sum_bwd, .run = run_segment_sum_bwd, .gaps_out = 0b1},
          {.op = &op::segment_max, .run = run_segment_max, .gaps_in = 0b1},
          {.op = &op::segment_max_bwd, .run = run_segment_max_bwd, .gaps_out = 0b1},
          {.op = &op::l2_normalize, .run = run_l2_normalize},
          {.op = &op::l2_normalize_bwd, .run = run_l2_normalize_bwd}};
}

}  // namespace lathe::cpu
