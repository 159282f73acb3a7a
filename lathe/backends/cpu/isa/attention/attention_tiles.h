// The matrix products of attention: register tiles over f32 that lie in a workspace, padded so that there
// are no edges.
#pragma once
#include "lathe/backends/cpu/isa/rows/rows_vec.h"

namespace lathe::cpu::LATHE_ISA_NAMESPACE {
namespace {

/// A tile is kTile rows of kPanel columns; with its two vectors of b it fits the registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTile = 8;
#else
constexpr int kTile = 4;
#endif
constexpr int kPanel = 2 * kLanes;
/// Every padded extent is a multiple of this one, whatever the level.
constexpr int64_t kPad = 32;
inline int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }

/// A matrix read element by element, and one read by vectors along its rows: panel p of columns
/// p · kPanel … begins at data + p · panel.
struct Left {
  const float* data;
  int64_t row, col;
};
struct Right {
  const float* data;
  int64_t row, panel;
};

template <bool kAdd>
inline void product_tile(int64_t depth, Left a, const float* b, int64_t b_row, float* c, int64_t c_row) {
  Floats sum[kTile][2];
  for (int r = 0; r < kTile; ++r) {
    sum[r][0] = kAdd ? load(c + r * c_row) : all(0);
    sum[r][1] = kAdd ? load(c + r * c_row + kLanes) : all(0);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Floats b0 = load(b), b1 = load(b + kLanes);
    for (int r = 0; r < kTile; ++r) {
      const float x = a.data[r * a.row];
      sum[r][0] += x * b0;
      sum[r][1] += x * b1;
    }
    a.data += a.col;
    b += b_row;
  }
  for (int r = 0; r < kTile; ++r) {
    store(c + r * c_row, sum[r][0]);
    store(c + r * c_row + kLanes, sum[r][1]);
  }
}

/// c = a · b, or c += a · b.  All of rows rounded up to kTile and of cols rounded up to kPanel is written.
template <bool kAdd>
void product(int64_t rows, int64_t cols, int64_t depth, Left a, Right b, float* c, int64_t c_row) {
  for (int64_t n = 0; n < cols; n += kPanel)
    for (int64_t m = 0; m < rows; m += kTile)
      product_tile<kAdd>(depth, {a.data + m * a.row, a.row, a.col}, b.data + n / kPanel * b.panel, b.row,
                         c + m * c_row + n, c_row);
}
/// A row-major matrix of `cols` columns on either side, and the transpose of one on the left.
inline Left left(const float* x, int64_t cols) { return {x, cols, 1}; }
inline Left left_transposed(const float* x, int64_t cols) { return {x, 1, cols}; }
inline Right right(const float* x, int64_t cols) { return {x, cols, kPanel}; }

/// y[rows, padded(cols)] = factor · x, tokens `stride` apart; zero after `cols`, and in `extra` more rows.
template <typename T>
void unpack(int64_t rows, int64_t cols, int64_t extra, const T* x, int64_t stride, float factor, float* y) {
  const int64_t wide = padded(cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = cols / kPad * kPad; c < wide; ++c) y[r * wide + c] = 0;
    for_vectors(cols,
                [&](int64_t i, auto w) { store(y + r * wide + i, load(x + r * stride + i, w) * factor, w); });
  }
  memset(y + rows * wide, 0, static_cast<size_t>(extra * wide) * sizeof(float));
}

typedef float Quad __attribute__((vector_size(16)));
inline Quad load_quad(const float* p) {
  Quad x;
  memcpy(&x, p, sizeof x);
  return x;
}
inline Quad load_quad(const Bf16* p) {
  typedef uint16_t Quarter __attribute__((vector_size(8)));
  typedef uint32_t Wide __attribute__((vector_size(16)));
  Quarter x;
  memcpy(&x, p, sizeof x);
  return bits_as<Quad>(__builtin_convertvector(x, Wide) << 16);
}
inline Quad load_quad(const F16* p) {
#if defined(__F16C__)
  return bits_as<Quad>(_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  return bits_as<Quad>(load(p));
#endif
}
inline float load_one(const float* p) { return *p; }
inline float load_one(const Bf16* p) { return bits_as<float>(static_cast<uint32_t>(*p) << 16); }
inline float load_one(const F16* p) { return load(p, First{1})[0]; }

/// The transpose of x[rows, cols] in panels of kPanel columns (rows of x), zero after `rows`.
template <typename T>
void transpose(int64_t rows, int64_t cols, const T* x, int64_t stride, float* y) {
  for (int64_t r = 0; r < padded(rows); r += 4) {
    float* to = y + r / kPanel * kPanel * cols + r % kPanel;
    const int64_t real = rows - r;
    int64_t c = 0;
    for (; real >= 4 && c + 4 <= cols; c += 4) {
      const T* from = x + r * stride + c;
      const Quad x0 = load_quad(from), x1 = load_quad(from + stride);
      const Quad x2 = load_quad(from + 2 * stride), x3 = load_quad(from + 3 * stride);
      const Quad a = __builtin_shufflevector(x0, x2, 0, 4, 1, 5);
      const Quad b = __builtin_shufflevector(x0, x2, 2, 6, 3, 7);
      const Quad d = __builtin_shufflevector(x1, x3, 0, 4, 1, 5);
      const Quad e = __builtin_shufflevector(x1, x3, 2, 6, 3, 7);
      const Quad out[4] = {
          __builtin_shufflevector(a, d, 0, 4, 1, 5), __builtin_shufflevector(a, d, 2, 6, 3, 7),
          __builtin_shufflevector(b, e, 0, 4, 1, 5), __builtin_shufflevector(b, e, 2, 6, 3, 7)};
      for (int k = 0; k < 4; ++k) memcpy(to + (c + k) * kPanel, &out[k], sizeof(Quad));
    }
    for (; c < cols; ++c)
      for (int64_t k = 0; k < 4; ++k)
        to[c * kPanel + k] = k < real ? load_one(x + (r + k) * stride + c) : 0.f;
  }
}
inline Right transposed(const float* x, int64_t cols) { return {x, kPanel, kPanel * cols}; }

/// x[rows, cols] = factor · y[rows, padded(cols)].
template <typename T>
void pack(int64_t rows, int64_t cols, const float* y, float factor, T* x, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r)
    for_vectors(cols, [&](int64_t i, auto w) {
      store(x + r * stride + i, load(y + r * padded(cols) + i, w) * factor, w);
    });
}

}  // namespace
}  // namespace lathe::cpu::LATHE_ISA_NAMESPACE
