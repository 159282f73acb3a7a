R"metal(
// A threadgroup takes kBlock neighbouring tokens of a row, of one head.  Row r has the slots from
// cu[r] / kBlock + r on, never fewer than its blocks; the tokens behind the last row are one row more.
#ifdef __METAL_VERSION__
#define LATHE_UNROLL _Pragma("clang loop unroll(full)")  // so that matrices stay in registers
#else
#define LATHE_UNROLL
#endif
constexpr uint kBlock = 32;
constexpr uint kSide = 8;  // of a simdgroup's matrix, and tokens of the block that it takes
constexpr uint kBlockThreads = kBlock / kSide * kLanes;
constexpr uint width = uint(D), stride = width + 4;  // of a tile's rows, which so begin in other banks
constexpr uint parts = width / kSide, runs = kBlock / kRun;
// words: rows, tokens, heads, site, threshold of dropout, window or 0
const uint rows = words[0], tokens = words[1], heads = words[2], site = words[3], threshold = words[4];
const uint window = words[5], thread_id = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
const uint head = threadgroup_position_in_grid.x % heads, slot = threadgroup_position_in_grid.x / heads;
uint row = 0;
for (uint end = rows; row < end;) {
  const uint middle = (row + end + 1) / 2;
  if (uint(cu[middle]) / kBlock + middle <= slot)
    row = middle;
  else
    end = middle - 1;
}
const uint begin = uint(cu[row]), length = (row < rows ? uint(cu[row + 1]) : tokens) - begin;
const uint first = (slot - begin / kBlock - row) * kBlock;  // of the block, in its row
if (first >= length) return;
const uint columns = heads * width, column = head * width;
const uint sample = row < rows ? uint(row_ids[row]) : 0u;
// A tile repeats the last token where the row has ended.  Others within this block's reach: those of the row, or of the
// window around the block; none behind the last row, so that results there are 0.
const uint from = window != 0 && first > window ? (first - window) / kBlock * kBlock : 0u;
const uint until = row == rows ? 0u : window != 0 ? min(length, first + kBlock + window) : length;
const uint own = simdgroup_index_in_threadgroup * kSide;  // of the block's tokens, the simdgroup's first
)metal"
