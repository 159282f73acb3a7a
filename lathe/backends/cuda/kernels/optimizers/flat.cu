// Accumulation of gradients, their norm, AdamW.
#include "lathe/backends/cuda/kernels/optimizers/flat.h"
#include "lathe/backends/cuda/kernels/reduce.cuh"
#include "lathe/ops/optimizers/optimizer.h"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFlat = 4;  // elements of a thread: 16 bytes

template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    accumulate_kernel(int64_t n, const float* keep, const float* g, float* total) {
  follow();
  const int64_t i = (int64_t{kThreads} * blockIdx.x + threadIdx.x) * kWidth;
  const float k = *keep;
  const auto sum = [&](float before, float more) { return k == 0 ? more : k * before + more; };
  if (i + kWidth <= n) {
    const Vec<float, kWidth> more = load_vec<kWidth>(g + i);
    Vec<float, kWidth> before{};
    if (k != 0) before = load_vec<kWidth>(total + i);
    float result[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) result[j] = sum(before.at[j], more.at[j]);
    store_vec(total + i, result);
  } else {
#pragma unroll 1
    for (int64_t j = i; j < n; ++j) total[j] = sum(k == 0 ? 0 : total[j], g[j]);
  }
}

/// Gradients as kernels read them: elements [first, last) are bf16.
struct Mixed {
  const float* exact;
  const __nv_bfloat16* rounded;
  int64_t first, last;

  explicit Mixed(const Gradients& g, int64_t from)
      : exact(g.exact),
        rounded(static_cast<const __nv_bfloat16*>(g.rounded)),
        first(from),
        last(from + g.rounded_count) {}

  /// kWidth neighbours are read at once.
  template <int kWidth>
  bool takes() const {
    const bool whole = first % kWidth == 0 && last % kWidth == 0;
    return whole && aligned16(exact) && reinterpret_cast<uintptr_t>(rounded) % (kWidth * 2) == 0;
  }

  template <int kWidth>
  __device__ void at(int64_t i, float (&to)[kWidth]) const {
    if (i >= first && i < last) {
      to_floats(load_vec<kWidth>(rounded + i - first), to);
    } else {
      to_floats(load_vec<kWidth>(exact + (i < first ? i : i - (last - first))), to);
    }
  }
};

template <typename T>
struct Squares {
  const T* g;
  template <int kWidth>
  __device__ void at(int64_t i, float (&to)[kWidth]) const {
    to_floats(load_vec<kWidth>(g + i), to);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) to[j] *= to[j];
  }
};

struct Norm {
  const float* hyper;
  __device__ float operator()(double sum) const {
    return static_cast<float>(sqrt(sum) * hyper[static_cast<int>(Hyper::kInverseScale)]);
  }
};

/// What every element of an update shares, worked out in double and rounded once.
struct Scalars {
  float take1, take2;  ///< (1 − β₁) · s and (1 − β₂) · s², s: what the gradients are multiplied by
  float decay;         ///< 1 − learning rate · weight decay
  float step;          ///< learning rate / (1 − β₁ᵗ)
  float inverse_root;  ///< 1 / √(1 − β₂ᵗ)
  int apply;           ///< norm and loss are finite
};

__global__ void scalars_kernel(AdamW a, const float* norm, const float* loss, const float* hyper,
                               Scalars* to) {
  follow();
  const auto h = [&](Hyper which) { return static_cast<double>(hyper[static_cast<int>(which)]); };
  const double max_norm = h(Hyper::kMaxGradNorm);
  double s = h(Hyper::kInverseScale);
  if (max_norm > 0) s *= fmin(1.0, max_norm / (*norm + 1e-6));
  to->take1 = static_cast<float>((1 - a.beta1) * s);
  to->take2 = static_cast<float>((1 - a.beta2) * s * s);
  to->decay = static_cast<float>(1 - h(Hyper::kLearningRate) * a.weight_decay);
  to->step = static_cast<float>(h(Hyper::kLearningRate) / h(Hyper::kBiasCorrection1));
  to->inverse_root = static_cast<float>(1 / sqrt(h(Hyper::kBiasCorrection2)));
  to->apply = isfinite(*norm) && isfinite(*loss);
}

/// The constants of an update.
struct Betas {
  float beta1, beta2, eps;
  int64_t decayed;
};

template <int kWidth, typename R>
__device__ inline void update(int64_t i, const Betas& b, const Scalars& s, const Mixed& g, float* p, float* m,
                              float* v, R* rounded) {
  const Vec<float, kWidth> ms = load_vec<kWidth>(m + i), vs = load_vec<kWidth>(v + i);
  float gs[kWidth];
  g.at<kWidth>(i, gs);
  bool idle = b.eps > 0 && (s.decay == 1 || i >= b.decayed);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) idle = idle && gs[j] == 0 && ms.at[j] == 0 && vs.at[j] == 0;
  if (idle) return;  // all stay as they are: words that no text has had yet
  const Vec<float, kWidth> ps = load_vec<kWidth>(p + i);
  float p1[kWidth], m1[kWidth], v1[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    m1[j] = b.beta1 * ms.at[j] + s.take1 * gs[j];
    v1[j] = b.beta2 * vs.at[j] + s.take2 * (gs[j] * gs[j]);
    p1[j] = i + j < b.decayed ? ps.at[j] * s.decay : ps.at[j];
    p1[j] -= s.step * m1[j] / (sqrtf(v1[j]) * s.inverse_root + b.eps);
  }
  store_vec(m + i, m1);
  store_vec(v + i, v1);
  store_vec(p + i, p1);
  if (rounded != nullptr) store_vec(rounded + i, p1);
}

template <int kWidth, typename R>
__global__ void __launch_bounds__(kThreads) adamw_kernel(int64_t n, Betas b, const Scalars* scalars, Mixed g,
                                                         float* p, float* m, float* v, R* rounded) {
  follow();
  const int64_t i = (int64_t{kThreads} * blockIdx.x + threadIdx.x) * kWidth;
  const Scalars s = *scalars;
  if (!s.apply) return;
  if (i + kWidth <= n)
    update<kWidth>(i, b, s, g, p, m, v, rounded);
  else
#pragma unroll 1
    for (int64_t j = i; j < n; ++j) update<1>(j, b, s, g, p, m, v, rounded);
}

struct SgdConstants {
  float momentum, weight_decay;
  bool nesterov;
  int64_t decayed;
};

__global__ void __launch_bounds__(kThreads)
    sgd_kernel(int64_t n, SgdConstants a, const float* g, const float* norm, const float* loss,
               const float* hyper, float* p, float* m) {
  follow();
  const int64_t i = int64_t{kThreads} * blockIdx.x + threadIdx.x;
  if (i >= n || !isfinite(*norm) || !isfinite(*loss)) return;
  const auto h = [&](Hyper which) { return hyper[static_cast<int>(which)]; };
  const float most = h(Hyper::kMaxGradNorm), clip = most > 0 ? fminf(1.f, most / (*norm + 1e-6f)) : 1.f;
  const float grad = g[i] * (h(Hyper::kInverseScale) * clip) + (i < a.decayed ? a.weight_decay * p[i] : 0.f);
  float step = grad;
  if (a.momentum != 0) {
    const float kept = a.momentum * m[i] + h(Hyper::kTake) * grad;
    step = a.nesterov ? grad + a.momentum * kept : kept;
    m[i] = kept;
  }
  p[i] -= h(Hyper::kLearningRate) * step;
}

unsigned blocks_of(int64_t n, int64_t width) { return static_cast<unsigned>(ceil_div(n, kThreads * width)); }

}  // namespace

void accumulate(cudaStream_t stream, int64_t n, const float* keep, const float* g, float* total) {
  if (n == 0) return;
  if (aligned16(g, static_cast<const float*>(total)))
    accumulate_kernel<kFlat><<<blocks_of(n, kFlat), kThreads, 0, stream>>>(n, keep, g, total);
  else
    accumulate_kernel<1><<<blocks_of(n, 1), kThreads, 0, stream>>>(n, keep, g, total);
}

void sgd(cudaStream_t stream, const Sgd& a, int64_t n, const float* g, const float* norm, const float* loss,
         const float* hyper, float* p, float* m) {
  if (n == 0) return;
  const SgdConstants constants{static_cast<float>(a.momentum), static_cast<float>(a.weight_decay), a.nesterov,
                               a.decayed};
  sgd_kernel<<<blocks_of(n, 1), kThreads, 0, stream>>>(n, constants, g, norm, loss, hyper, p, m);
}

/// Sums of squares in parts; returns their number.
template <typename T>
int64_t square_parts(cudaStream_t stream, int64_t n, const T* g, double* parts) {
  if (n == 0) return 0;
  if (aligned16(g))
    sum_in_parts<16 / sizeof(T)>(stream, n, Squares<T>{g}, parts);
  else
    sum_in_parts<1>(stream, n, Squares<T>{g}, parts);
  return sum_blocks(n);
}

size_t grad_norm_workspace_bytes(int64_t exact_count, int64_t rounded_count) {
  return sum_workspace_bytes(exact_count) + sum_workspace_bytes(rounded_count);
}

void grad_norm(cudaStream_t stream, const Gradients& g, const float* hyper, float* norm, void* workspace) {
  double* const parts = static_cast<double*>(workspace);
  int64_t count = square_parts(stream, g.rounded_count, static_cast<const __nv_bfloat16*>(g.rounded), parts);
  count += square_parts(stream, g.exact_count, g.exact, parts + count);
  finish_kernel<<<1, kSumThreads, 0, stream>>>(count, parts, Norm{hyper}, norm);
}

void adamw(cudaStream_t stream, const AdamW& a, const Gradients& g, const float* norm, const float* loss,
           const float* hyper, float* p, float* m, float* v, void* rounded, DType rounded_type,
           void* workspace) {
  static_assert(sizeof(Scalars) <= kAdamwWorkspaceBytes);
  const int64_t n = g.exact_count + g.rounded_count;
  if (n == 0) return;
  Scalars* scalars = static_cast<Scalars*>(workspace);
  scalars_kernel<<<1, 1, 0, stream>>>(a, norm, loss, hyper, scalars);
  const Betas b{static_cast<float>(a.beta1), static_cast<float>(a.beta2), static_cast<float>(a.eps),
                a.decayed};
  with_type(rounded_type, [&](auto* type) {
    using R = std::remove_pointer_t<decltype(type)>;
    R* to = static_cast<R*>(rounded);
    const Mixed mixed(g, g.first);
    if (mixed.takes<kFlat>() && aligned16(p, m, v, to))
      adamw_kernel<kFlat, R><<<blocks_of(n, kFlat), kThreads, 0, stream>>>(n, b, scalars, mixed, p, m, v, to);
    else
      adamw_kernel<1, R><<<blocks_of(n, 1), kThreads, 0, stream>>>(n, b, scalars, mixed, p, m, v, to);
  });
}

}  // namespace lathe::cuda
