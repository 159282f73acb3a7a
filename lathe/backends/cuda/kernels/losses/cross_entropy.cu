// Cross entropy over classes and over the tokens of a row.  A warp takes a row of few scores, a block one of
// many (a vocabulary).  The derivative reads the scores twice, since the loss keeps no sums.
#include "lathe/backends/cuda/kernels/losses/losses.h"
#include "lathe/backends/cuda/kernels/reduce.cuh"

namespace lathe::cuda {
namespace {

constexpr int kThreads = 512;
/// Rows of at most so many scores are a warp's.
constexpr int64_t kWarpScores = 1024;

/// One row of scores, `stride` apart, among which `target` is right.  Targets outside are ignored.
struct Choice {
  int64_t begin, length, stride, target;
  __device__ bool counts() const { return target >= 0 && target < length; }
};

struct ClassRows {
  int64_t rows, cols;
  const int32_t* labels;
  __device__ Choice operator()(int64_t row) const { return {row * cols, cols, 1, labels[row]}; }
};

struct TokenRows {
  int64_t rows, cols, column;
  const int32_t *cu, *targets;
  __device__ Choice operator()(int64_t row) const {
    return {cu[row] * cols + column, cu[row + 1] - cu[row], cols, targets[row]};
  }
};

/// The largest score so far, Σ e^(score − largest), and Σ score.
struct Partition {
  float largest = -INFINITY, sum = 0, total = 0;

  /// What is subtracted: finite where all scores are −∞.
  __device__ static float origin(float largest) { return largest == -INFINITY ? 0 : largest; }
  __device__ void move_to(float to) {
    sum *= expf(largest - origin(to));
    largest = to;
  }
  template <int kCount>
  __device__ void add(const float (&x)[kCount]) {
    float top = largest;
#pragma unroll
    for (int k = 0; k < kCount; ++k) top = fmaxf(top, x[k]);
    if (top > largest) move_to(top);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      sum += expf(x[k] - origin(largest));
      total += x[k];
    }
  }
};

/// Threads that share a row: a warp, or a block.
template <bool kBlock>
struct Team {
  static constexpr int kSize = kBlock ? kThreads : kWarp;
  static constexpr int kPerBlock = kThreads / kSize;
  int rank;
  int64_t row;

  __device__ Team()
      : rank(static_cast<int>(threadIdx.x) % kSize),
        row(int64_t{kPerBlock} * blockIdx.x + threadIdx.x / kSize) {}

  /// The partition of all, in every thread.  Every thread of the team calls it.
  __device__ Partition join(Partition p) const {
    const float top = warp_max(p.largest);
    p.move_to(top);
    p.sum = warp_sum(p.sum);
    p.total = warp_sum(p.total);
    if constexpr (kBlock) {
      __shared__ float largest[kThreads / kWarp], sum[kThreads / kWarp], total[kThreads / kWarp];
      if (threadIdx.x % kWarp == 0) {
        largest[threadIdx.x / kWarp] = p.largest;
        sum[threadIdx.x / kWarp] = p.sum;
        total[threadIdx.x / kWarp] = p.total;
      }
      __syncthreads();
      p = {};
      for (float each : largest) p.largest = fmaxf(p.largest, each);
      for (int w = 0; w < kThreads / kWarp; ++w) {
        Partition part{largest[w], sum[w]};
        part.move_to(p.largest);
        p.sum += part.sum;
        p.total += total[w];
      }
    }
    return p;
  }
};

/// Calls f with the index of the first of one or four (a type's constant) scores.  Four are neighbours whose
/// address is a multiple of 16 bytes.
template <typename Team, typename F>
__device__ inline void for_scores(const Team& team, const Choice& c, const float* x, bool vectors, F f) {
  using One = std::integral_constant<int, 1>;
  using Four = std::integral_constant<int, 4>;
  const int64_t before =
      vectors && c.stride == 1 ? (4 - reinterpret_cast<uintptr_t>(x) / 4 % 4) % 4 : c.length;
  const int64_t head = min(before, c.length), fours = (c.length - head) / 4;
  for (int64_t i = team.rank; i < head; i += Team::kSize) f(i, One{});
#pragma unroll 2
  for (int64_t k = team.rank; k < fours; k += Team::kSize) f(head + 4 * k, Four{});
  for (int64_t i = head + 4 * fours + team.rank; i < c.length; i += Team::kSize) f(i, One{});
}

template <typename Team>
__device__ inline Partition partition_of(const Team& team, const Choice& c, const float* x) {
  Partition p;
  for_scores(team, c, x, true, [&](int64_t i, auto count) {
    float part[count];
#pragma unroll
    for (int k = 0; k < count; ++k) part[k] = 0;
    if constexpr (count == 4) {
      const Vec<float, 4> four = load_vec<4>(x + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) part[k] = four.at[k];
    } else {
      part[0] = x[i * c.stride];
    }
    p.add(part);
  });
  return team.join(p);
}

/// losses[row] = −log softmax at the smoothed target, 0 in rows that do not count.
template <bool kBlock, typename Rows>
__global__ void __launch_bounds__(kThreads)
    losses_kernel(Rows rows, float smoothing, const float* logits, float* losses) {
  follow();
  const Team<kBlock> team;
  if (team.row >= rows.rows) return;
  const Choice c = rows(team.row);
  if (!c.counts()) {
    if (team.rank == 0) losses[team.row] = 0;
    return;
  }
  const float* x = logits + c.begin;
  const Partition p = partition_of(team, c, x);
  if (team.rank != 0) return;
  const float right = x[c.target * c.stride];
  // A score of −∞ elsewhere must not matter where nothing is spread.
  const float wanted = smoothing == 0 ? right : right + smoothing * (p.total / c.length - right);
  losses[team.row] = logf(p.sum) + (p.largest - wanted);
}

constexpr int kFinishThreads = 1024;

template <typename Rows>
__device__ inline int counted(const Rows& rows, int* scratch) {
  int count = 0;
  for (int64_t row = threadIdx.x; row < rows.rows; row += kFinishThreads) count += rows(row).counts();
  return block_sum(count, scratch);
}

template <typename Rows>
__global__ void __launch_bounds__(kFinishThreads) mean_kernel(Rows rows, const float* losses, float* loss) {
  follow();
  __shared__ double sums[kWarp];
  __shared__ int counts[kWarp];
  double sum = 0;
  for (int64_t row = threadIdx.x; row < rows.rows; row += kFinishThreads) sum += losses[row];
  sum = block_sum(sum, sums);
  const int count = counted(rows, counts);
  if (threadIdx.x == 0) *loss = count == 0 ? 0.f : static_cast<float>(sum / count);
}

/// factor[0] = dloss / count.
template <typename Rows>
__global__ void __launch_bounds__(kFinishThreads)
    factor_kernel(Rows rows, const float* dloss, float* factor) {
  follow();
  __shared__ int counts[kWarp];
  const int count = counted(rows, counts);
  if (threadIdx.x == 0) *factor = *dloss / static_cast<float>(max(count, 1));
}

/// kClear: rows that do not count are set to 0; elsewhere everything is 0 already.
template <bool kBlock, bool kClear, typename Rows>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(Rows rows, float smoothing, const float* factor, const float* logits, float* dlogits) {
  follow();
  const Team<kBlock> team;
  if (team.row >= rows.rows) return;
  const Choice c = rows(team.row);
  const float* x = logits + c.begin;
  float* dx = dlogits + c.begin;
  const bool vectors = (reinterpret_cast<uintptr_t>(x) - reinterpret_cast<uintptr_t>(dx)) % 16 == 0;
  const bool counts = c.counts();
  if (!counts && !kClear) return;
  Partition p;
  float by = 0, log_sum = 0;
  if (counts) {
    p = partition_of(team, c, x);
    by = *factor;
    log_sum = logf(p.sum);
  }
  const auto gradient = [&](int64_t i, float score) {
    const float log_p = (score - p.largest) - log_sum;
    const float rest = i == c.target ? expm1f(log_p) + smoothing : expf(log_p);
    return !counts ? 0.f : by * (rest - smoothing / c.length);
  };
  for_scores(team, c, x, vectors, [&](int64_t i, auto count) {
    if constexpr (count == 4) {
      const Vec<float, 4> four = counts ? load_vec<4>(x + i) : Vec<float, 4>{};
      float d[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) d[k] = gradient(i + k, four.at[k]);
      store_vec(dx + i, d);
    } else {
      dx[i * c.stride] = gradient(i, counts ? x[i * c.stride] : 0.f);
    }
  });
}

template <bool kBlock>
unsigned blocks_of(int64_t rows) {
  return static_cast<unsigned>(ceil_div(rows, Team<kBlock>::kPerBlock));
}

/// longest: a guess of the scores of a row.
template <typename Rows>
void choice_loss(cudaStream_t stream, const Rows& rows, int64_t longest, double smoothing,
                 const float* logits, float* loss, float* losses) {
  const float share = static_cast<float>(smoothing);
  if (rows.rows > 0 && longest > kWarpScores)
    losses_kernel<true><<<blocks_of<true>(rows.rows), kThreads, 0, stream>>>(rows, share, logits, losses);
  else if (rows.rows > 0)
    losses_kernel<false><<<blocks_of<false>(rows.rows), kThreads, 0, stream>>>(rows, share, logits, losses);
  mean_kernel<<<1, kFinishThreads, 0, stream>>>(rows, losses, loss);
}

template <bool kClear, typename Rows>
void choice_gradient(cudaStream_t stream, const Rows& rows, int64_t longest, double smoothing,
                     const float* dloss, const float* logits, float* dlogits, float* factor) {
  if (rows.rows == 0) return;
  const float share = static_cast<float>(smoothing);
  factor_kernel<<<1, kFinishThreads, 0, stream>>>(rows, dloss, factor);
  if (longest > kWarpScores)
    gradient_kernel<true, kClear>
        <<<blocks_of<true>(rows.rows), kThreads, 0, stream>>>(rows, share, factor, logits, dlogits);
  else
    gradient_kernel<false, kClear>
        <<<blocks_of<false>(rows.rows), kThreads, 0, stream>>>(rows, share, factor, logits, dlogits);
}

int64_t tokens_per_row(ScoresSize s, int64_t rows) { return ceil_div(s.rows, rows > 0 ? rows : 1); }

}  // namespace

size_t cross_entropy_workspace_bytes(int64_t rows) {
  return static_cast<size_t>(rows > 0 ? rows : 1) * sizeof(float);
}

void cross_entropy(cudaStream_t stream, ScoresSize s, double smoothing, const float* logits,
                   const int32_t* labels, float* loss, void* workspace) {
  choice_loss(stream, ClassRows{s.rows, s.cols, labels}, s.cols, smoothing, logits, loss,
              static_cast<float*>(workspace));
}

void cross_entropy_bwd(cudaStream_t stream, ScoresSize s, double smoothing, const float* dloss,
                       const float* logits, const int32_t* labels, float* dlogits, void* workspace) {
  choice_gradient<true>(stream, ClassRows{s.rows, s.cols, labels}, s.cols, smoothing, dloss, logits, dlogits,
                        static_cast<float*>(workspace));
}

void segment_cross_entropy(cudaStream_t stream, ScoresSize s, int64_t column, const float* logits,
                           int64_t rows, const int32_t* cu, const int32_t* targets, float* loss,
                           void* workspace) {
  choice_loss(stream, TokenRows{rows, s.cols, column, cu, targets}, tokens_per_row(s, rows), 0, logits, loss,
              static_cast<float*>(workspace));
}

void segment_cross_entropy_bwd(cudaStream_t stream, ScoresSize s, int64_t column, const float* dloss,
                               const float* logits, int64_t rows, const int32_t* cu, const int32_t* targets,
                               float* dlogits, void* workspace) {
  cudaMemsetAsync(dlogits, 0, static_cast<size_t>(s.rows * s.cols) * sizeof(float), stream);
  choice_gradient<false>(stream, TokenRows{rows, s.cols, column, cu, targets}, tokens_per_row(s, rows), 0,
                         dloss, logits, dlogits, static_cast<float*>(workspace));
}

}  // namespace lathe::cuda
