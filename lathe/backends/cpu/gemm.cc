#include "lathe/backends/cpu/gemm.h"

#include <unistd.h>

#include <algorithm>

#include "lathe/backends/cpu/gemm_int8.h"
#include "lathe/backends/cpu/gemm_kernel.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kAlignment = 64;
// k of a piece of a source whose lines run across the panels; also of a block of the sums of columns.  A
// multiple of every kernel's groups, and every kernel's kc is one of it.
constexpr int64_t kPackedLines = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
size_t aligned(int64_t bytes) { return static_cast<size_t>(round_up(bytes, kAlignment)); }

// Bytes of the second-level cache of one core, or a guess that fits most.
int64_t second_level_cache() {
  static const int64_t bytes = [] {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    const long found = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (found > 0) return static_cast<int64_t>(found);
#endif
    return int64_t{1} << 20;
  }();
  return bytes;
}

// The kernel of a level for sums of products of f32, bf16 or f16.  Where there is no arithmetic on bf16, and
// for f16, of which two have an exact product in f32, it is that of f32, whose packing rounds.
const GemmKernel& kernel_of(Isa isa, DType compute) {
  [[maybe_unused]] const bool bf16 = compute == DType::bf16;
#if defined(__x86_64__)
  if (isa == Isa::kAmx && bf16) return kGemmBf16Amx;
  if (isa == Isa::kAvx512Bf16 && bf16) return kGemmBf16Avx512Bf16;
  if (isa >= Isa::kAvx512 && isa <= Isa::kAmx) return kGemmF32Avx512;
  if (isa == Isa::kAvx2) return kGemmF32Avx2;
#elif defined(__aarch64__)
  if (isa == Isa::kNeonBf16 && bf16) return kGemmBf16NeonBf16;
  if (isa >= Isa::kNeon && isa <= Isa::kNeonBf16) return kGemmF32Neon;
#endif
  return kGemmF32Portable;
}

// What the operands of g are rounded to.
DType compute_type(const Gemm& g) { return g.a_type == DType::f32 ? g.b_type : g.a_type; }
const GemmKernel& kernel_of(Isa isa, const Gemm& g) {
  return g.integers ? int8_kernel(isa) : kernel_of(isa, compute_type(g));
}

PackedB layout_b(const GemmKernel& kernel, DType compute, int64_t n, int64_t k) {
  PackedB layout{kernel.bf16 ? DType::bf16 : DType::f32, kernel.nr, kernel.b_group};
  layout.k_padded = round_up(k, kernel.a_group);
  layout.bytes = static_cast<size_t>(round_up(n, kernel.nr) * layout.k_padded) * size_of(layout.type);
  if (!kernel.bf16) layout.rounded = compute;
  return layout;
}

// Everything about one product that follows from its shape, the kernel and the number of threads.
struct Plan {
  const GemmKernel& kernel;
  void (*column_sums)(const ColumnSums*);
  const Gemm& g;
  DType compute;                        // what is summed: products of this
  int64_t k_padded, k_blocks, k_block;  // the blocks of k depend on k alone
  int64_t m_panels, n_panels;
  int64_t first_packed;  // panels of a before it are read in place
  int down, across;      // regions of c, one for each thread
  // Of one operand a block stays in the cache, and the other one streams past it.  Where no two threads want
  // the same block, it is packed when it is wanted; all else is packed before.
  bool a_stays = true, in_time = false;
  int64_t m_step, n_step;  // panels of a block of c; the bits do not depend on it
  int64_t tiles_waiting;
  size_t a_bytes, b_bytes, block_bytes, scratch_bytes;  // the last two for each thread

  Plan(Isa isa, const Gemm& product, int threads)
      : kernel(kernel_of(isa, product)),
        column_sums(kernel_of(isa, DType::f32).column_sums),
        g(product),
        compute(compute_type(product)) {
    k_padded = round_up(g.k, kernel.a_group);
    k_blocks = ceil_div(k_padded, kernel.kc);
    k_block = std::min(round_up(ceil_div(k_padded, k_blocks), kPackedLines), k_padded);
    m_panels = ceil_div(g.m, kernel.mr);
    n_panels = ceil_div(g.n, kernel.nr);
    const bool in_place =
        kernel.rows_in_place && g.a_type == DType::bf16 && !g.a_transposed && g.k == k_padded;
    first_packed = g.integers ? m_panels : in_place ? g.m / kernel.mr : 0;
    cut(threads);
    const bool a_in_time = across == 1 && first_packed == 0, b_in_time = down == 1 && !g.b_packed;
    in_time = a_in_time || b_in_time;
    a_stays = !b_in_time || (a_in_time && g.m >= g.n);
    // Sums wait for the last block of k; the tile before the current one waits to be stored.
    const int64_t most = kernel.columns / kernel.nr, cache = second_level_cache() / 8;
    int64_t &step = a_stays ? m_step : n_step, &other = a_stays ? n_step : m_step;
    const int64_t panels = a_stays ? m_panels : n_panels, other_panels = a_stays ? n_panels : m_panels;
    other = in_time && k_blocks == 1 ? other_panels : std::min(most, other_panels);
    const int64_t width = (a_stays ? kernel.mr : kernel.nr) * element_bytes();
    step = std::clamp<int64_t>(cache * (other == 1 ? 3 : 2) / (width * (other == 1 ? k_padded : k_block)), 1,
                               panels);
    tiles_waiting = 1 + (k_blocks == 1 ? 1 : m_step * n_step);
    a_bytes =
        in_time && a_stays ? 0 : aligned((m_panels - first_packed) * kernel.mr * k_padded * element_bytes());
    b_bytes =
        g.b_packed || (in_time && !a_stays) ? 0 : aligned(n_panels * kernel.nr * k_padded * element_bytes());
    block_bytes = in_time ? aligned(step * width * k_padded) : 0;
    scratch_bytes = aligned(tiles_waiting * kernel.mr * kernel.nr * static_cast<int64_t>(sizeof(float)));
  }

  int64_t element_bytes() const { return g.integers ? kernel.integer_bytes : kernel.bf16 ? 2 : 4; }
  size_t bytes(int threads) const {
    return a_bytes + b_bytes + static_cast<size_t>(threads) * (block_bytes + scratch_bytes);
  }

 private:
  // The smallest largest region, and among those the most square one.
  void cut(int threads) {
    int64_t best_area = INT64_MAX, best_border = INT64_MAX;
    for (int rows = 1; rows <= threads; ++rows) {
      if (threads % rows != 0) continue;
      const int64_t m = ceil_div(m_panels, rows) * kernel.mr;
      const int64_t n = ceil_div(n_panels, threads / rows) * kernel.nr;
      if (m * n < best_area || (m * n == best_area && m + n < best_border)) {
        down = rows;
        best_area = m * n;
        best_border = m + n;
      }
    }
    across = threads / down;
  }
};

// Packs the panels of one matrix that fall to `part`: all panels × blocks of k are dealt out in order.
struct Packing {
  const GemmKernel& kernel;
  const void* src;
  DType type;
  int64_t ld;
  bool along_k;
  int64_t lines, k, k_padded;  // lines: rows of a or columns of b
  int panel, group;
  DType round;
  char* dst;
};

// Packs k in [first_k, last_k) of one panel; both multiples of the group, or the end of k.
void pack_piece(const Packing& p, int64_t panel, int64_t first_packed, int64_t first_k, int64_t last_k) {
  const int64_t src_bytes = static_cast<int64_t>(size_of(p.type)), dst_bytes = p.kernel.bf16 ? 2 : 4;
  const int64_t line = panel * p.panel;
  GemmPack pack;
  pack.src = static_cast<const char*>(p.src) +
             (p.along_k ? line * p.ld + first_k : first_k * p.ld + line) * src_bytes;
  pack.src_type = kernel_type(p.type);
  pack.ld = p.ld;
  pack.along_k = p.along_k;
  pack.width = std::min<int64_t>(p.panel, p.lines - line);
  pack.k = std::min(last_k, p.k) - first_k;
  pack.k_padded = (last_k < p.k ? last_k : p.k_padded) - first_k;
  pack.panel = p.panel;
  pack.group = p.group;
  pack.round = kernel_type(p.round);
  pack.dst = p.dst + ((panel - first_packed) * p.k_padded + first_k) * p.panel * dst_bytes;
  p.kernel.pack(&pack);
}

// Rows of memory, as cache lines.
struct Rows {
  const char* first = nullptr;
  int64_t count = 0, row_bytes = 0, pitch = 0;

  /// The lines of part `part` of `parts`.
  GemmFetch fetch(int64_t part, int64_t parts) const {
    if (count == 0) return {};
    const int64_t row_lines = row_bytes / kAlignment, all = count * row_lines;
    const int64_t begin = all * part / parts, end = all * (part + 1) / parts;
    const int64_t at = begin % row_lines * kAlignment;
    return {first + begin / row_lines * pitch + at, end - begin, row_bytes - at, row_bytes, pitch};
  }
};

// Where packing reads those panels and k.
Rows rows_of(const Packing& p, Share panels, Share k) {
  const Share lines{panels.begin * p.panel, std::min<long>(panels.end * p.panel, p.lines)};
  const Share ks{k.begin, std::min<long>(k.end, p.k)};
  const auto [begin, end] = p.along_k ? lines : ks;
  const auto [from, to] = p.along_k ? ks : lines;
  const int64_t bytes = static_cast<int64_t>(size_of(p.type));
  if (begin >= end || from >= to) return {};
  const char* first = static_cast<const char*>(p.src) + (begin * p.ld + from) * bytes;
  const int64_t before = reinterpret_cast<uintptr_t>(first) % kAlignment;
  return {first - before, end - begin, round_up(before + (to - from) * bytes, kAlignment), p.ld * bytes};
}

/// Half-open ranges of panels and of k.
struct Piece {
  Share panels, k;
};

// The panels and k of one matrix in pieces small enough that the source of the next one is fetched while one
// is packed.  Lines across the panels are read a few at a time, and much of each: they are far from each
// other.
class Pieces {
 public:
  Pieces(const Packing& p, Share panels, Share k)
      : p_(p),
        all_{panels, k},
        width_(p.along_k ? 1 : 4),
        k_step_(p.along_k ? 128 : kPackedLines),
        across_(ceil_div(panels.end - panels.begin, width_)),
        down_(ceil_div(k.end - k.begin, k_step_)) {}

  long count() const { return across_ * down_; }
  Piece operator[](long i) const {
    const long panel = all_.panels.begin + (p_.along_k ? i / down_ : i % across_) * width_;
    const long k = all_.k.begin + (p_.along_k ? i % down_ : i / across_) * k_step_;
    return {{panel, std::min(panel + width_, all_.panels.end)}, {k, std::min(k + k_step_, all_.k.end)}};
  }
  /// Packs a piece and fetches what the next one reads.
  void pack(long i, int64_t first_packed) const {
    if (i + 1 < count()) fetch((*this)[i + 1]);
    const Piece piece = (*this)[i];
    for (long panel = piece.panels.begin; panel < piece.panels.end; ++panel)
      pack_piece(p_, panel, first_packed, piece.k.begin, piece.k.end);
  }

 private:
  void fetch(const Piece& piece) const {
    const Rows rows = rows_of(p_, piece.panels, piece.k);
    for (int64_t row = 0; row < rows.count; ++row)
      for (int64_t at = 0; at < rows.row_bytes; at += kAlignment)
        __builtin_prefetch(rows.first + row * rows.pitch + at, 0, 2);
  }
  const Packing& p_;
  Piece all_;
  long width_, k_step_, across_, down_;
};

void pack_share(const Packing& p, int64_t first_panel, int part, int parts) {
  const Pieces pieces(p, {first_panel, ceil_div(p.lines, p.panel)}, {0, p.k_padded});
  const Share mine = share(pieces.count(), part, parts);
  for (long i = mine.begin; i < mine.end; ++i) pieces.pack(i, first_panel);
}

Packing packing_of_a(const Plan& p, char* dst) {
  const Gemm& g = p.g;
  return {p.kernel,         g.a,       g.a_type, g.lda, !g.a_transposed, g.m, g.k, p.k_padded, p.kernel.mr,
          p.kernel.a_group, p.compute, dst};
}

Packing packing_of_b(const Plan& p, char* dst) {
  const Gemm& g = p.g;
  return {p.kernel,         g.b,       g.b_type, g.ldb, g.b_transposed, g.n, g.k, p.k_padded, p.kernel.nr,
          p.kernel.b_group, p.compute, dst};
}

// Adds k in [first_k, last_k), at most kPackedLines of them, to the sums over k of the columns [begin, end)
// of a (transposed).
void sum_lines(const Plan& p, int64_t begin, int64_t end, int64_t first_k, int64_t last_k) {
  const Gemm& g = p.g;
  const int64_t offset = (first_k * g.lda + begin) * static_cast<int64_t>(size_of(g.a_type));
  const ColumnSums sums{static_cast<const char*>(g.a) + offset,
                        kernel_type(g.a_type),
                        g.lda,
                        std::min(last_k, g.k) - first_k,
                        end - begin,
                        first_k > 0,
                        g.a_sums + begin};
  p.column_sums(&sums);
}

// The sums over k of the columns of a (transposed) that fall to `part`, in whole blocks of columns.
void sum_share(const Plan& p, int part, int parts) {
  constexpr int64_t kBlock = 64;
  const Gemm& g = p.g;
  const Share blocks = share(ceil_div(g.m, kBlock), part, parts);
  const int64_t begin = blocks.begin * kBlock, end = std::min<int64_t>(blocks.end * kBlock, g.m);
  for (int64_t k = 0; k < g.k && begin < end; k += kPackedLines)
    sum_lines(p, begin, end, k, k + kPackedLines);
}

// Panels of c: those of the operand that stays in the cache, and those that stream past them, which are piece
// `turn` of `turns`.  Then other panels stay: `next`, or none.
struct Block {
  Share stays, streams;
  int64_t turn, turns;
  Share next;
};

// c in blocks: those of one region after another.
class Blocks {
 public:
  Blocks(const Plan& p, int parts) : p_(p) {
    const int64_t rows = ceil_div(p.m_panels, p.down), columns = ceil_div(p.n_panels, p.across);
    m_blocks_ = ceil_div(rows, p.m_step);
    n_blocks_ = ceil_div(columns, p.n_step);
    // Enough blocks that a thread that is done early finds one to take over.  Less of what streams past costs
    // nothing; where less stays, the other one streams past more often.
    if (parts == 1) return;
    int64_t &stays = p.a_stays ? m_blocks_ : n_blocks_, &streams = p.a_stays ? n_blocks_ : m_blocks_;
    streams = std::clamp(ceil_div(kBlocksOfAThread, stays), streams, p.a_stays ? columns : rows);
    stays = std::clamp(ceil_div(kFewestOfAThread, streams), stays, p.a_stays ? rows : columns);
  }

  int64_t count() const { return p_.down * p_.across * m_blocks_ * n_blocks_; }
  /// What stays in the cache stays so over some indices that follow each other.  Some blocks are empty.
  Block operator[](int64_t index) const {
    const int64_t each = m_blocks_ * n_blocks_, region = index / each, in_region = index % each;
    const Share m = share(p_.m_panels, static_cast<int>(region / p_.across), p_.down);
    const Share n = share(p_.n_panels, static_cast<int>(region % p_.across), p_.across);
    const Share staying = p_.a_stays ? m : n, streaming = p_.a_stays ? n : m;
    const int64_t turns = p_.a_stays ? n_blocks_ : m_blocks_, count = each / turns;
    const int64_t block = in_region / turns, turn = in_region % turns;
    return {part_of(staying, block, count), part_of(streaming, turn, turns), turn, turns,
            block + 1 < count ? part_of(staying, block + 1, count) : Share{0, 0}};
  }

 private:
  static constexpr int64_t kBlocksOfAThread = 64, kFewestOfAThread = 8;
  static Share part_of(Share whole, int64_t index, int64_t count) {
    const Share part = share(whole.end - whole.begin, static_cast<int>(index), static_cast<int>(count));
    return {whole.begin + part.begin, whole.begin + part.end};
  }
  const Plan& p_;
  int64_t m_blocks_, n_blocks_;
};

// The products of one thread.  a, b: packed before; own: for the block that this thread packs and the sums
// that wait.
class Work {
 public:
  Work(const Plan& plan, const char* a, const char* b, char* own)
      : p_(plan),
        kernel_(plan.kernel),
        g_(plan.g),
        a_(a),
        b_(b),
        own_(own),
        scratch_(reinterpret_cast<float*>(own + plan.block_bytes)) {}

  void begin() {
    if (kernel_.begin != nullptr) kernel_.begin();
  }
  void end() {
    finish();
    if (kernel_.end != nullptr) kernel_.end();
  }

  void block(const Block& block) {
    const auto [stays, streams, turn, turns, next] = block;
    const Rows source = p_.in_time ? rows_of(packing(), next, {0, p_.k_padded}) : Rows{};
    const int64_t tiles = p_.k_blocks * (streams.end - streams.begin) * (stays.end - stays.begin);
    int64_t tile_index = turn * tiles;
    const int64_t first = slot_;
    for (int64_t k = 0; k < p_.k_padded; k += p_.k_block) {
      if (p_.in_time) hold(block, k);
      if (p_.k_blocks > 1) slot_ = first;
      for (long stream = streams.begin; stream < streams.end; ++stream)
        for (long stay = stays.begin; stay < stays.end; ++stay, ++tile_index)
          tile(p_.a_stays ? stay : stream, p_.a_stays ? stream : stay, k, stays,
               source.fetch(tile_index, tiles * turns));
    }
  }

 private:
  void finish() {
    if (waiting_) kernel_.store(&waiting_store_);
  }

  Packing packing() const { return p_.a_stays ? packing_of_a(p_, own_) : packing_of_b(p_, own_); }

  /// Packs the block of k from k on of what stays, unless it is there.
  void hold(const Block& block, int64_t k) {
    const Share stays = block.stays;
    if (held_.begin != stays.begin || held_.end != stays.end) held_ = stays, held_k_ = 0;
    if (k < held_k_) return;
    held_k_ = std::min<long>(k + p_.k_block, p_.k_padded);
    const Packing packing = this->packing();
    const Pieces pieces(packing, stays, {k, held_k_});
    const bool sums = p_.a_stays && g_.a_sums != nullptr && block.turn == 0;
    for (long i = 0; i < pieces.count(); ++i) {
      pieces.pack(i, stays.begin);
      const Piece piece = pieces[i];
      if (sums && piece.panels.end == stays.end && piece.k.begin < g_.k)
        sum_lines(p_, stays.begin * kernel_.mr, std::min<int64_t>(stays.end * kernel_.mr, g_.m),
                  piece.k.begin, piece.k.end);
    }
  }

  /// What the store will read and where it will write: by then this tile is done, and maybe the next one.
  void fetch(const GemmStore& s) const {
    const int64_t bytes = static_cast<int64_t>(size_of(g_.c_type));
    const auto rows = [&](const void* x) {
      for (int64_t row = 0; row < s.rows; ++row)
        for (int64_t at = 0; at < s.cols * bytes; at += kAlignment)
          __builtin_prefetch(static_cast<const char*>(x) + row * s.ldc * bytes + at);
    };
    if (s.addend != nullptr) rows(s.addend);
    if (!s.streams && s.addend != s.c) rows(s.c);
  }

  /// Tiles take slots in turn, so that the one before keeps its own until this one has stored it.
  void tile(int64_t i, int64_t j, int64_t k, Share stays, const GemmFetch& source) {
    const int64_t bytes = p_.element_bytes();
    const bool last = k + p_.k_block >= p_.k_padded;
    float* acc = scratch_ + slot_ * kernel_.mr * kernel_.nr;
    const GemmStore store = store_of(i, j, acc);
    if (last) fetch(store);
    GemmTile t;
    if (i < p_.first_packed) {
      t.a = static_cast<const char*>(g_.a) + (i * kernel_.mr * g_.lda + k) * bytes;
      t.a_row_bytes = g_.lda * bytes;
      t.a_step_bytes = kernel_.a_group * bytes;
    } else {
      const bool own = p_.in_time && p_.a_stays;
      t.a = (own ? own_ : a_) +
            ((i - (own ? stays.begin : p_.first_packed)) * p_.k_padded + k) * kernel_.mr * bytes;
      t.a_row_bytes = kernel_.a_group * bytes;
      t.a_step_bytes = kernel_.a_group * kernel_.mr * bytes;
    }
    const bool own_b = !p_.a_stays;
    t.b = (own_b ? own_ : b_) + ((j - (own_b ? stays.begin : 0)) * p_.k_padded + k) * kernel_.nr * bytes;
    t.k = std::min(p_.k_block, p_.k_padded - k);
    t.acc = acc;
    t.rows = static_cast<int>(std::min<int64_t>(kernel_.mr, g_.m - i * kernel_.mr));
    t.accumulate = k > 0;
    t.finish = waiting_ ? &waiting_store_ : nullptr;
    // This tile's part of the panel that streams past its block next: the same one's next k, or the next one.
    const int64_t panel_bytes = (p_.a_stays ? kernel_.nr : kernel_.mr) * p_.k_block * bytes;
    const Share part = share(panel_bytes / 64, static_cast<int>((p_.a_stays ? i : j) - stays.begin),
                             static_cast<int>(stays.end - stays.begin));
    t.next = static_cast<const char*>(p_.a_stays ? t.b : t.a) + panel_bytes + part.begin * 64;
    t.next_bytes = (part.end - part.begin) * 64;
    t.source = source;
    kernel_.tile(&t);
    waiting_ = last;
    waiting_store_ = store;
    if (++slot_ == p_.tiles_waiting) slot_ = 0;
  }

  GemmStore store_of(int64_t i, int64_t j, const float* acc) const {
    const int64_t row = i * kernel_.mr, column = j * kernel_.nr;
    GemmStore s;
    s.acc = acc;
    s.acc_ld = kernel_.nr;
    s.rows = static_cast<int>(std::min<int64_t>(kernel_.mr, g_.m - row));
    s.cols = static_cast<int>(std::min<int64_t>(kernel_.nr, g_.n - column));
    s.c_type = kernel_type(g_.c_type);
    const int64_t offset = (row * g_.ldc + column) * static_cast<int64_t>(size_of(g_.c_type));
    s.c = static_cast<char*>(g_.c) + offset;
    s.ldc = g_.ldc;
    s.bias = g_.bias == nullptr ? nullptr : g_.bias + column;
    s.addend = g_.addend == nullptr ? nullptr : static_cast<const char*>(g_.addend) + offset;
    s.streams = g_.c_streams;
    s.row_scale = g_.integers ? g_.scales.rows + row : nullptr;
    s.column_scale = g_.integers ? g_.scales.columns + column : nullptr;
    s.column_offset = g_.integers ? g_.scales.offsets + column : nullptr;
    return s;
  }

  const Plan& p_;
  const GemmKernel& kernel_;
  const Gemm& g_;
  const char* a_;
  const char* b_;
  char* own_;
  float* scratch_;
  Share held_{0, 0};  // the panels that own_ holds
  long held_k_ = 0;   // and how many k of them
  int64_t slot_ = 0;
  bool waiting_ = false;  // the sums of waiting_store_ are complete and not stored
  GemmStore waiting_store_{};
};

// A pool that is only the calling thread.
class OneThread {
 public:
  template <typename F>
  void run(F&& f) {
    f(0, 1);
  }
  int size() const { return 1; }
  void deal(long total) { total_ = total; }
  long next_item(int) { return next_ < total_ ? next_++ : -1; }

 private:
  long next_ = 0, total_ = 0;
};

template <typename Pool>
void run_gemm(Pool& pool, const Plan& p, void* workspace) {
  char* a = static_cast<char*>(workspace);
  char* b = a + p.a_bytes;
  char* own = b + p.b_bytes;
  const bool sums_before = p.g.a_sums != nullptr && !(p.in_time && p.a_stays);
  if (p.a_bytes + p.b_bytes > 0)
    pool.run([&](int part, int parts) {
      if (p.a_bytes > 0) pack_share(packing_of_a(p, a), p.first_packed, part, parts);
      if (p.b_bytes > 0) pack_share(packing_of_b(p, b), 0, part, parts);
      if (sums_before) sum_share(p, part, parts);
    });
  const char* packed_b = p.g.b_packed ? static_cast<const char*>(p.g.b) : b;
  const Blocks blocks(p, pool.size());
  pool.deal(blocks.count());
  pool.run([&](int part, int) {
    Work work(p, a, packed_b, own + static_cast<size_t>(part) * (p.block_bytes + p.scratch_bytes));
    work.begin();
    for (long i; (i = pool.next_item(part)) >= 0;) work.block(blocks[i]);
    work.end();
  });
}

bool is_float(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

}  // namespace

GemmType kernel_type(DType type) {
  return type == DType::bf16 ? GemmType::kBf16 : type == DType::f16 ? GemmType::kF16 : GemmType::kF32;
}

size_t gemm_workspace_bytes(Isa isa, const Gemm& g, int threads) {
  if (g.m < 1 || g.n < 1 || g.k < 1)
    fail(ErrorCode::kShape, "gemm: found m = {}, n = {}, k = {}, wants each at least 1", g.m, g.n, g.k);
  if (!is_float(g.a_type) || !is_float(g.b_type) || !is_float(g.c_type))
    fail(ErrorCode::kUnsupported, "gemm: found {} · {} -> {}, wants f32, bf16 or f16; cast before",
         name_of(g.a_type), name_of(g.b_type), name_of(g.c_type));
  if (g.b_type != DType::f32 && g.b_type != compute_type(g))
    fail(ErrorCode::kUnsupported, "gemm: found {} · {}, wants f32 or the same on both sides; cast before",
         name_of(g.a_type), name_of(g.b_type));
  return Plan(isa, g, threads).bytes(threads);
}

void gemm(ThreadPool& pool, Isa isa, const Gemm& g, void* workspace) {
  run_gemm(pool, Plan(isa, g, pool.size()), workspace);
}

void gemm_single_thread(Isa isa, const Gemm& g, void* workspace) {
  OneThread self;
  run_gemm(self, Plan(isa, g, 1), workspace);
}

PackedB packed_b(Isa isa, DType compute, int64_t n, int64_t k) {
  return layout_b(kernel_of(isa, compute), compute, n, k);
}

void pack_b(Isa isa, const PackedB& layout, int64_t n, int64_t k, DType type, const void* b, int64_t ldb,
            bool transposed, PartOfB part, void* out) {
  const Packing packing{kernel_of(isa, layout.type == DType::bf16 ? DType::bf16 : layout.rounded),
                        b,
                        type,
                        ldb,
                        transposed,
                        n,
                        k,
                        layout.k_padded,
                        layout.width,
                        layout.group,
                        layout.rounded,
                        static_cast<char*>(out)};
  for (int64_t panel = part.first_n / layout.width; panel * layout.width < part.last_n; ++panel)
    pack_piece(packing, panel, 0, part.first_k, part.last_k);
}

}  // namespace lathe::cpu
