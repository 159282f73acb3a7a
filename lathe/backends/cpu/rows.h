#pragma once
#include <cstddef>
#include <cstdint>

#include "lathe/backends/cpu/isa.h"
#include "lathe/backends/cpu/isa/rows/rows_kernels.h"
#include "lathe/backends/cpu/written_rows.h"
#include "lathe/core/dtype.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

/// The kernels of an instruction set (levels without their own take the next lower one).  Errors: none; the
/// level must be one of `available_isas()`.
const RowKernels& row_kernels(Isa isa);

/// Everything that is not a matrix product or attention, over all threads of a pool.
///
/// Tensors are row-major, and dense but where a Size says else; their storage `t` is f32, bf16 or f16;
/// arithmetic and statistics are f32.
/// An elementwise output may be its input.  Nothing allocates: the caller provides a workspace, 64-byte
/// aligned, of `…_workspace_bytes`, with any content.  Bits depend neither on the number of threads nor on
/// the workspace.
class Rows {
 public:
  /// The size of every matrix of a call that has these rows and columns; `ld`: elements from row to row, for
  /// matrices in storage `t`.  Losses take only dense matrices.
  struct Size {
    int64_t rows, cols, ld;
    Size(int64_t m, int64_t n) : Size(m, n, n) {}
    Size(int64_t m, int64_t n, int64_t row_to_row) : rows(m), cols(n), ld(row_to_row) {}
    Size(int64_t elements) : Size(1, elements) {}  ///< a row of this many elements
    bool dense() const { return rows == 1 || ld == cols; }
  };
  /// What decides the dropout of rows: sample_ids, positions: [rows]; positions may be null: 0.
  struct Dropped {
    DropoutRule rule;
    const int32_t *sample_ids, *positions;
  };
  /// What a normalisation reads and writes in addition to its rows.  gamma, beta: [cols], beta null where
  /// there is none; mean, rstd: [rows].
  struct Norm {
    const float *gamma, *beta;
    float eps;
    float *mean, *rstd;
  };

  /// The same of a normalisation by the root mean square, whose weights are gamma + more.
  struct RmsNorm {
    const float* gamma;
    float more, eps;
    float* rstd;
  };

  Rows(ThreadPool& pool, Isa isa) : pool_(pool), kernels_(row_kernels(isa)) {}

  /// y = (x − mean) · rstd · gamma + beta.  x, y: [rows, cols].
  void layer_norm(DType t, Size s, const void* x, const Norm& norm, void* y) const;
  /// dx: [rows, cols] (may be dy); dgamma, dbeta: [cols].  No rows: dgamma = dbeta = 0.  If `dropped` is not
  /// null, also dd = dropout(dx); if `past` is not null, it is added to dx.
  void layer_norm_bwd(DType t, Size s, const void* dy, const void* x, const float* gamma, const float* mean,
                      const float* rstd, void* dx, float* dgamma, float* dbeta, void* workspace,
                      const Dropped* dropped = nullptr, void* dd = nullptr, const void* past = nullptr) const;
  static size_t layer_norm_bwd_workspace_bytes(Size s);
  /// sum = x + r, or dropout(x) + r where `dropped` is not null, and y = layer_norm(sum) of what was stored.
  void add_layer_norm(DType t, Size s, const Dropped* dropped, const void* x, const void* r, const Norm& norm,
                      void* sum, void* y) const;
  /// y = x · rstd · weights; if `r` is not null, of sum = x + r.
  void rms_norm(DType t, Size s, const void* x, const void* r, const RmsNorm& norm, void* sum, void* y) const;
  /// As layer_norm_bwd; reads norm.rstd.
  void rms_norm_bwd(DType t, Size s, const void* dy, const void* x, const RmsNorm& norm, const void* past,
                    void* dx, float* dgamma, void* workspace) const;
  static size_t rms_norm_bwd_workspace_bytes(Size s) { return column_sums_workspace_bytes(s); }
  /// Norms of heads: q of `heads` and k of `kv_heads` heads of `width` columns each; the other columns of a
  /// row stay.  rstd: [rows, heads + kv_heads].
  struct HeadNorm {
    int64_t heads, kv_heads, width;
    const float *q_gamma, *k_gamma;
    float more, eps;
    float* rstd;
  };
  void head_norm(DType t, Size s, const void* x, const HeadNorm& norm, void* y) const;
  /// dq_gamma, dk_gamma: [width]; reads norm.rstd.
  void head_norm_bwd(DType t, Size s, const void* dy, const void* x, const HeadNorm& norm, void* dx,
                     float* dq_gamma, float* dk_gamma, void* workspace) const;
  static size_t head_norm_bwd_workspace_bytes(int64_t rows, int64_t width) {
    return 2 * column_sums_workspace_bytes({rows, width});
  }
  /// sum[i] = Σ tables[k][ids[k][i]] over three tables of `t`, in f32, and y = layer_norm(sum).
  void embed_layer_norm(DType t, Size s, const void* const tables[3], const int32_t* const ids[3],
                        const Norm& norm, float* sum, float* y) const;

  /// sums: [cols], over the rows of x.
  void column_sums(DType t, Size s, const void* x, float* sums, void* workspace) const;
  static size_t column_sums_workspace_bytes(Size s);

  /// Elementwise.  gelu is the exact form x · Φ(x); its derivative takes x, those of relu and tanh take y.
  /// cold: y is in no cache, and may be written past the caches.
  void gelu(DType t, Size s, const void* x, void* y, bool cold = false) const;
  void gelu_bwd(DType t, Size s, const void* dy, const void* x, void* dx) const;
  void relu(DType t, Size s, const void* x, void* y) const;
  void relu_bwd(DType t, Size s, const void* dy, const void* y, void* dx) const;
  void tanh(DType t, Size s, const void* x, void* y) const;
  void tanh_bwd(DType t, Size s, const void* dy, const void* y, void* dx) const;
  /// y = activation(input) · gate; s: shape of y, and dy.  A row of x or dx is the row of input and then the
  /// row of gate; rows are `x_ld` elements apart, 0: no gaps.
  void gated(DType t, Activation activation, Size s, const void* x, void* y, int64_t x_ld = 0) const;
  void gated_bwd(DType t, Activation activation, Size s, const void* dy, const void* x, void* dx,
                 int64_t x_ld = 0) const;
  void add(DType t, Size s, const void* a, const void* b, void* y) const;
  void mul(DType t, Size s, const void* a, const void* b, void* y) const;
  void scale(DType t, Size s, const void* x, float factor, void* y) const;
  /// From storage `from` to storage `to`; equal ones copy.  Not in place when they differ.  s: of x; the rows
  /// of y are `y_ld` elements apart, 0: no gaps.
  void cast(DType from, DType to, Size s, const void* x, void* y, int64_t y_ld = 0) const;

  /// y = dropout(x) (lathe/core/philox.h).
  void dropout(DType t, Size s, const Dropped& dropped, const void* x, void* y) const;

  /// y = x, maybe in place, with the first `turned` pieces of 2 · half columns of each row turned by the
  /// row's position and multiplied with factor.  frequencies: [half]; back: by the negative angle.
  /// positions ≥ 0.
  struct Turn {
    int64_t turned, half;
    const float* frequencies;
    const int32_t* positions;
    bool back;
    float factor;
  };
  void rotary(DType t, Size s, const Turn& turn, const void* x, void* y, void* workspace) const;
  static size_t rotary_workspace_bytes(int64_t rows, int64_t half);

  /// y[b]: the mean of the rows of x from cu[b] to before cu[b+1], 0 where there is none.  s: shape of y; the
  /// rows of x are `x_ld` elements apart, 0: no gaps.
  void segment_mean(DType t, Size s, const int32_t* cu, const void* x, void* y, void* workspace,
                    int64_t x_ld = 0) const;
  static size_t segment_mean_workspace_bytes(Size s);
  /// dx: [tokens, s.cols], rows `dx_ld` apart as above; 0 after the last row.  s: shape of dy.
  void segment_mean_bwd(DType t, Size s, const int32_t* cu, const void* dy, int64_t tokens, void* dx,
                        int64_t dx_ld = 0) const;

  /// y[i] = table[ids[i]]; s: shape of y.  Every id must be a row of the table, whose rows are `table_ld`
  /// elements apart, 0: no gaps.
  void gather_rows(DType from, DType to, Size s, const void* table, const int32_t* ids, void* y,
                   int64_t table_ld = 0) const;
  /// dtable[v] = Σ dy[i] over ids[i] = v in ascending i, 0 if there is none and for v = padding.  s: shape of
  /// dy; dtable: [table_rows, s.cols], table_ld as above.  With `rows`, of a table of kSmallTable rows or
  /// more: writes only the rows that have an id, and into `rows` which they are.
  void scatter_add_rows(DType from, DType to, Size s, const void* dy, const int32_t* ids, int64_t table_rows,
                        int64_t padding, void* dtable, void* workspace, WrittenRows* rows = nullptr,
                        int64_t table_ld = 0) const;
  static constexpr int64_t kSmallTable = 1024;
  static size_t scatter_add_rows_workspace_bytes(Size s, int64_t table_rows);

  /// Σ x², in double; of f32 to 10⁻¹², of numbers of two bytes to 3 · 2⁻²⁴ of itself.  table: within x.
  double sum_of_squares(int64_t n, DType dtype, const void* x, void* workspace,
                        const WrittenRows* table = nullptr) const;
  static size_t sum_of_squares_workspace_bytes(int64_t n);
  /// total = keep · total + g; keep = 0 does not read total.
  void accumulate(int64_t n, float keep, const float* g, float* total) const;

  /// Mean over the rows whose label lies in [0, cols) of −log softmax(logits)[label]; 0 if there is none.
  /// smoothing: the share of a label that is spread evenly over all columns.
  float cross_entropy(Size s, double smoothing, const float* logits, const int32_t* labels,
                      void* workspace) const;
  /// dlogits = dloss · (softmax − smoothed one-hot) / count; 0 in the other rows.
  void cross_entropy_bwd(Size s, double smoothing, float dloss, const float* logits, const int32_t* labels,
                         float* dlogits) const;
  /// The same where the scores of row b are logits[cu[b] … cu[b+1])[column]; targets[b] counts from cu[b].
  /// logits, dlogits: [s.rows, s.cols], cu: [rows+1].  All other elements of dlogits are 0.
  float segment_cross_entropy(Size s, int64_t column, const float* logits, int64_t rows, const int32_t* cu,
                              const int32_t* targets, void* workspace) const;
  void segment_cross_entropy_bwd(Size s, int64_t column, float dloss, const float* logits, int64_t rows,
                                 const int32_t* cu, const int32_t* targets, float* dlogits) const;
  /// rows: of labels or targets.
  static size_t cross_entropy_workspace_bytes(int64_t rows);

 private:
  ThreadPool& pool_;
  const RowKernels& kernels_;
};

/// The rule of a site at probability p.
DropoutRule dropout_rule(uint32_t seed, uint32_t step, uint32_t site, double p);

}  // namespace lathe::cpu
