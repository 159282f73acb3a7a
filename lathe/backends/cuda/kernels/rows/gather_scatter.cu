// Picking rows of a table and its transpose.  The transpose sorts (id, i), so that the rows of one id are
// neighbours, and adds them up in pieces of a fixed length: a table row that lies within one piece is written
// at once, the sums of one that crosses pieces go through the workspace.  Table rows without an id are zeroed
// at the same time.
#include <algorithm>
#include <bit>
#include <cub/block/block_radix_sort.cuh>

#include "lathe/backends/cuda/kernels/rows/rows.h"
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
  follow();
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

/// One warp per row, kWidth elements of a lane at once.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kGatherThreads)
    look_up_kernel(int64_t rows, int64_t cols, const T* table, const int32_t* ids, float* y) {
  follow();
  const int64_t r = int64_t{kGatherRows} * blockIdx.x + threadIdx.x / kWarp;
  if (r >= rows) return;
  for (int64_t col = threadIdx.x % kWarp * kWidth; col < cols; col += kWarp * kWidth) {
    float wide[kWidth];
    to_floats(load_vec<kWidth>(table + ids[r] * cols + col), wide);
    store_vec(y + r * cols + col, wide);
  }
}

/// id << 32 | i: in ascending order, the rows of an id follow one another in ascending i.
using Key = unsigned long long;
__device__ inline uint32_t id_of(Key key) { return static_cast<uint32_t>(key >> 32); }
__device__ inline int64_t row_of(Key key) { return static_cast<int64_t>(key & 0xffffffffu); }

/// Keys that are sorted together.
constexpr int64_t kChunk = 4096;
constexpr int kMergeThreads = 1024;

/// Chunk blockIdx.y of `size` keys (a power of two, 32 at least), sorted: every key goes to the place that is
/// the number of smaller ones.  After n come largest keys.  A block places 32 keys, one per lane; each warp
/// compares them with a share of the chunk.
constexpr int kRankWarps = 16;
__global__ void __launch_bounds__(kRankWarps* kWarp)
    rank_kernel(int64_t n, int size, const int32_t* ids, Key* to) {
  follow();
  __shared__ int4 chunk[kChunk / 4];
  __shared__ int below[kRankWarps][kWarp];
  int* id = reinterpret_cast<int*>(chunk);
  const int64_t first = int64_t{size} * blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int k = static_cast<int>(threadIdx.x); k < size; k += kRankWarps * kWarp)
    id[k] = first + k < n ? ids[first + k] : INT32_MAX;
  __syncthreads();
  const int own = kWarp * static_cast<int>(blockIdx.x) + lane, own_id = id[own];
  int count = 0;
#pragma unroll 4
  for (int k = 4 * warp; k < size; k += 4 * kRankWarps) {
    const int4 other = chunk[k / 4];  // equal ids: the earlier is smaller
    count += other.x < own_id || (other.x == own_id && k < own);
    count += other.y < own_id || (other.y == own_id && k + 1 < own);
    count += other.z < own_id || (other.z == own_id && k + 2 < own);
    count += other.w < own_id || (other.w == own_id && k + 3 < own);
  }
  below[warp][lane] = count;
  __syncthreads();
  if (warp != 0) return;
  for (int w = 1; w < kRankWarps; ++w) count += below[w][lane];
  to[first + count] =
      first + own < n ? static_cast<Key>(own_id) << 32 | static_cast<Key>(first + own) : ~Key{0};
}

/// Puts the keys of sorted chunks where they belong among all: their place in their own chunk plus the number
/// of smaller keys in each other one.  A block takes 1024 keys.
constexpr int kBlocksPerChunk = kChunk / kMergeThreads;
__global__ void __launch_bounds__(kMergeThreads)
    merge_kernel(int64_t n, int64_t chunks, const Key* sorted, Key* to) {
  follow();
  __shared__ Key other[kChunk];
  const int64_t own = blockIdx.x / kBlocksPerChunk;
  const int64_t at = int64_t{kMergeThreads} * (blockIdx.x % kBlocksPerChunk) + threadIdx.x;
  const Key key = sorted[own * kChunk + at];
  int64_t rank = at;
  for (int64_t c = 0; c < chunks; ++c) {
    if (c == own) continue;
    for (int k = static_cast<int>(threadIdx.x); k < kChunk; k += kMergeThreads)
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
  int64_t n, cols, length, count, padding;
  const Key* keys;
  float* partial;  ///< [count][2][cols]: the sum of the id that piece p begins within, and of the one that
                   ///< begins within p and goes on after it
  __device__ int64_t id(int64_t k) const { return id_of(keys[k]); }
  __device__ float* sum(int64_t p, int which) const { return partial + (2 * p + which) * cols; }
};

/// Rows of dy that a thread loads at once.
constexpr int kRowsAtOnce = 4;
constexpr int64_t kPieceThreads = 128;

/// Zeros for those of 32 table rows from `first` on that have no id.
template <int kWidth, typename Out>
__device__ inline void fill(const Pieces& pieces, int64_t first, int64_t table_rows, int64_t col, Out* out) {
  const int64_t own = first + threadIdx.x % kWarp;
  int64_t low = 0, high = pieces.n;  // the first key of an id that is not smaller
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (pieces.id(middle) < own)
      low = middle + 1;
    else
      high = middle;
  }
  const bool without = own < table_rows && (low == pieces.n || pieces.id(low) != own);
  const float zeros[kWidth] = {};
  unsigned rows = __ballot_sync(kAllLanes, without);
  if (col >= pieces.cols) return;
  for (; rows != 0; rows &= rows - 1) store_vec(out + (first + __ffs(rows) - 1) * pieces.cols + col, zeros);
}

/// A block takes up to kPieceThreads vectors of columns: first come blocks that sum a piece, then those that
/// fill 32 table rows.
template <int kWidth, typename In, typename Out>
__global__ void __launch_bounds__(kPieceThreads)
    pieces_kernel(Pieces pieces, const In* dy, int64_t table_rows, Out* out) {
  follow();
  const int64_t p = blockIdx.x, cols = pieces.cols;
  const int64_t col = (int64_t{blockDim.x} * blockIdx.y + threadIdx.x) * kWidth;
  if (p >= pieces.count) return fill<kWidth>(pieces, (p - pieces.count) * kWarp, table_rows, col, out);
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
      if (id_of(key[k]) != pieces.padding) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sum[j] += to_float(row[k].at[j]);
      }
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
constexpr int kJoinThreads = 32, kJoinShares = 32;
template <int kWidth, typename Out>
__global__ void __launch_bounds__(kJoinThreads* kJoinShares) join_kernel(Pieces pieces, Out* out) {
  follow();
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

/// How an order is laid out: all keys in order, then those of sorted chunks, if there are several.
struct Order {
  int64_t size, chunks;  ///< keys of a chunk, a power of two
  size_t sorted, bytes;

  explicit Order(int64_t rows) {
    const auto rounded = std::bit_ceil(static_cast<uint64_t>(std::min(rows, kChunk)));
    size = std::max<int64_t>(static_cast<int64_t>(rounded), kWarp);
    chunks = ceil_div(rows, size);
    const size_t all = static_cast<size_t>(chunks * size) * sizeof(Key);
    sorted = chunks > 1 ? all : 0;
    bytes = sorted + all;
  }
};

/// One block orders all keys, which leaves the other multiprocessors to what runs at the same time.
constexpr int kSortThreads = 1024, kSortKeys = 8;
using BlockSort = cub::BlockRadixSort<uint32_t, kSortThreads, kSortKeys, uint32_t>;
__global__ void __launch_bounds__(kSortThreads) sort_kernel(int n, int id_bits, const int32_t* ids, Key* to) {
  follow();
  extern __shared__ __align__(16) unsigned char scratch[];
  uint32_t id[kSortKeys], row[kSortKeys];
#pragma unroll
  for (int k = 0; k < kSortKeys; ++k) {
    row[k] = threadIdx.x * kSortKeys + static_cast<uint32_t>(k);
    id[k] = row[k] < static_cast<uint32_t>(n) ? static_cast<uint32_t>(ids[row[k]]) : ~0u;
  }
  BlockSort(*reinterpret_cast<BlockSort::TempStorage*>(scratch)).SortBlockedToStriped(id, row, 0, id_bits);
#pragma unroll
  for (int k = 0; k < kSortKeys; ++k)
    if (const int at = k * kSortThreads + static_cast<int>(threadIdx.x); at < n)
      to[at] = static_cast<Key>(id[k]) << 32 | row[k];
}

int64_t piece_length(int64_t rows) { return std::max<int64_t>(ceil_div(rows, 512), 16); }
int64_t piece_count(int64_t rows) { return ceil_div(rows, piece_length(rows)); }

template <int kWidth, typename In, typename Out>
void sum_pieces(cudaStream_t stream, const Pieces& pieces, const In* dy, int64_t table_rows, Out* out) {
  constexpr int kJoinWidth = kWidth == 1 ? 1 : 4;
  const int64_t vectors = ceil_div(pieces.cols, kWidth);
  const int64_t threads = std::min(ceil_div(vectors, kWarp) * kWarp, kPieceThreads);
  const dim3 grid(static_cast<unsigned>(pieces.count + ceil_div(table_rows, kWarp)),
                  static_cast<unsigned>(ceil_div(vectors, threads)));
  pieces_kernel<kWidth><<<grid, static_cast<unsigned>(threads), 0, stream>>>(pieces, dy, table_rows, out);
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

void look_up(cudaStream_t stream, DType t, RowsSize s, const void* table, const int32_t* ids, float* y) {
  if (t == DType::f32) return gather_rows(stream, t, s, table, ids, y);
  if (s.rows == 0 || s.cols == 0) return;
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto launch = [&](auto kernel) {
      kernel<<<static_cast<unsigned>(ceil_div(s.rows, kGatherRows)), kGatherThreads, 0, stream>>>(
          s.rows, s.cols, static_cast<const T*>(table), ids, y);
    };
    const bool vectors = s.cols % 8 == 0 && aligned16(table, static_cast<const void*>(y));
    vectors ? launch(look_up_kernel<8, T>) : launch(look_up_kernel<1, T>);
  });
}

size_t sort_rows_bytes(int64_t rows) { return Order(rows).bytes; }

void sort_rows(cudaStream_t stream, int64_t rows, const int32_t* ids, int64_t table_rows, void* order) {
  if (rows == 0) return;
  Key* const ordered = static_cast<Key*>(order);
  if (rows <= kSortThreads * kSortKeys) {
    constexpr int kBytes = sizeof(BlockSort::TempStorage);
    static const cudaError_t allowed =
        cudaFuncSetAttribute(sort_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    static_cast<void>(allowed);  // a launch that asks for more than is allowed fails by itself
    const int bits = std::bit_width(static_cast<uint64_t>(table_rows));  // the largest id of them is no row's
    sort_kernel<<<1, kSortThreads, kBytes, stream>>>(static_cast<int>(rows), bits, ids, ordered);
    return;
  }
  const Order layout(rows);
  Key* const sorted = reinterpret_cast<Key*>(static_cast<std::byte*>(order) + layout.sorted);
  const dim3 grid(static_cast<unsigned>(layout.size / kWarp), static_cast<unsigned>(layout.chunks));
  rank_kernel<<<grid, kRankWarps * kWarp, 0, stream>>>(rows, static_cast<int>(layout.size), ids, sorted);
  if (layout.chunks > 1)
    merge_kernel<<<static_cast<unsigned>(layout.chunks * kBlocksPerChunk), kMergeThreads, 0, stream>>>(
        rows, layout.chunks, sorted, ordered);
}

size_t scatter_add_rows_workspace_bytes(RowsSize s) {
  return static_cast<size_t>(2 * piece_count(s.rows) * s.cols) * sizeof(float);
}

void scatter_add_rows(cudaStream_t stream, DType from, DType to, RowsSize s, const void* dy,
                      const void* order, int64_t table_rows, int64_t padding, void* dtable, void* workspace) {
  if (s.rows == 0 || s.cols == 0) {
    cudaMemsetAsync(dtable, 0, static_cast<size_t>(table_rows * s.cols) * size_of(to), stream);
    return;
  }
  const Pieces pieces{s.rows,
                      s.cols,
                      piece_length(s.rows),
                      piece_count(s.rows),
                      padding,
                      static_cast<const Key*>(order),
                      static_cast<float*>(workspace)};
  const bool vectors = s.cols % 8 == 0 && aligned16(dy, static_cast<const void*>(dtable));
  with_type(from, [&](auto* in) {
    with_type(to, [&](auto* out) {
      using In = std::remove_pointer_t<decltype(in)>;
      using Out = std::remove_pointer_t<decltype(out)>;
      const In* x = static_cast<const In*>(dy);
      if (vectors)
        sum_pieces<8>(stream, pieces, x, table_rows, static_cast<Out*>(dtable));
      else
        sum_pieces<1>(stream, pieces, x, table_rows, static_cast<Out*>(dtable));
    });
  });
}

}  // namespace lathe::cuda
