// What goes by tokens: rows of tables and the transpose, norms of heads, rotary positions, means over the
// tokens of a row.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lathe/backends/cpu/memory.h"
#include "lathe/backends/cpu/rows_shares.h"

namespace lathe::cpu {

void Rows::gather_rows(DType from, DType to, Size s, const void* table, const int32_t* ids, void* y,
                       int64_t table_ld) const {
  const int64_t ld = table_ld == 0 ? s.cols : table_ld;
  for_shares(pool_, s.rows, s.cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      convert(kernels_, from, to, s.cols, at(table, ids[i] * ld, from), at(y, i * s.ld, to));
    }
  });
}

size_t Rows::scatter_add_rows_workspace_bytes(Size s, int64_t table_rows) {
  return static_cast<size_t>(table_rows + 1 + s.rows) * sizeof(int32_t);
}

void Rows::scatter_add_rows(DType from, DType to, Size s, const void* dy, const int32_t* ids,
                            int64_t table_rows, int64_t padding, void* dtable, void* workspace,
                            WrittenRows* rows, int64_t table_ld) const {
  const int64_t ld = table_ld == 0 ? s.cols : table_ld;
  // counting sort: order[first[v] … first[v + 1]) are the rows of dy whose id is v, ascending
  int32_t* first = static_cast<int32_t*>(workspace);
  int32_t* order = first + table_rows + 1;
  std::fill_n(first, table_rows + 1, 0);
  for (int64_t i = 0; i < s.rows; ++i) ++first[ids[i]];
  for (int64_t v = 0, sum = 0; v <= table_rows; ++v) first[v] = static_cast<int32_t>(sum += first[v]);
  for (int64_t i = s.rows - 1; i >= 0; --i) order[--first[ids[i]]] = static_cast<int32_t>(i);

  const auto sum_range = [&](int64_t v_begin, int64_t v_end, int64_t c_begin, int64_t c_end) {
    for (int64_t v = v_begin; v < v_end; ++v) {
      std::byte* row = at(dtable, v * ld + c_begin, to);
      const int64_t count = v == padding ? 0 : first[v + 1] - first[v];
      if (rows != nullptr) {
        rows->written[static_cast<size_t>(v)] = count > 0;
        if (count == 0) continue;
      }
      if (count == 0) {
        if (table_rows < kSmallTable) {
          std::memset(row, 0, static_cast<size_t>(c_end - c_begin) * size_of(to));
          continue;
        }
        const int64_t zero = v;
        while (v + 1 < v_end && first[v + 2] == first[v + 1]) ++v;
        write_zeros(row, static_cast<size_t>((v - zero) * ld + s.cols) * size_of(to));
        continue;
      }
      const StorageKernels& kernels = of(kernels_, from);
      const std::byte* x = at(dy, c_begin, from);
      const int64_t n = c_end - c_begin;
      if (to == DType::f32)
        kernels.sum_rows_to_f32(n, s.ld, x, order + first[v], count, reinterpret_cast<float*>(row));
      else
        (to == DType::bf16 ? kernels.sum_rows_to_bf16 : kernels.sum_rows_to_f16)(n, s.ld, x, order + first[v],
                                                                                 count, row);
    }
  };
  // a small table is cut by columns, because all of dy may meet in one row
  if (table_rows < kSmallTable) {
    for_shares(pool_, s.cols, s.rows + table_rows, kLine,
               [&](int64_t begin, int64_t end) { sum_range(0, table_rows, begin, end); });
  } else {
    for_shares(pool_, table_rows, s.cols, 1,
               [&](int64_t begin, int64_t end) { sum_range(begin, end, 0, s.cols); });
  }
}

void Rows::head_norm(DType t, Size s, const void* x, const HeadNorm& n, void* y) const {
  const StorageKernels& kernels = of(kernels_, t);
  const int64_t q = n.heads * n.width, normal = n.heads + n.kv_heads, rest = normal * n.width;
  for_shares(pool_, s.rows, s.cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const std::byte* from = at(x, row * s.ld, t);
      std::byte* to = at(y, row * s.ld, t);
      float* const rstd = n.rstd + row * normal;
      kernels.rms_norm(0, n.heads, n.width, n.width, from, n.q_gamma, n.more, n.eps, to, rstd);
      kernels.rms_norm(0, n.kv_heads, n.width, n.width, at(from, q, t), n.k_gamma, n.more, n.eps,
                       at(to, q, t), rstd + n.heads);
      if (x != y)
        std::memcpy(at(to, rest, t), at(from, rest, t), static_cast<size_t>(s.cols - rest) * size_of(t));
    }
  });
}

void Rows::head_norm_bwd(DType t, Size s, const void* dy, const void* x, const HeadNorm& n, void* dx,
                         float* dq_gamma, float* dk_gamma, void* workspace) const {
  const StorageKernels& kernels = of(kernels_, t);
  const int64_t q = n.heads * n.width, normal = n.heads + n.kv_heads, rest = normal * n.width;
  float* of_q = static_cast<float*>(workspace);
  float* of_k = of_q + row_blocks(s.rows) * n.width;
  sum_rows(pool_, kernels_, {s.rows, n.width}, {{of_q, dq_gamma}, {of_k, dk_gamma}},
           [&](int64_t b, int64_t begin, int64_t end) {
             for (float* sums : {of_q, of_k}) std::fill_n(sums + b * n.width, n.width, 0.f);
             for (int64_t row = begin; row < end; ++row) {
               const std::byte *d = at(dy, row * s.ld, t), *from = at(x, row * s.ld, t);
               std::byte* to = at(dx, row * s.ld, t);
               const float* const rstd = n.rstd + row * normal;
               kernels.rms_norm_bwd(0, n.heads, n.width, n.width, d, from, n.q_gamma, n.more, rstd, nullptr,
                                    to, of_q + b * n.width);
               kernels.rms_norm_bwd(0, n.kv_heads, n.width, n.width, at(d, q, t), at(from, q, t), n.k_gamma,
                                    n.more, rstd + n.heads, nullptr, at(to, q, t), of_k + b * n.width);
               if (dy != dx)
                 std::memcpy(at(to, rest, t), at(d, rest, t),
                             static_cast<size_t>(s.cols - rest) * size_of(t));
             }
           });
}

size_t Rows::rotary_workspace_bytes(int64_t rows, int64_t half) {
  return static_cast<size_t>(2 * rows * half) * sizeof(float);
}

void Rows::rotary(DType t, Size s, const Turn& turn, const void* x, void* y, void* workspace) const {
  // Positions repeat from row to row: one line of cosines and sines for each position if there are no more
  // positions than tokens, else one for each token.
  const int64_t half = turn.half;
  int64_t lines = 0;
  for (int64_t i = 0; i < s.rows; ++i) lines = std::max<int64_t>(lines, turn.positions[i] + 1);
  const bool by_position = lines <= s.rows;
  if (!by_position) lines = s.rows;
  float *cosines = static_cast<float*>(workspace), *sines = cosines + s.rows * half;
  constexpr int64_t kSineCost = 32;  // in elements, about
  for_shares(pool_, lines, half * kSineCost, 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line)
      for (int64_t i = 0; i < half; ++i) {
        const auto position = static_cast<float>(by_position ? line : turn.positions[line]);
        const float angle = position * turn.frequencies[i];
        cosines[line * half + i] = std::cos(angle) * turn.factor;
        sines[line * half + i] = (turn.back ? -std::sin(angle) : std::sin(angle)) * turn.factor;
      }
  });
  const StorageKernels& kernels = of(kernels_, t);
  for_shares(pool_, s.rows, s.cols, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t line = (by_position ? turn.positions[row] : row) * half, first = row * s.ld;
      kernels.rotate(turn.turned, half, cosines + line, sines + line, at(x, first, t), at(y, first, t));
      if (x == y) continue;
      const int64_t rest = turn.turned * 2 * half;
      std::memcpy(at(y, first + rest, t), at(x, first + rest, t),
                  static_cast<size_t>(s.cols - rest) * size_of(t));
    }
  });
}

size_t Rows::segment_mean_workspace_bytes(Size s) {
  return static_cast<size_t>(s.rows * s.cols) * sizeof(float);
}

void Rows::segment_mean(DType t, Size s, const int32_t* cu, const void* x, void* y, void* workspace,
                        int64_t x_ld) const {
  const int64_t ld = x_ld == 0 ? s.cols : x_ld;
  const int64_t each = s.rows == 0 ? 0 : cu[s.rows] / s.rows * s.cols;
  for_shares(pool_, s.rows, each, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      float* sums = static_cast<float*>(workspace) + b * s.cols;
      of(kernels_, t).column_sums(cu[b], cu[b + 1], s.cols, ld, x, sums);
      const float share = 1.f / static_cast<float>(std::max(1, cu[b + 1] - cu[b]));
      kernels_.f32.scale(s.cols, sums, share, sums);
      convert(kernels_, DType::f32, t, s.cols, sums, at(y, b * s.cols, t));
    }
  });
}

void Rows::segment_mean_bwd(DType t, Size s, const int32_t* cu, const void* dy, int64_t tokens, void* dx,
                            int64_t dx_ld) const {
  const int64_t ld = dx_ld == 0 ? s.cols : dx_ld;
  const size_t row_bytes = static_cast<size_t>(s.cols) * size_of(t);
  for (int64_t b = 0; b < s.rows; ++b) {
    if (cu[b] == cu[b + 1]) continue;
    std::byte* first = at(dx, cu[b] * ld, t);
    of(kernels_, t).scale(s.cols, at(dy, b * s.cols, t), 1.f / static_cast<float>(cu[b + 1] - cu[b]), first);
    for (int64_t n = cu[b] + 1; n < cu[b + 1]; ++n) std::memcpy(at(dx, n * ld, t), first, row_bytes);
  }
  for (int64_t n = cu[s.rows]; n < tokens; ++n) std::memset(at(dx, n * ld, t), 0, row_bytes);
}

}  // namespace lathe::cpu
