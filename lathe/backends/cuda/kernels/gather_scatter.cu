// Picking rows of a table and its transpose.  The transpose sorts (id, i), so that the rows of one id are
// neighbours, and adds them up in pieces of a fixed length: a table row that lies within one piece is written
// at once, the sums of one that crosses pieces go through the workspace.
#include <algorithm>
#include <bit>

#include "lathe/backends/cuda/kernels/rows.h"
#include "lathe/backends/cuda/kernels/vector.cuh"

namespace lathe::cuda {
namespace {

constexpr int kGatherThreads = 256;
constexpr int kGatherRows = kGatherThreads / kWarp;
/// Words that a lane loads at once.
constexpr int kGatherWords = 4;

/// One warp per row of `words` words.
template <typename Word>
__global__ void __launch_bounds__(kGatherThreads)
    gather_kernel(int64_t rows, int64_t words, const Word* table, const int32_t* ids, Word* y) {
  const int64_t r = int64_t{kGatherRows} * blockIdx.x + threadIdx.x / kWarp;
  if (r >= rows) return;
  const Word* from = table + ids[r] * words;
  Word* to = y + r * words;
  for (int64_t first = threadIdx.x % kWarp; first < words; first += kGatherWords * kWarp) {
    Word word[kGatherWords];
#pragma unroll
    for (int k = 0; k < kGatherWords; ++k)
      if (first + k * kWarp < words) word[k] = from[first + k * kWarp];
#pragma unroll
    for (int k = 0; k < kGatherWords; ++k)
      if (first + k * kWarp < words) to[first + k * kWarp] = word[k];
  }
}

/// id << 32 | i: in ascending order, the rows of an id follow one another in ascending i.
using Key = unsigned long long;
__device__ inline uint32_t id_of(Key key) { return static_cast<uint32_t>(key >> 32); }
__device__ inline int64_t row_of(Key key) { return static_cast<int64_t>(key & 0xffffffffu); }

/// Keys that one block sorts.
constexpr int64_t kChunk = 4096;
constexpr int kSortThreads = 1024;

/// Chunk b of `size` (a power of two) keys, sorted (bitonic: Batcher 1968); behind n come largest keys.  At
/// strides up to 32, a warp reads and writes 64 neighbouring keys that no other one touches.
__global__ void __launch_bounds__(kSortThreads)
    sort_kernel(int64_t n, int size, const int32_t* ids, Key* to) {
  __shared__ Key key[kChunk];
  const int64_t first = int64_t{size} * blockIdx.x;
  const int threads = static_cast<int>(blockDim.x);
  for (int k = static_cast<int>(threadIdx.x); k < size; k += threads) {
    const int64_t i = first + k;
    key[k] = i < n ? static_cast<Key>(ids[i]) << 32 | static_cast<Key>(i) : ~Key{0};
  }
  __syncthreads();
  for (int run = 2; run <= size; run *= 2)
    for (int stride = run / 2; stride > 0; stride /= 2) {
      for (int t = static_cast<int>(threadIdx.x); t < size / 2; t += threads) {
        const int low = 2 * t - (t & (stride - 1)), high = low + stride;
        const Key a = key[low], b = key[high];
        if ((a > b) == ((low & run) == 0)) {
          key[low] = b;
          key[high] = a;
        }
      }
      const int next = stride > 1 ? stride / 2 : run;
      if (max(stride, next) > kWarp)
        __syncthreads();
      else
        __syncwarp();
    }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < size; k += threads) to[first + k] = key[k];
}

/// Puts the keys of sorted chunks where they belong among all: their place in their own chunk plus the number
/// of smaller keys in each other one.  A block takes 1024 keys.
constexpr int kBlocksPerChunk = kChunk / kSortThreads;
__global__ void __launch_bounds__(kSortThreads)
    merge_kernel(int64_t n, int64_t chunks, const Key* sorted, Key* to) {
  __shared__ Key other[kChunk];
  const int64_t own = blockIdx.x / kBlocksPerChunk;
  const int64_t at = int64_t{kSortThreads} * (blockIdx.x % kBlocksPerChunk) + threadIdx.x;
  const Key key = sorted[own * kChunk + at];
  int64_t rank = at;
  for (int64_t c = 0; c < chunks; ++c) {
    if (c == own) continue;
    for (int k = static_cast<int>(threadIdx.x); k < kChunk; k += kSortThreads)
      other[k] = sorted[c * kChunk + k];
    __syncthreads();
    int below = 0;
#pragma unroll
    for (int step = kChunk / 2; step > 0; step /= 2)
      if (other[below + step - 1] < key) below += step;
    rank += below + (other[below] < key ? 1 : 0);
    __syncthreads();
  }
  if (rank < n) to[rank] = key;
}

/// Sorted keys [p · length, (p + 1) · length) are piece p.
struct Pieces {
  int64_t n, cols, length, count;
  const Key* keys;
  float* partial;  ///< [count][2][cols]: the sum of the id that piece p begins within, and of the one that
                   ///< begins within p and goes on behind it
  __device__ int64_t id(int64_t k) const { return id_of(keys[k]); }
  __device__ float* sum(int64_t p, int which) const { return partial + (2 * p + which) * cols; }
};

/// Rows of dy that a thread loads at once.
constexpr int kRowsAtOnce = 4;
constexpr int64_t kPieceThreads = 128;

template <int kWidth, typename In, typename Out>
__global__ void __launch_bounds__(kPieceThreads) pieces_kernel(Pieces pieces, const In* dy, Out* out) {
  const int64_t p = blockIdx.x, cols = pieces.cols;
  const int64_t col = (int64_t{blockDim.x} * blockIdx.y + threadIdx.x) * kWidth;
  if (col >= cols) return;
  const int64_t begin = p * pieces.length, end = min(begin + pieces.length, pieces.n);
  bool within = begin > 0 && pieces.id(begin - 1) == pieces.id(begin);
  float sum[kWidth] = {};
  for (int64_t first = begin; first < end; first += kRowsAtOnce) {
    Key key[kRowsAtOnce + 1];
    Vec<In, kWidth> row[kRowsAtOnce];
#pragma unroll
    for (int k = 0; k <= kRowsAtOnce; ++k) key[k] = first + k < pieces.n ? pieces.keys[first + k] : ~Key{0};
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k)
      if (first + k < end) row[k] = load_vec<kWidth>(dy + row_of(key[k]) * cols + col);
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (first + k >= end) break;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += to_float(row[k].at[j]);
      const bool over = id_of(key[k]) != id_of(key[k + 1]);
      if (!over && first + k + 1 < end) continue;
      if (over && !within)
        store_vec(out + static_cast<int64_t>(id_of(key[k])) * cols + col, sum);
      else
        store_vec(pieces.sum(p, within ? 0 : 1) + col, sum);
      within = false;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] = 0;
    }
  }
}

/// A table row that begins within piece blockIdx.x and goes on: its sums over the pieces, a share of them by
/// each of kJoinShares threads.
constexpr int kJoinThreads = 64, kJoinShares = 8;
template <int kWidth, typename Out>
__global__ void __launch_bounds__(kJoinThreads* kJoinShares) join_kernel(Pieces pieces, Out* out) {
  const int64_t p = blockIdx.x, begin = p * pieces.length, end = begin + pieces.length;
  const int64_t id = pieces.id(end - 1);
  if (id != pieces.id(end) || (begin > 0 && pieces.id(begin - 1) == id)) return;
  const int64_t col = (int64_t{kJoinThreads} * blockIdx.y + threadIdx.x) * kWidth;
  const bool inside = col < pieces.cols;
  float sum[kWidth] = {};
  if (inside) {
#pragma unroll 4
    for (int64_t q = p + 1 + threadIdx.y; q < pieces.count && pieces.id(q * pieces.length) == id;
         q += kJoinShares) {
      const Vec<float, kWidth> more = load_vec<kWidth>(pieces.sum(q, 0) + col);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum[j] += more.at[j];
    }
  }
  __shared__ Vec<float, kWidth> shares[kJoinShares][kJoinThreads];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) shares[threadIdx.y][threadIdx.x].at[j] = sum[j];
  __syncthreads();
  if (!inside || threadIdx.y != 0) return;
  const Vec<float, kWidth> first = load_vec<kWidth>(pieces.sum(p, 1) + col);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    sum[j] = first.at[j];
    for (int share = 0; share < kJoinShares; ++share) sum[j] += shares[share][threadIdx.x].at[j];
  }
  store_vec(out + id * pieces.cols + col, sum);
}

/// How the workspace is laid out: keys of sorted chunks, all keys in order, partial sums.
struct Layout {
  int64_t size, chunks;    ///< keys of a chunk, a power of two
  int64_t length, pieces;  ///< rows of a piece
  size_t ordered, partial, bytes;

  explicit Layout(RowsSize s) {
    const auto rounded = std::bit_ceil(static_cast<uint64_t>(std::min(s.rows, kChunk)));
    size = std::max<int64_t>(static_cast<int64_t>(rounded), 2);
    chunks = ceil_div(s.rows, size);
    length = std::max<int64_t>(ceil_div(s.rows, 512), 16);
    pieces = ceil_div(s.rows, length);
    ordered = static_cast<size_t>(chunks * size) * sizeof(Key);
    partial = ordered + (chunks > 1 ? ordered : 0);
    bytes = partial + static_cast<size_t>(2 * pieces * s.cols) * sizeof(float);
  }
};

/// The keys in order.
const Key* sort(cudaStream_t stream, const Layout& layout, int64_t n, const int32_t* ids,
                std::byte* workspace) {
  Key* sorted = reinterpret_cast<Key*>(workspace);
  const int threads = static_cast<int>(std::clamp<int64_t>(layout.size / 2, kWarp, kSortThreads));
  sort_kernel<<<static_cast<unsigned>(layout.chunks), threads, 0, stream>>>(n, static_cast<int>(layout.size),
                                                                            ids, sorted);
  if (layout.chunks == 1) return sorted;
  Key* ordered = reinterpret_cast<Key*>(workspace + layout.ordered);
  merge_kernel<<<static_cast<unsigned>(layout.chunks * kBlocksPerChunk), kSortThreads, 0, stream>>>(
      n, layout.chunks, sorted, ordered);
  return ordered;
}

template <int kWidth, typename In, typename Out>
void sum_pieces(cudaStream_t stream, const Pieces& pieces, const In* dy, Out* out) {
  constexpr int kJoinWidth = kWidth == 1 ? 1 : 4;
  const int64_t vectors = ceil_div(pieces.cols, kWidth);
  const int64_t threads = std::min(ceil_div(vectors, kWarp) * kWarp, kPieceThreads);
  const dim3 grid(static_cast<unsigned>(pieces.count), static_cast<unsigned>(ceil_div(vectors, threads)));
  pieces_kernel<kWidth><<<grid, static_cast<unsigned>(threads), 0, stream>>>(pieces, dy, out);
  if (pieces.count == 1) return;
  const dim3 joins(static_cast<unsigned>(pieces.count - 1),
                   static_cast<unsigned>(ceil_div(pieces.cols, kJoinThreads * kJoinWidth)));
  join_kernel<kJoinWidth><<<joins, dim3(kJoinThreads, kJoinShares), 0, stream>>>(pieces, out);
}

}  // namespace

void gather_rows(cudaStream_t stream, DType t, RowsSize s, const void* table, const int32_t* ids, void* y) {
  if (s.rows == 0 || s.cols == 0) return;
  const int64_t bytes = s.cols * static_cast<int64_t>(size_of(t));
  const auto launch = [&]<typename Word>(Word) {
    gather_kernel<<<static_cast<unsigned>(ceil_div(s.rows, kGatherRows)), kGatherThreads, 0, stream>>>(
        s.rows, bytes / static_cast<int64_t>(sizeof(Word)), static_cast<const Word*>(table), ids,
        static_cast<Word*>(y));
  };
  if (bytes % 16 == 0 && aligned16(table, static_cast<const void*>(y)))
    launch(uint4{});
  else if (size_of(t) == 4)
    launch(uint32_t{});
  else
    launch(uint16_t{});
}

size_t scatter_add_rows_workspace_bytes(RowsSize s) { return Layout(s).bytes; }

void scatter_add_rows(cudaStream_t stream, DType from, DType to, RowsSize s, const void* dy,
                      const int32_t* ids, int64_t table_rows, void* dtable, void* workspace) {
  cudaMemsetAsync(dtable, 0, static_cast<size_t>(table_rows * s.cols) * size_of(to), stream);
  if (s.rows == 0 || s.cols == 0) return;
  const Layout layout(s);
  std::byte* base = static_cast<std::byte*>(workspace);
  const Pieces pieces{s.rows,
                      s.cols,
                      layout.length,
                      layout.pieces,
                      sort(stream, layout, s.rows, ids, base),
                      reinterpret_cast<float*>(base + layout.partial)};
  const bool vectors = s.cols % 8 == 0 && aligned16(dy, static_cast<const void*>(dtable));
  with_type(from, [&](auto* in) {
    with_type(to, [&](auto* out) {
      using In = std::remove_pointer_t<decltype(in)>;
      using Out = std::remove_pointer_t<decltype(out)>;
      const In* x = static_cast<const In*>(dy);
      if (vectors)
        sum_pieces<8>(stream, pieces, x, static_cast<Out*>(dtable));
      else
        sum_pieces<1>(stream, pieces, x, static_cast<Out*>(dtable));
    });
  });
}

}  // namespace lathe::cuda
