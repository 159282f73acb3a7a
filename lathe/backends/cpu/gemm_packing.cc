#include "lathe/backends/cpu/gemm_packing.h"

#include <algorithm>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/core/ceil_div.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kLine = 64;

}  // namespace

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
  pack.columns = p.columns;
  pack.group = p.group;
  pack.round = kernel_type(p.round);
  pack.streams = p.streams;
  pack.dst = p.dst + ((panel - first_packed) * p.k_padded + first_k) * p.panel * dst_bytes;
  p.kernel.pack(&pack);
}

GemmFetch SourceRows::fetch(int64_t part, int64_t parts) const {
  if (count == 0) return {};
  const int64_t row_lines = row_bytes / kLine, all = count * row_lines;
  const int64_t begin = all * part / parts, end = all * (part + 1) / parts;
  const int64_t at = begin % row_lines * kLine;
  return {first + begin / row_lines * pitch + at, end - begin, row_bytes - at, row_bytes, pitch};
}

SourceRows rows_of(const Packing& p, Share panels, Share k) {
  const Share lines{panels.begin * p.panel, std::min<long>(panels.end * p.panel, p.lines)};
  const Share ks{k.begin, std::min<long>(k.end, p.k)};
  const auto [begin, end] = p.along_k ? lines : ks;
  const auto [from, to] = p.along_k ? ks : lines;
  const int64_t bytes = static_cast<int64_t>(size_of(p.type));
  if (begin >= end || from >= to) return {};
  const char* first = static_cast<const char*>(p.src) + (begin * p.ld + from) * bytes;
  const int64_t before = reinterpret_cast<uintptr_t>(first) % kLine;
  return {first - before, end - begin, round_up(before + (to - from) * bytes, kLine), p.ld * bytes};
}

Pieces::Pieces(const Packing& p, Share panels, Share k)
    : p_(p),
      all_{panels, k},
      width_(p.along_k ? 1 : 4),
      k_step_(p.along_k ? 128 : kPackedLines),
      across_(ceil_div(panels.end - panels.begin, width_)),
      down_(ceil_div(k.end - k.begin, k_step_)) {}

Piece Pieces::operator[](long i) const {
  const long panel = all_.panels.begin + (p_.along_k ? i / down_ : i % across_) * width_;
  const long k = all_.k.begin + (p_.along_k ? i % down_ : i / across_) * k_step_;
  return {{panel, std::min(panel + width_, all_.panels.end)}, {k, std::min(k + k_step_, all_.k.end)}};
}

void Pieces::pack(long i, int64_t first_packed) const {
  if (i + 1 < count()) {
    const Piece next = (*this)[i + 1];
    const SourceRows rows = rows_of(p_, next.panels, next.k);
    for (int64_t row = 0; row < rows.count; ++row)
      for (int64_t at = 0; at < rows.row_bytes; at += kLine)
        __builtin_prefetch(rows.first + row * rows.pitch + at, 0, 2);
  }
  const Piece piece = (*this)[i];
  for (long panel = piece.panels.begin; panel < piece.panels.end; ++panel)
    pack_piece(p_, panel, first_packed, piece.k.begin, piece.k.end);
}

}  // namespace lathe::cpu
