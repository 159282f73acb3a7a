#include "lathe/backends/cpu/gemm_plan.h"

#include <unistd.h>

#include <algorithm>

#include "lathe/backends/cpu/gemm_int8.h"
#include "lathe/core/ceil_div.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kBlocksOfAThread = 64, kFewestOfAThread = 8;
// The cost of a row or column of operands that a region of c reads, in sums of the region: it comes from
// other cores' caches.  Measured on 16 AMX cores, where 16 to 64 are alike (docs/performance.md).
constexpr int64_t kSumsOfABorder = 32;

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

const GemmKernel& kernel_for(Isa isa, const Gemm& g) {
  return g.integers ? int8_kernel(isa) : kernel_of(isa, compute_type(g));
}

Share part_of(Share whole, int64_t index, int64_t count) {
  const Share part = share(whole.end - whole.begin, static_cast<int>(index), static_cast<int>(count));
  return {whole.begin + part.begin, whole.begin + part.end};
}

}  // namespace

const GemmKernel& kernel_of(Isa isa, DType compute) {
  [[maybe_unused]] const bool bf16 = compute == DType::bf16;
#if defined(__x86_64__)
  if (isa == Isa::kAmx && bf16) return kGemmBf16Amx;
  if (isa == Isa::kAvx512Bf16 && bf16) return kGemmBf16Avx512Bf16;
  if (isa >= Isa::kAvx512 && isa <= Isa::kAmx) return kGemmF32Avx512;
  if (isa == Isa::kAvx2 || isa == Isa::kAvx2Vnni) return kGemmF32Avx2;
#elif defined(__aarch64__)
  if (isa == Isa::kNeonBf16 && bf16) return kGemmBf16NeonBf16;
  if (isa >= Isa::kNeon && isa <= Isa::kNeonBf16) return kGemmF32Neon;
#endif
  return kGemmF32Portable;
}

DType compute_type(const Gemm& g) { return g.a_type == DType::f32 ? g.b_type : g.a_type; }

Plan::Plan(Isa isa, const Gemm& product, int threads)
    : kernel(kernel_for(isa, product)),
      column_sums(kernel_of(isa, DType::f32).column_sums),
      g(product),
      compute(compute_type(product)) {
  k_padded = round_up(g.k, kernel.a_group);
  k_blocks = ceil_div(k_padded, kernel.kc);
  k_block = std::min(round_up(ceil_div(k_padded, k_blocks), kPackedLines), k_padded);
  m_panels = ceil_div(g.m, kernel.mr);
  mr = kernel.any_rows ? static_cast<int>(ceil_div(g.m, m_panels)) : kernel.mr;
  n_panels = ceil_div(g.n, kernel.nr);
  const bool in_place = kernel.rows_in_place && g.a_type == DType::bf16 && !g.a_transposed && g.k == k_padded;
  first_packed = g.integers ? m_panels : in_place ? g.m / mr : 0;
  cut(threads);
  const bool own_a = across == 1 && first_packed == 0, own_b = down == 1 && !g.b_packed;
  stays_own = own_a || own_b;
  a_stays = !own_b || (own_a && g.m >= g.n);
  // Sums are kept until the last block of k; the tile before the current one waits to be stored.
  const int64_t most = kernel.columns / kernel.nr, cache = second_level_cache() / 8;
  int64_t &step = a_stays ? m_step : n_step, &other = a_stays ? n_step : m_step;
  const int64_t panels = a_stays ? m_panels : n_panels, other_panels = a_stays ? n_panels : m_panels;
  other = stays_own && k_blocks == 1 ? other_panels : std::min(most, other_panels);
  const int64_t width = (a_stays ? mr : kernel.nr) * element_bytes();
  step = std::clamp<int64_t>(cache * (other == 1 ? 3 : 2) / (width * (other == 1 ? k_padded : k_block)), 1,
                             panels);
  tiles_waiting = 1 + (k_blocks == 1 ? 1 : m_step * n_step);
  a_bytes = a_own() ? 0 : aligned((m_panels - first_packed) * mr * k_padded * element_bytes());
  b_bytes = g.b_packed || b_own() ? 0 : aligned(n_panels * kernel.nr * k_padded * element_bytes());
  block_bytes = stays_own ? aligned(step * width * k_padded) : 0;
  block_sums_bytes = g.a_transposed && !a_own()
                         ? aligned(ceil_div(g.k, kPackedLines) * g.m * static_cast<int64_t>(sizeof(float)))
                         : 0;
  scratch_bytes = aligned(tiles_waiting * kernel.mr * kernel.nr * static_cast<int64_t>(sizeof(float)));
}

// Chooses the regions for which the largest cost is smallest: sums and what they read.
void Plan::cut(int threads) {
  int64_t best = INT64_MAX;
  for (int rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const int64_t m = ceil_div(m_panels, rows) * mr;
    const int64_t n = ceil_div(n_panels, threads / rows) * kernel.nr;
    const int64_t cost = m * n + kSumsOfABorder * (m + n);
    if (cost < best) best = cost, down = rows;
  }
  across = threads / down;
}

Packing Plan::packing_of_a(char* dst, bool streams) const {
  return {kernel,   g.a, g.a_type, g.lda,          !g.a_transposed, g.m, g.k,
          k_padded, mr,  mr,       kernel.a_group, compute,         dst, streams};
}

Packing Plan::packing_of_b(char* dst, bool streams) const {
  return {kernel,   g.b,       g.b_type,         g.ldb,          g.b_transposed, g.n, g.k,
          k_padded, kernel.nr, kernel.b_columns, kernel.b_group, compute,        dst, streams};
}

Blocks::Blocks(const Plan& p, int parts) : p_(p) {
  const int64_t rows = ceil_div(p.m_panels, p.down), columns = ceil_div(p.n_panels, p.across);
  m_blocks_ = ceil_div(rows, p.m_step);
  n_blocks_ = ceil_div(columns, p.n_step);
  // There are enough blocks that a thread that finishes early can take one over.  Smaller blocks of the
  // streaming operand cost nothing; with smaller blocks of the other one, the streaming operand is read more
  // often.
  if (parts == 1) return;
  int64_t &stays = p.a_stays ? m_blocks_ : n_blocks_, &streams = p.a_stays ? n_blocks_ : m_blocks_;
  streams = std::clamp(ceil_div(kBlocksOfAThread, stays), streams, p.a_stays ? columns : rows);
  stays = std::clamp(ceil_div(kFewestOfAThread, streams), stays, p.a_stays ? rows : columns);
}

Block Blocks::operator[](int64_t index) const {
  const int64_t each = m_blocks_ * n_blocks_, region = index / each, in_region = index % each;
  const Share m = share(p_.m_panels, static_cast<int>(region / p_.across), p_.down);
  const Share n = share(p_.n_panels, static_cast<int>(region % p_.across), p_.across);
  const Share staying = p_.a_stays ? m : n, streaming = p_.a_stays ? n : m;
  const int64_t turns = p_.a_stays ? n_blocks_ : m_blocks_, count = each / turns;
  const int64_t block = in_region / turns, turn = in_region % turns;
  return {part_of(staying, block, count), part_of(streaming, turn, turns), turn, turns,
          block + 1 < count ? part_of(staying, block + 1, count) : Share{0, 0}};
}

}  // namespace lathe::cpu
