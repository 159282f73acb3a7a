#include "lathe/backends/cpu/gemm.h"

#include <algorithm>
#include <utility>

#include "lathe/backends/cpu/gemm_kernel.h"
#include "lathe/backends/cpu/gemm_packing.h"
#include "lathe/backends/cpu/gemm_plan.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kLine = 64;

PackedB layout_b(const GemmKernel& kernel, DType compute, int64_t n, int64_t k) {
  PackedB layout{kernel.bf16 ? DType::bf16 : DType::f32, kernel.nr, kernel.b_columns, kernel.a_group,
                 kernel.b_group};
  layout.k_padded = round_up(k, kernel.a_group);
  layout.bytes = static_cast<size_t>(round_up(n, kernel.nr) * layout.k_padded) * size_of(layout.type);
  if (!kernel.bf16) layout.rounded = compute;
  return layout;
}

// Adds the lines of a piece of a (transposed), at most kPackedLines, to the sums of its columns; the first
// piece sets the sums.
void sum_lines(const Plan& p, const Piece& piece, float* sums, bool first) {
  const Gemm& g = p.g;
  const int64_t begin = piece.panels.begin * p.mr, end = std::min<int64_t>(piece.panels.end * p.mr, g.m);
  const int64_t offset = (piece.k.begin * g.lda + begin) * static_cast<int64_t>(size_of(g.a_type));
  const ColumnSums lines{static_cast<const char*>(g.a) + offset,
                         kernel_type(g.a_type),
                         g.lda,
                         std::min<int64_t>(piece.k.end, g.k) - piece.k.begin,
                         end - begin,
                         !first,
                         sums + begin};
  p.column_sums(&lines);
}

// What is packed before the products, of both operands, in pieces.  A share of the pieces holds the same
// share of each operand, and of k where lines run across the panels.  So threads pack the rows that they have
// written.
class PackedBefore {
 public:
  /// `block_sums`, of a (transposed), or null: takes the sums over each block of kPackedLines k, [block][m],
  /// of lines that are in the cache anyway.
  PackedBefore(const Plan& plan, char* a, char* b, float* block_sums)
      : p_(plan),
        block_sums_(block_sums),
        a_packing_(plan.packing_of_a(a, plan.g.workspace_cold)),
        b_packing_(plan.packing_of_b(b, plan.g.workspace_cold)),
        a_(a_packing_, {plan.first_packed, plan.a_bytes > 0 ? plan.m_panels : plan.first_packed},
           {0, plan.k_padded}),
        b_(b_packing_, {0, plan.b_bytes > 0 ? plan.n_panels : 0}, {0, plan.k_padded}) {}

  long count() const { return a_.count() + b_.count(); }
  void pack(long i) const {
    const long of_a = i * a_.count() / count(), next = (i + 1) * a_.count() / count();
    if (next == of_a) return b_.pack(i - of_a, 0);
    a_.pack(of_a, p_.first_packed);
    if (block_sums_ == nullptr) return;
    const Piece piece = a_[of_a];
    sum_lines(p_, piece, block_sums_ + piece.k.begin / kPackedLines * p_.g.m, true);
  }

 private:
  const Plan& p_;
  float* block_sums_;
  Packing a_packing_, b_packing_;
  Pieces a_, b_;
};

// Panels of an operand, from panel `begin` on.
struct Panels {
  const char* data;
  int64_t begin;
  int64_t panel_bytes, k_bytes;   // from panel to panel, and of one k
  int64_t row_bytes, step_bytes;  // of a: as in GemmTile

  const char* at(int64_t panel, int64_t k) const {
    return data + (panel - begin) * panel_bytes + k * k_bytes;
  }
};

// The products of one thread.  a, b: packed before; own: memory of this thread only.
//
// Between two tiles a core multiplies nothing, so what is equal for all tiles is computed before.
class Work {
 public:
  Work(const Plan& plan, const char* a, const char* b, char* own)
      : p_(plan),
        kernel_(plan.kernel),
        g_(plan.g),
        block_(own),
        scratch_(reinterpret_cast<float*>(own + plan.block_bytes)),
        element_bytes_(plan.element_bytes()),
        c_bytes_(static_cast<int64_t>(size_of(plan.g.c_type))) {
    const int64_t a_width = p_.mr * element_bytes_, b_width = kernel_.nr * element_bytes_;
    const int64_t row = g_.lda * element_bytes_, group = kernel_.a_group * element_bytes_;
    rows_ = {static_cast<const char*>(g_.a), 0, p_.mr * row, element_bytes_, row, group};
    a_ = {a, p_.first_packed, p_.k_padded * a_width, a_width, group, kernel_.a_group * a_width};
    b_ = {b, 0, p_.k_padded * b_width, b_width, 0, 0};
    if (p_.stays_own) own_panels().data = own;
    tile_.addend_row_bytes = g_.ldc * c_bytes_;
    for (GemmStore& s : stores_) {
      s.acc_ld = kernel_.nr;
      s.c_type = kernel_type(g_.c_type);
      s.ldc = g_.ldc;
      s.streams = g_.c_streams || (g_.c_cold && kernel_.outruns_stores);
    }
  }
  Work(const Work&) = delete;  // stores_ points into it
  Work& operator=(const Work&) = delete;

  void begin() {
    if (kernel_.begin != nullptr) kernel_.begin();
  }
  void end() {
    finish();
    if (kernel_.end != nullptr) kernel_.end();
  }
  /// Stores what is summed.
  void finish() {
    if (waiting_ != nullptr) kernel_.store(waiting_);
    waiting_ = nullptr;
  }

  void block(const Block& block) {
    const Share stays = block.stays, streams = block.streams;
    if (stays.begin == stays.end) return;
    const SourceRows source =
        p_.stays_own ? rows_of(packing_of_block(), block.next, {0, p_.k_padded}) : SourceRows{};
    if (p_.stays_own) own_panels().begin = stays.begin;
    // Each tile fetches its part of the streaming panel that the block needs next.
    const int64_t panel = (p_.a_stays ? kernel_.nr : p_.mr) * p_.k_block * element_bytes_;
    const int64_t part = ceil_div(ceil_div(panel, kLine), stays.end - stays.begin) * kLine;
    const int64_t tiles = p_.k_blocks * (streams.end - streams.begin) * (stays.end - stays.begin);
    int64_t tile_index = block.turn * tiles;
    const int64_t first = slot_;
    for (int64_t k = 0; k < p_.k_padded; k += p_.k_block) {
      if (p_.stays_own) hold(stays, k, block.turn == 0 && g_.a_sums != nullptr && p_.a_stays);
      if (p_.k_blocks > 1) slot_ = first;
      tile_.k = std::min(p_.k_block, p_.k_padded - k);
      for (long stream = streams.begin; stream < streams.end; ++stream)
        for (long stay = stays.begin; stay < stays.end; ++stay, ++tile_index) {
          const int64_t begin = std::min((stay - stays.begin) * part, panel);
          tile_.next_bytes = std::min(part, panel - begin);
          if (p_.stays_own) tile_.source = source.fetch(tile_index, tiles * block.turns);
          const auto [i, j] = p_.a_stays ? std::pair{stay, stream} : std::pair{stream, stay};
          tile(i, j, k, panel + begin);
        }
    }
  }

 private:
  /// Packs the block of k from k on of the operand that stays, unless it is packed; `sums`: also adds up its
  /// columns.
  void hold(Share stays, int64_t k, bool sums) {
    if (held_.begin != stays.begin || held_.end != stays.end) held_ = stays, held_k_ = 0;
    if (k < held_k_) return;
    held_k_ = std::min<long>(k + p_.k_block, p_.k_padded);
    const Packing packing = packing_of_block();
    const Pieces pieces(packing, stays, {k, held_k_});
    for (long i = 0; i < pieces.count(); ++i) {
      pieces.pack(i, stays.begin);
      const Piece piece = pieces[i];
      if (sums && piece.panels.end == stays.end)
        sum_lines(p_, {stays, piece.k}, g_.a_sums, piece.k.begin == 0);
    }
  }

  Panels& own_panels() { return p_.a_stays ? a_ : b_; }
  Packing packing_of_block() const { return p_.a_stays ? p_.packing_of_a(block_) : p_.packing_of_b(block_); }

  /// `next`: distance from what this tile reads of the streaming operand to what it fetches for later. Tiles
  /// use the slots in turn, so the previous tile keeps its slot until this one has stored it.
  void tile(int64_t i, int64_t j, int64_t k, int64_t next) {
    GemmTile& t = tile_;
    const bool last = k + p_.k_block >= p_.k_padded;
    const Panels& a = i < p_.first_packed ? rows_ : a_;
    t.a = a.at(i, k);
    t.a_row_bytes = a.row_bytes;
    t.a_step_bytes = a.step_bytes;
    t.b = b_.at(j, k);
    t.next = static_cast<const char*>(p_.a_stays ? t.b : t.a) + next;
    t.acc = scratch_ + slot_ * kernel_.mr * kernel_.nr;
    t.rows = static_cast<int>(std::min<int64_t>(p_.mr, g_.m - i * p_.mr));
    t.accumulate = k > 0;
    t.finish = waiting_;
    t.addend = nullptr;
    if (++slot_ == p_.tiles_waiting) slot_ = 0;
    if (!last) {
      kernel_.tile(&t);
      waiting_ = nullptr;
      return;
    }
    GemmStore& store = stores_[waiting_ == &stores_[0] ? 1 : 0];
    place(store, i, j);
    t.addend = static_cast<const char*>(store.addend);
    kernel_.tile(&t);
    waiting_ = &store;
  }

  /// Sets where the sums of tile_ are stored.
  void place(GemmStore& s, int64_t i, int64_t j) const {
    const int64_t row = i * p_.mr, column = j * kernel_.nr, offset = (row * g_.ldc + column) * c_bytes_;
    s.acc = tile_.acc;
    s.rows = tile_.rows;
    s.cols = static_cast<int>(std::min<int64_t>(kernel_.nr, g_.n - column));
    s.c = static_cast<char*>(g_.c) + offset;
    s.bias = g_.bias == nullptr ? nullptr : g_.bias + column;
    s.addend = g_.addend == nullptr ? nullptr : static_cast<const char*>(g_.addend) + offset;
    if (!g_.integers) return;
    s.row_scale = g_.scales.rows + row;
    s.column_scale = g_.scales.columns + column;
    s.column_offset = g_.scales.offsets + column;
  }

  const Plan& p_;
  const GemmKernel& kernel_;
  const Gemm& g_;
  char* block_;
  float* scratch_;
  const int64_t element_bytes_, c_bytes_;
  Panels rows_, a_, b_;  // rows of a in place; what is packed
  Share held_{0, 0};     // the panels that block_ holds
  long held_k_ = 0;      // and how many k of them
  int64_t slot_ = 0;
  GemmTile tile_{};
  GemmStore stores_[2] = {};
  const GemmStore* waiting_ = nullptr;  // the one of stores_ whose sums are complete but not stored
};

// A product and its workspace: what is packed before, then what each thread has for itself.
class Product {
 public:
  Product(Isa isa, const Gemm& g, int threads, void* workspace)
      : plan_(isa, g, threads),
        a_(static_cast<char*>(workspace)),
        b_(a_ + plan_.a_bytes),
        own_(b_ + plan_.b_bytes),
        // Threads that pack an operand for themselves also sum it.
        block_sums_(
            g.a_sums == nullptr || plan_.a_own()
                ? nullptr
                : reinterpret_cast<float*>(own_ + static_cast<size_t>(threads) * plan_.thread_bytes())),
        packed_(plan_, a_, b_, block_sums_),
        blocks_(plan_, threads) {}
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  const GemmKernel& kernel() const { return plan_.kernel; }
  const PackedBefore& packed() const { return packed_; }
  const Blocks& blocks() const { return blocks_; }
  Work work(int part) const {
    return Work(plan_, a_, plan_.g.b_packed ? static_cast<const char*>(plan_.g.b) : b_,
                own_ + static_cast<size_t>(part) * plan_.thread_bytes());
  }

  /// Adds up the sums over blocks, for the columns of `part`.
  void add_block_sums(int part, int parts) const {
    if (block_sums_ == nullptr) return;
    const Gemm& g = plan_.g;
    constexpr int64_t kColumns = kLine / sizeof(float);
    const Share lines = share(ceil_div(g.m, kColumns), part, parts);
    const int64_t begin = lines.begin * kColumns, end = std::min<int64_t>(lines.end * kColumns, g.m);
    if (begin >= end) return;
    std::copy(block_sums_ + begin, block_sums_ + end, g.a_sums + begin);
    for (int64_t block = 1; block * kPackedLines < g.k; ++block)
      for (int64_t i = begin; i < end; ++i) g.a_sums[i] += block_sums_[block * g.m + i];
  }

 private:
  Plan plan_;
  char *a_, *b_, *own_;
  float* block_sums_;
  PackedBefore packed_;
  Blocks blocks_;
};

// The items of two lists as one list; one of them may be empty.  Each part's share holds its share of the
// first list and, after it, its share of the second.
class Both {
 public:
  Both(long first, long second, int parts) : first_(first), second_(second), parts_(parts) {}

  long count() const { return first_ + second_; }
  /// Calls of_first(index) or of_second(index).
  template <typename F, typename G>
  void at(long item, F&& of_first, G&& of_second) const {
    int part = static_cast<int>(item * parts_ / count());  // or a later one, as shares are rounded
    while (item >= begin(part + 1)) ++part;
    const Share mine = share(first_, part, parts_);
    const long i = mine.begin + item - begin(part);
    if (i < mine.end)
      of_first(i);
    else
      of_second(share(second_, part, parts_).begin + i - mine.end);
  }

 private:
  long begin(int part) const {
    return share(first_, part, parts_).begin + share(second_, part, parts_).begin;
  }
  long first_, second_;
  int parts_;
};

// One product, or two at once.
void run_products(ThreadPool& pool, const Product& first, const Product* second) {
  const auto items = [&](auto count_of) {
    return Both(count_of(first), second == nullptr ? 0 : count_of(*second), pool.size());
  };
  const Both packed = items([](const Product& p) { return p.packed().count(); });
  if (packed.count() > 0) {
    pool.deal(packed.count());
    pool.run([&](int part, int) {
      for (long i; (i = pool.next_item(part)) >= 0;)
        packed.at(
            i, [&](long of_first) { first.packed().pack(of_first); },
            [&](long of_second) { second->packed().pack(of_second); });
      if (first.kernel().fence != nullptr) first.kernel().fence();
    });
  }
  const Both blocks = items([](const Product& p) { return p.blocks().count(); });
  pool.deal(blocks.count());
  pool.run([&](int part, int parts) {
    Work work = first.work(part), next = second == nullptr ? first.work(part) : second->work(part);
    work.begin();
    first.add_block_sums(part, parts);
    if (second != nullptr) second->add_block_sums(part, parts);
    for (long i; (i = pool.next_item(part)) >= 0;)
      blocks.at(
          i,
          [&](long of_first) {
            next.finish();
            work.block(first.blocks()[of_first]);
          },
          [&](long of_second) {
            work.finish();
            next.block(second->blocks()[of_second]);
          });
    next.finish();
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
    fail(ErrorCode::kShape, "gemm: found m = {}, n = {}, k = {}, expected each at least 1", g.m, g.n, g.k);
  if (!is_float(g.a_type) || !is_float(g.b_type) || !is_float(g.c_type))
    fail(ErrorCode::kUnsupported, "gemm: found {} · {} -> {}, expected f32, bf16 or f16; cast before",
         name_of(g.a_type), name_of(g.b_type), name_of(g.c_type));
  if (g.b_type != DType::f32 && g.b_type != compute_type(g))
    fail(ErrorCode::kUnsupported, "gemm: found {} · {}, expected f32 or the same on both sides; cast before",
         name_of(g.a_type), name_of(g.b_type));
  return Plan(isa, g, threads).bytes(threads);
}

void gemm(ThreadPool& pool, Isa isa, const Gemm& g, void* workspace) {
  run_products(pool, Product(isa, g, pool.size(), workspace), nullptr);
}

void gemm_pair(ThreadPool& pool, Isa isa, const Gemm& g, void* workspace, const Gemm& next,
               void* next_workspace) {
  const Product first(isa, g, pool.size(), workspace), second(isa, next, pool.size(), next_workspace);
  const bool together = &first.kernel() == &second.kernel();
  run_products(pool, first, together ? &second : nullptr);
  if (!together) run_products(pool, second, nullptr);
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
                        layout.columns,
                        layout.group,
                        layout.rounded,
                        static_cast<char*>(out),
                        true};
  for (int64_t panel = part.first_n / layout.width; panel * layout.width < part.last_n; ++panel)
    pack_piece(packing, panel, 0, part.first_k, part.last_k);
  if (packing.kernel.fence != nullptr) packing.kernel.fence();
}

}  // namespace lathe::cpu
