#pragma once
// Plain declarations only: this header is compiled once per instruction set.
#include <stdint.h>

namespace lathe::cpu {

/// What decides the dropout of one site at one step (lathe/core/philox.h).
struct DropoutRule {
  uint32_t seed, step, site;
  uint32_t threshold;  ///< dropout_threshold(p); 0 drops nothing
  float scale;         ///< dropout_scale(p)
};
/// Philox: what words 0 and 2 of a counter are multiplied with, and what each round adds to the keys.
constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier2 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

/// Activations of gated layers: their place in the tables of kernels.
enum class Activation { kGelu, kSilu, kGeluTanh };
constexpr int kActivations = 3;

/// One AdamW update, as torch: p *= 1 − lr·decay; m, v moving averages of g and g²;
/// p −= lr / bias_correction1 · m / (√v / √bias_correction2 + eps).
struct AdamW {
  double lr, weight_decay, beta1, beta2, eps;
  double bias_correction1, bias_correction2;  ///< 1 − βᵗ
  double clip = 1;                            ///< multiplies the gradient: clipping and loss scale
};

/// Kernels on rows stored as f32, bf16 or f16 (`void*`), for one thread.  [begin, end) are rows, `ld`
/// elements from each other where a kernel takes ld, else without gaps.
struct StorageKernels {
  /// beta may be null: 0.
  void (*layer_norm)(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* x, const float* gamma,
                     const float* beta, float eps, void* y, float* mean, float* rstd);
  /// past, or null: is added to dx, which may lie over any of the matrices.  dgamma, dbeta: sums over only
  /// these rows.
  void (*layer_norm_bwd)(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* dy, const void* x,
                         const float* gamma, const float* mean, const float* rstd, const void* past, void* dx,
                         float* dgamma, float* dbeta);
  /// Weights are gamma + more.
  void (*rms_norm)(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* x, const float* gamma,
                   float more, float eps, void* y, float* rstd);
  /// As layer_norm_bwd, but adds to what dgamma holds.
  void (*rms_norm_bwd)(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* dy, const void* x,
                       const float* gamma, float more, const float* rstd, const void* past, void* dx,
                       float* dgamma);
  void (*column_sums)(int64_t begin, int64_t end, int64_t cols, int64_t ld, const void* x, float* sums);
  void (*gelu)(int64_t n, const void* x, void* y);
  void (*gelu_cold)(int64_t n, const void* x, void* y);  ///< y may be written past the caches, until `fence`
  void (*relu)(int64_t n, const void* x, void* y);
  void (*tanh)(int64_t n, const void* x, void* y);
  void (*gelu_bwd)(int64_t n, const void* dy, const void* x, void* dx);
  void (*relu_bwd)(int64_t n, const void* dy, const void* y, void* dx);
  void (*tanh_bwd)(int64_t n, const void* dy, const void* y, void* dx);
  /// By activation.  y, dy: rows of `cols`; x, dx: rows of twice as many, `x_ld` from each other.
  void (*gated[kActivations])(int64_t begin, int64_t end, int64_t cols, int64_t ld, int64_t x_ld,
                              const void* x, void* y);
  void (*gated_bwd[kActivations])(int64_t begin, int64_t end, int64_t cols, int64_t ld, int64_t x_ld,
                                  const void* dy, const void* x, void* dx);
  /// cosines, sines: [half]; x, y: [pieces][2 · half].
  void (*rotate)(int64_t pieces, int64_t half, const float* cosines, const float* sines, const void* x,
                 void* y);
  void (*add)(int64_t n, const void* a, const void* b, void* y);
  void (*mul)(int64_t n, const void* a, const void* b, void* y);
  void (*scale)(int64_t n, const void* x, float factor, void* y);
  void (*to_f32)(int64_t n, const void* x, float* y);
  void (*from_f32)(int64_t n, const float* x, void* y);
  void (*dropout)(int64_t begin, int64_t end, int64_t cols, int64_t ld, const DropoutRule* rule,
                  const int32_t* sample_ids, const int32_t* positions, const void* x, const void* residual,
                  void* y);
  double (*sum_of_squares)(int64_t n, const void* x);
  /// y[0 … n) = Σ over i < count of x[rows[i] · ld …), stored as the name says; x in this storage.
  void (*sum_rows_to_f32)(int64_t n, int64_t ld, const void* x, const int32_t* rows, int64_t count, float* y);
  void (*sum_rows_to_bf16)(int64_t n, int64_t ld, const void* x, const int32_t* rows, int64_t count, void* y);
  void (*sum_rows_to_f16)(int64_t n, int64_t ld, const void* x, const int32_t* rows, int64_t count, void* y);
};

/// All row kernels of one instruction set.
struct RowKernels {
  StorageKernels f32, bf16, f16;
  /// out[c] = Σ of partial[b · cols + c] over b = 0, step, 2 · step … < blocks for c in [begin, end), as a
  /// balanced tree; partial is overwritten, and may be out.
  void (*sum_blocks)(int64_t begin, int64_t end, int64_t cols, int64_t step, int64_t blocks, float* partial,
                     float* out);
  void (*adamw)(int64_t n, const AdamW* a, const float* grad, float* param, float* m, float* v);
  void (*accumulate)(int64_t n, float keep, const float* g, float* total);
  /// log Σ exp(x[i · stride]) over i < n.
  double (*log_sum_exp)(int64_t n, int64_t stride, const float* x);
  /// dx[i · stride] = factor · exp(x[i · stride] − lse)
  void (*softmax_bwd)(int64_t n, int64_t stride, const float* x, double lse, float factor, float* dx);
  /// After it other threads see what was written past the caches.
  void (*fence)();
};

extern const RowKernels kRowsPortable;
#if defined(__x86_64__)
extern const RowKernels kRowsAvx2, kRowsAvx512, kRowsAvx512Bf16;
#endif
#if defined(__aarch64__)
extern const RowKernels kRowsNeon;
#endif

}  // namespace lathe::cpu
