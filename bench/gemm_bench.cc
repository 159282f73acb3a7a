// Matrix products of a BERT-base step, each as a share of the peak that is measured first.
// gemm_bench [threads] [seconds per case] [part of a name]: JSON lines.
#include <fmt/core.h>
#include <stdint.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "lathe/backends/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lathe::cpu {
namespace {

// One thread is timed by its own CPU time, so that other programs on the machine matter less; several by the
// clock.
bool cpu_time = false;

double now() {
  timespec t;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct alignas(64) Line {
  char bytes[64];
};

// Best and median seconds of one call within about `seconds`, at least five calls.
struct Times {
  double best, median;
};
template <typename F>
Times time_of(double seconds, F&& call) {
  call();
  std::vector<double> all;
  const double end = now() + seconds;
  while (all.size() < 5 || now() < end) {
    const double start = now();
    call();
    all.push_back(now() - start);
  }
  std::sort(all.begin(), all.end());
  return {all.front(), all[all.size() / 2]};
}

// ---- Peaks: 10⁵ rounds of independent sums that stay in registers.  Each returns its multiply-adds × 2.

constexpr int64_t kRounds = 100000;
volatile float sink;

double peak_portable() {
  float sum[16] = {};
  for (int64_t r = 0; r < kRounds; ++r)
    for (float& s : sum) s = s * 0.999f + 0.5f;
  for (float s : sum) sink = s;
  return 2.0 * 16 * kRounds;
}

#if defined(__x86_64__)

// Written out, so that no compiler keeps a sum in memory.
#define LATHE_CLOBBERED                                                                                   \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
      "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22",  \
      "xmm23", "xmm30", "xmm31"
#define LATHE_PEAK(instruction, reg)                                                              \
  "vpxord %%zmm30, %%zmm30, %%zmm30\n vpxord %%zmm31, %%zmm31, %%zmm31\n"                         \
  ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"                       \
  "vpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n .endr\n 1:\n"                                            \
  ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n" instruction " %%" reg \
  "30, %%" reg "31, %%" reg "\\r\n .endr\n dec %0\n jnz 1b\n"

__attribute__((target("avx512f"))) double peak_avx512() {
  int64_t rounds = kRounds;
  __asm__ volatile(LATHE_PEAK("vfmadd231ps", "zmm") : "+r"(rounds) : : LATHE_CLOBBERED);
  return 2.0 * 16 * 24 * kRounds;
}

__attribute__((target("avx512f"))) double peak_avx512_bf16() {
  int64_t rounds = kRounds;
  __asm__ volatile(LATHE_PEAK("vdpbf16ps", "zmm") : "+r"(rounds) : : LATHE_CLOBBERED);
  return 2.0 * 32 * 24 * kRounds;
}

__attribute__((target("avx2"))) double peak_avx2() {
  int64_t rounds = kRounds;
  __asm__ volatile(
      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14\n vxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n .endr\n 1:\n"
      ".irp r, 0,1,2,3,4,5,6,7,8,9,10,11\n vfmadd231ps %%ymm13, %%ymm14, %%ymm\\r\n .endr\n dec %0\n jnz 1b\n"
      : "+r"(rounds)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm13", "xmm14");
  return 2.0 * 8 * 12 * kRounds;
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four sums of 16 x 16.  reads = 0: operands stay in tiles; else 4 KiB of operands per round of 4
// instructions, from a buffer of that many bytes.
__attribute__((target("amx-tile,amx-bf16"))) double peak_amx(const char* buffer, int64_t bytes) {
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, buffer, 64);
  _tile_loadd(5, buffer, 64);
  _tile_loadd(6, buffer, 64);
  _tile_loadd(7, buffer, 64);
  for (int64_t r = 0, at = 0; r < kRounds / 8; ++r) {
    if (bytes > 0) {
      _tile_loadd(4, buffer + at, 64);
      _tile_loadd(5, buffer + at + 1024, 64);
      _tile_loadd(6, buffer + at + 2048, 64);
      _tile_loadd(7, buffer + at + 3072, 64);
      at = at + 4096 < bytes ? at + 4096 : 0;
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float out[256];
  _tile_stored(0, out, 64);
  sink = out[0];
  _tile_release();
  return 2.0 * 16 * 16 * 32 * 4 * (kRounds / 8);
}

#endif

template <typename F>
double gigaflops(ThreadPool& pool, F&& work) {
  double flops = 0;
  const Times t = time_of(0.1, [&] {
    pool.run([&](int part, int parts) {
      const double mine = work(part);
      if (part == 0) flops = mine * parts;
    });
  });
  return flops / t.best * 1e-9;
}

struct Peak {
  double f32, bf16, bf16_l2;
};

Peak peak_of(ThreadPool& pool, [[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  constexpr int64_t kL2 = 1 << 20;
  std::vector<Line> buffer(static_cast<size_t>(kL2 / 64 * pool.size()));
  const auto mine = [&](int part) { return buffer[static_cast<size_t>(part) * (kL2 / 64)].bytes; };
  if (isa >= Isa::kAvx512) {
    Peak peak;
    peak.f32 = peak.bf16 = gigaflops(pool, [](int) { return peak_avx512(); });
    if (isa >= Isa::kAvx512Bf16) peak.bf16 = gigaflops(pool, [](int) { return peak_avx512_bf16(); });
    if (isa == Isa::kAmx) peak.bf16 = gigaflops(pool, [&](int part) { return peak_amx(mine(part), 0); });
    peak.bf16_l2 = peak.bf16;
    if (isa == Isa::kAmx) peak.bf16_l2 = gigaflops(pool, [&](int part) { return peak_amx(mine(part), kL2); });
    return peak;
  }
  if (isa == Isa::kAvx2) {
    const double f32 = gigaflops(pool, [](int) { return peak_avx2(); });
    return {f32, f32, f32};
  }
#endif
  const double f32 = gigaflops(pool, [](int) { return peak_portable(); });
  return {f32, f32, f32};
}

// ---- Products

struct Product {
  const char* pass;
  Gemm g;
  bool packed;  // b is packed before the clock starts
};

void bench(ThreadPool& pool, Isa isa, const Peak& peak, DType type, Product product, double seconds) {
  Gemm g = product.g;
  const auto filled = [](int64_t elements) {
    std::vector<Line> lines(static_cast<size_t>(elements) / 16 + 1);
    std::memset(lines.data(), 0x3c, lines.size() * 64);  // 0.0115 in f32 and bf16
    return lines;
  };
  std::vector<Line> a = filled(g.m * g.k), b = filled(g.n * g.k), c = filled(g.m * g.n);
  g.a = a.data();
  g.b = b.data();
  g.c = c.data();
  g.lda = g.a_transposed ? g.m : g.k;
  g.ldb = g.b_transposed ? g.k : g.n;
  g.ldc = g.n;
  std::vector<Line> packed;
  if (product.packed) {
    const PackedB layout = packed_b(isa, type, g.n, g.k);
    packed.resize(layout.bytes / 64 + 1);
    pack_b(pool, isa, layout, g.n, g.k, g.b_type, g.b, g.ldb, g.b_transposed, packed.data());
    g.b = packed.data();
    g.b_packed = true;
  }
  std::vector<Line> workspace(gemm_workspace_bytes(isa, g, pool.size()) / 64 + 1);
  const Times t = time_of(seconds, [&] { gemm(pool, isa, g, workspace.data()); });
  const double gflop = 2e-9 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const double limit = type == DType::bf16 ? peak.bf16 : peak.f32;
  const double limit_l2 = type == DType::bf16 ? peak.bf16_l2 : peak.f32;
  fmt::print(
      "{{\"bench\":\"gemm\",\"isa\":\"{}\",\"threads\":{},\"type\":\"{}\",\"pass\":\"{}\",\"packed\":{},"
      "\"m\":{},\"n\":{},\"k\":{},\"best_ms\":{:.3f},\"median_ms\":{:.3f},\"gflops\":{:.1f},"
      "\"percent_of_peak\":{:.1f},\"percent_of_peak_from_l2\":{:.1f}}}\n",
      name_of(isa), pool.size(), lathe::name_of(type), product.pass, product.packed, g.m, g.n, g.k,
      t.best * 1e3, t.median * 1e3, gflop / t.best, 100 * gflop / t.best / limit,
      100 * gflop / t.best / limit_l2);
  std::fflush(stdout);
}

// A linear layer of `in` → `out` features on 1024 tokens: weights f32, the rest of `type`.
void bench_layer(ThreadPool& pool, Isa isa, const Peak& peak, DType type, int64_t in, int64_t out,
                 double seconds) {
  constexpr int64_t kTokens = 1024;
  const Gemm forward{.m = kTokens, .n = out, .k = in, .a_type = type, .c_type = type, .b_transposed = true};
  const Gemm grad_input{.m = kTokens, .n = in, .k = out, .a_type = type, .c_type = type};
  const Gemm grad_weight{
      .m = out, .n = in, .k = kTokens, .a_type = type, .b_type = type, .a_transposed = true};
  for (const Product& p : {Product{"forward", forward, false},
                           {"forward", forward, true},
                           {"grad_input", grad_input, false},
                           {"grad_input", grad_input, true},
                           {"grad_weight", grad_weight, false}})
    bench(pool, isa, peak, type, p, seconds);
}

int run(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 0);
  cpu_time = pool.size() == 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.2;
  const std::string wish = argc > 3 ? argv[3] : "";
  for (Isa isa : available_isas()) {
    if (!wish.empty() && name_of(isa) != wish) continue;
    const Peak peak = peak_of(pool, isa);
    fmt::print(
        "{{\"bench\":\"peak\",\"isa\":\"{}\",\"threads\":{},\"f32_gflops\":{:.1f},\"bf16_gflops\":{:.1f},"
        "\"bf16_from_l2_gflops\":{:.1f}}}\n",
        name_of(isa), pool.size(), peak.f32, peak.bf16, peak.bf16_l2);
    for (DType type : {DType::f32, DType::bf16})
      for (const auto& [in, out] : {std::pair{768, 768}, {768, 3072}, {3072, 768}})
        bench_layer(pool, isa, peak, type, in, out, seconds);
  }
  return 0;
}

}  // namespace
}  // namespace lathe::cpu

int main(int argc, char** argv) { return lathe::cpu::run(argc, argv); }
