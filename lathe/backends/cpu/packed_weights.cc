#include "lathe/backends/cpu/packed_weights.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "lathe/backends/cpu/gemm_int8.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/ops/fused.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/linear_int8.h"
#include "lathe/ops/optimizers/flat.h"

namespace lathe::cpu {
namespace {

/// Whether all bits are 0.
bool is_zero(const float* x, int64_t n) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  return std::bit_cast<uint32_t>(x[0]) == 0 && std::memcmp(x, x + 1, bytes - sizeof(float)) == 0;
}

// For an update: so many parts that threads that finish early take some over, but none too small.  Rows of a
// table without a token make many parts empty.
constexpr int64_t kPartsOfAThread = 64, kWorthAPart = 1 << 14;

/// b of the product that reads W [rows, cols].
PackedB layout_of(const PackedUse& w, Isa isa) {
  return w.product == PackedFor::kForward ? packed_b(isa, DType::bf16, w.rows, w.cols)
                                          : packed_b(isa, DType::bf16, w.cols, w.rows);
}

std::shared_ptr<std::byte> allocate(size_t bytes) {
  auto data = allocate_zeroed(bytes);
  if (data == nullptr)
    fail(
        ErrorCode::kMemory,
        "out of memory: {} bytes needed for a packed weight; give this process more, or take a smaller model",
        bytes);
  return data;
}

}  // namespace

std::optional<PackedUse> packed_use(const Node& node, const Program& program, Isa isa) {
  const bool forward = node.op == &op::linear, int8 = node.op == &op::linear_int8;
  if (!forward && !int8 && node.op != &op::linear_bwd_input && node.op != &op::linear_bwd_input_add)
    return {};
  if (!int8 && program.type(node.in[0]).dtype != DType::bf16) return {};
  if (!int8 && !forward && program.type(node.in[1]).dtype == DType::bf16) return {};
  const Shape& shape = program.type(node.in[1]).shape;
  PackedUse use{-1, 0, shape[0], shape[1],
                int8      ? PackedFor::kInt8
                : forward ? PackedFor::kForward
                          : PackedFor::kInputGradient};
  if (!int8 && layout_of(use, isa).type != DType::bf16) return {};
  int value = node.in[1];
  for (int producer; (producer = program.values()[static_cast<size_t>(value)].producer) >= 0;) {
    const Node& view = program.nodes()[static_cast<size_t>(producer)];
    if (view.op != &op::slice) return {};
    use.offset += view.attrs.i("offset");
    value = view.in[0];
  }
  if (program.values()[static_cast<size_t>(value)].kind != ValueKind::kState) return {};
  use.state = value;
  return use;
}

size_t packed_bytes(const PackedUse& use, Isa isa) {
  return use.product == PackedFor::kInt8 ? packed_int8_bytes(isa, use.rows, use.cols)
                                         : layout_of(use, isa).bytes;
}

const void* PackedState::find(const PackedUse& use, Isa isa) const {
  for (const Int8Copy& known : int8_copies_)
    if (use.product == PackedFor::kInt8 && known.isa == isa && known.use.same_place(use))
      return known.data.get();
  for (const auto& known : copies_)
    if (known->isa == isa && known->use.same_place(use) && known->use.product == use.product)
      return known->data.get();
  return nullptr;
}

const void* PackedState::copy(const PackedUse& use, Isa isa) {
  if (const void* known = find(use, isa)) return known;
  auto data = allocate(packed_bytes(use, isa));
  if (use.product == PackedFor::kInt8) {
    int8_copies_.push_back({use, isa, data});
    int8_stale_ = true;
    return data.get();
  }
  const auto before = [](const std::unique_ptr<Copy>& a, const PackedUse& b) {
    return a->use.place() < b.place();
  };
  const auto at = std::lower_bound(copies_.begin(), copies_.end(), use, before);
  copies_.insert(at, std::make_unique<Copy>(Copy{use, isa, layout_of(use, isa), data}));
  cut();
  stale_ = true;
  return data.get();
}

void PackedState::cut() {
  pieces_.clear();
  torn_.clear();  // after a cut everything is packed
  overlapping_ = false;
  int64_t covered = 0;
  for (size_t first = 0; first < copies_.size();) {
    const PackedUse& w = copies_[first]->use;
    int64_t step = 1;
    size_t last = first;
    overlapping_ |= w.offset < covered;
    covered = std::max(covered, w.offset + w.rows * w.cols);
    for (; last < copies_.size() && copies_[last]->use.same_place(w); ++last)
      step = std::lcm(step, std::lcm(copies_[last]->layout.width, copies_[last]->layout.depth));
    for (int64_t row = 0; row < w.rows; row += step)
      pieces_.push_back(
          {w.offset + row * w.cols, w.offset + std::min(row + step, w.rows) * w.cols, first, last});
    first = last;
  }
}

void PackedState::pack(const Piece& piece) const {
  for (size_t i = piece.first; i < piece.last; ++i) {
    const Copy& c = *copies_[i];
    const PackedUse& w = c.use;
    const int64_t first = (piece.begin - w.offset) / w.cols, last = (piece.end - w.offset) / w.cols;
    const std::byte* weight = at(w.offset);
    if (w.product == PackedFor::kForward)
      pack_b(c.isa, c.layout, w.rows, w.cols, type_, weight, w.cols, true, {first, last, 0, w.cols},
             c.data.get());
    else
      pack_b(c.isa, c.layout, w.cols, w.rows, type_, weight, w.cols, false, {0, w.cols, first, last},
             c.data.get());
  }
}

void PackedState::refresh(ThreadPool& pool) {
  if (stale_)
    pool.run([&](int part, int parts) {
      const Share mine = share(static_cast<long>(pieces_.size()), part, parts);
      for (long i = mine.begin; i < mine.end; ++i) pack(pieces_[static_cast<size_t>(i)]);
    });
  else
    for (const size_t i : torn_) pack(pieces_[i]);
  stale_ = false;
  torn_.clear();
}

void PackedState::changed_outside(ThreadPool& pool, int64_t begin, int64_t end) {
  int8_stale_ = true;
  if (stale_ || overlapping_) {
    stale_ = true;
    return;
  }
  // Pieces are in order: those that begin before the range, some crossing its begin, and those from its end
  // on.
  const auto before = std::partition_point(pieces_.begin(), pieces_.end(),
                                           [&](const Piece& piece) { return piece.begin < begin; });
  const auto behind =
      std::partition_point(before, pieces_.end(), [&](const Piece& piece) { return piece.end <= end; });
  const long first = before - pieces_.begin(), second = pieces_.end() - behind;
  pool.run([&](int part, int parts) {
    const Share mine = share(first + second, part, parts);
    for (long i = mine.begin; i < mine.end; ++i)
      pack(i < first ? pieces_[static_cast<size_t>(i)] : behind[i - first]);
  });
  std::erase_if(torn_, [&](size_t i) { return pieces_[i].begin < begin || pieces_[i].end > end; });
}

void PackedState::refresh_int8(ThreadPool& pool) {
  if (!int8_stale_) return;
  for (const Int8Copy& c : int8_copies_)
    pack_int8(pool, c.isa, c.use.rows, c.use.cols, reinterpret_cast<const float*>(at(c.use.offset)),
              c.data.get());
  int8_stale_ = false;
}

namespace {

constexpr int64_t kPiece = 2048;
alignas(64) constexpr float kZeros[kPiece] = {};

/// f(at, count, gradients, row) on parts of the elements [from, to), row: of the table, or −1; those that are
/// bf16 in pieces that stay in the first cache.
template <typename F>
void for_parts(const RowKernels& kernels, const Gradients& g, int64_t from, int64_t to, F f) {
  const int64_t first = std::clamp(g.first, from, to), last = std::clamp(g.last, from, to);
  const auto exact = [&](int64_t begin, int64_t end, int64_t shift) {
    if (begin >= end) return;
    if (g.table == nullptr) return f(begin, end - begin, g.exact + begin - shift, int64_t{-1});
    g.table->for_parts(begin - shift, end - shift, [&](int64_t i, int64_t stop, int64_t row) {
      f(i + shift, stop - i, g.exact + i, row);
    });
  };
  exact(from, first, 0);
  float wide[kPiece];
  for (int64_t at = first; at < last; at += kPiece) {
    const int64_t count = std::min(kPiece, last - at);
    kernels.bf16.to_f32(count, g.rounded + static_cast<size_t>(at - g.first) * size_of(DType::bf16), wide);
    f(at, count, wide, int64_t{-1});
  }
  exact(last, to, g.last - g.first);
}

}  // namespace

void PackedState::adamw(ThreadPool& pool, Isa isa, const AdamW& a, int64_t begin, int64_t count,
                        const Updated& arrays) {
  int8_stale_ = true;
  const RowKernels& kernels = row_kernels(isa);
  const int64_t end = begin + count;
  const WrittenRows* const table = arrays.grad.table;
  if (table == nullptr)
    still_.clear();
  else if (still_.size() != table->written.size() || still_m_ != arrays.m) {
    still_.assign(table->written.size(), 0);
    const int64_t at = arrays.grad.element(table->begin);
    for (float* moments : {arrays.m, arrays.v})
      if (table->is_sparse()) prefer_small_pages(moments + at, table->bytes());
  }
  still_m_ = arrays.m;
  const float decay = static_cast<float>(1 - a.lr * a.weight_decay);
  const auto update = [&](int64_t from, int64_t to) {
    for_parts(kernels, arrays.grad, from - arrays.origin, to - arrays.origin,
              [&](int64_t at, int64_t n, const float* g, int64_t row) {
                const auto run = [&](int64_t i, int64_t part, const float* grad) {
                  kernels.adamw(part, &a, grad, arrays.param + i, arrays.m + i, arrays.v + i);
                };
                if (row < 0) return run(at, n, g);
                uint8_t& is_still = still_[static_cast<size_t>(row)];
                if (table->is_written(row)) {
                  is_still = 0;
                  return run(at, n, g);
                }
                // No gradient: a row that has never had one only decays.
                if (!is_still)
                  is_still = n == table->cols && is_zero(arrays.m + at, n) && is_zero(arrays.v + at, n);
                if (!is_still)
                  for (int64_t i = 0; i < n; i += kPiece) run(at + i, std::min(kPiece, n - i), kZeros);
                else if (decay != 1)
                  kernels.f32.scale(n, arrays.param + at, decay, arrays.param + at);
              });
  };
  // The begin of the table row that holds an element, so that each row belongs to one thread.
  const auto begin_of_row = [&](int64_t at) {
    if (table == nullptr) return at;
    const int64_t into = at - arrays.origin - arrays.grad.element(table->begin);
    const bool inside = 0 < into && into < table->end() - table->begin;
    return inside ? std::max(begin, at - into % table->cols) : at;
  };
  if (overlapping_) {
    stale_ = true;
    pool.run([&](int part, int parts) {
      const Share mine = share(count, part, parts);
      update(begin_of_row(begin + mine.begin), part + 1 == parts ? end : begin_of_row(begin + mine.end));
    });
    return;
  }
  for (const int64_t border : {begin, end})
    for (size_t i = 0; i < pieces_.size(); ++i)
      if (pieces_[i].begin < border && border < pieces_[i].end) torn_.push_back(i);
  // Equal parts of the range, moved to the borders of pieces and of the table's rows.
  const int64_t parts = std::min<int64_t>(pool.size() * kPartsOfAThread, count / kWorthAPart + 1);
  pool.deal(parts);
  pool.run([&](int thread, int) {
    const auto cut_at = [&](int64_t p) {
      if (p == parts) return end;
      const int64_t at = begin_of_row(begin + count / parts * p);
      const auto next = std::upper_bound(pieces_.begin(), pieces_.end(), at,
                                         [](int64_t x, const Piece& piece) { return x < piece.begin; });
      if (next == pieces_.begin() || at <= begin) return at;
      const Piece& piece = *std::prev(next);
      return at < piece.end ? std::clamp(piece.begin, begin, end) : at;
    };
    for (long part; (part = pool.next_item(thread)) >= 0;) {
      int64_t at = cut_at(part);
      const int64_t stop = cut_at(part + 1);
      auto piece = std::lower_bound(pieces_.begin(), pieces_.end(), at,
                                    [](const Piece& p, int64_t x) { return p.begin < x; });
      for (; piece != pieces_.end() && piece->end <= stop; ++piece) {
        if (at < piece->begin) update(at, piece->begin);
        update(piece->begin, piece->end);
        pack(*piece);
        at = piece->end;
      }
      if (at < stop) update(at, stop);
    }
  });
}

std::shared_ptr<PackedState> PackedWeights::of(const Buffer& state, DType type) {
  if (state.owner == nullptr)  // else nothing tells when this memory is freed and its address used again
    fail(ErrorCode::kInternal,
         "a state in memory without an owner; expected a Buffer that the backend has allocated");
  const std::lock_guard lock(mutex_);
  std::erase_if(states_, [](const auto& known) { return known.second.owner.expired(); });
  Known& known = states_[state.data];
  if (known.state == nullptr) {
    known.owner = state.owner;
    known.state = std::make_shared<PackedState>(state.data, type);
  }
  return known.state;
}

bool PackedWeights::has(const Buffer& state, const PackedUse& use, Isa isa) const {
  const std::lock_guard lock(mutex_);
  const auto known = states_.find(state.data);
  return known != states_.end() && !known->second.owner.expired() && known->second.state->has(use, isa);
}

void PackedWeights::changed(const Buffer& state) {
  const std::lock_guard lock(mutex_);
  for (const auto& [memory, known] : states_) known.state->moments_changed();
  const auto known = states_.find(state.data);
  if (known != states_.end()) known->second.state->changed();
}

}  // namespace lathe::cpu
