#include "lathe/backends/cpu/gemm_int8.h"

#include <algorithm>

#include "lathe/backends/cpu/gemm_kernel.h"
#include "lathe/core/ceil_div.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kLine = 64;

// Pieces of memory one after another, each aligned to a cache line.
class Pieces {
 public:
  explicit Pieces(void* base) : base_(static_cast<char*>(base)) {}
  template <typename T>
  T* take(int64_t bytes) {
    char* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(bytes, kLine);
    return reinterpret_cast<T*>(piece);
  }
  size_t used() const { return static_cast<size_t>(used_); }

 private:
  char* base_;
  int64_t used_ = 0;
};

// A packed W.
struct Weights {
  int64_t k_padded, panels, panel_bytes;
  Pieces pieces;
  float* scales;
  int32_t* offsets;
  char* values;

  Weights(const GemmKernel& kernel, int64_t n, int64_t k, void* base)
      : k_padded(round_up(k, kernel.a_group)),
        panels(ceil_div(n, kernel.nr)),
        panel_bytes(k_padded * kernel.nr * kernel.integer_bytes),
        pieces(base),
        scales(pieces.take<float>(panels * kernel.nr * 4)),
        offsets(pieces.take<int32_t>(panels * kernel.nr * 4)),
        values(pieces.take<char>(panels * panel_bytes)) {}
};

// The workspace of a product: x in integers, W if it is not packed yet, and the workspace of gemm.  Rows of x
// begin an odd number of cache lines apart, so that those of a tile do not fall on the same lines of a cache.
struct Space {
  int64_t row_bytes;
  Pieces pieces;
  float* scales;
  char* values;
  void* weights;
  void* products;

  Space(const GemmKernel& kernel, const Int8Product& p, Isa isa, void* base)
      : row_bytes(round_up(round_up(p.k, kernel.a_group) * kernel.integer_bytes, kLine) | kLine),
        pieces(base),
        scales(pieces.take<float>(p.m * 4)),
        values(pieces.take<char>(round_up(p.m, kernel.mr) * row_bytes)),
        weights(pieces.take<void>(p.packed ? 0 : static_cast<int64_t>(packed_int8_bytes(isa, p.n, p.k)))),
        products(pieces.take<void>(0)) {}
};

Gemm gemm_of(const GemmKernel& kernel, const Int8Product& p, const Space& space, const Weights& w) {
  Gemm g;
  g.m = p.m, g.n = p.n, g.k = p.k;
  g.c_type = p.type;
  g.a = space.values, g.lda = space.row_bytes / kernel.integer_bytes;
  g.b = w.values, g.b_packed = true;
  g.c = p.y, g.ldc = p.ldy;
  g.bias = p.bias;
  g.integers = true;
  g.scales = {space.scales, w.scales, w.offsets};
  return g;
}

}  // namespace

const GemmKernel& int8_kernel(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return kGemmInt8Avx2;
    case Isa::kAvx2Vnni:
      return kGemmInt8Avx2Vnni;
    case Isa::kAvx512:
      return kGemmInt8Avx512;
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Bf16:
      return kGemmInt8Avx512Vnni;
    case Isa::kAmx:
      return kGemmInt8Amx;
#elif defined(__aarch64__)
    case Isa::kNeon:
      return kGemmInt8Neon;
    case Isa::kNeonDot:
    case Isa::kNeonBf16:
      return kGemmInt8NeonDot;
#endif
    default:
      return kGemmInt8Portable;
  }
}

size_t packed_int8_bytes(Isa isa, int64_t n, int64_t k) {
  return Weights(int8_kernel(isa), n, k, nullptr).pieces.used();
}

void pack_int8(ThreadPool& pool, Isa isa, int64_t n, int64_t k, const float* w, void* out) {
  const GemmKernel& kernel = int8_kernel(isa);
  const Weights packed(kernel, n, k, out);
  pool.run([&](int part, int parts) {
    const Share mine = share(static_cast<long>(packed.panels), part, parts);
    for (long i = mine.begin; i < mine.end; ++i) {
      GemmQuantize q{};
      q.src = w + i * kernel.nr * k;
      q.ld = q.k = k;
      q.rows = std::min<int64_t>(kernel.nr, n - i * kernel.nr);
      q.dst = packed.values + i * packed.panel_bytes;
      q.scales = packed.scales + i * kernel.nr;
      q.k_padded = packed.k_padded;
      q.panel = kernel.nr, q.group = kernel.b_group;
      q.offsets = packed.offsets + i * kernel.nr;
      kernel.quantize_b(&q);
    }
  });
}

size_t int8_workspace_bytes(Isa isa, const Int8Product& p, int threads) {
  const GemmKernel& kernel = int8_kernel(isa);
  const Space space(kernel, p, isa, nullptr);
  const Gemm g = gemm_of(kernel, p, space, Weights(kernel, p.n, p.k, nullptr));
  return space.pieces.used() + gemm_workspace_bytes(isa, g, threads);
}

void int8_product(ThreadPool& pool, Isa isa, const Int8Product& p, void* workspace) {
  const GemmKernel& kernel = int8_kernel(isa);
  const Space space(kernel, p, isa, workspace);
  if (!p.packed) pack_int8(pool, isa, p.n, p.k, static_cast<const float*>(p.w), space.weights);
  // From here on W is only read.
  const Weights w(kernel, p.n, p.k, p.packed ? const_cast<void*>(p.w) : space.weights);
  pool.run([&](int part, int parts) {
    const Share mine = share(static_cast<long>(p.m), part, parts);
    GemmQuantize q{};
    q.src_type = kernel_type(p.type);
    q.src = static_cast<const char*>(p.x) + mine.begin * p.ldx * static_cast<int64_t>(size_of(p.type));
    q.ld = p.ldx, q.k = p.k;
    q.rows = mine.end - mine.begin;
    q.dst = space.values + mine.begin * space.row_bytes;
    q.dst_row_bytes = space.row_bytes;
    q.scales = space.scales + mine.begin;
    kernel.quantize_a(&q);
  });
  gemm(pool, isa, gemm_of(kernel, p, space, w), space.products);
}

}  // namespace lathe::cpu
