// Matrix products of a BERT-base step, each as a share of the peak that is measured first.
// gemm_bench [threads] [seconds per case] [part of a name]: JSON lines.
#include <fmt/core.h>
#include <stdint.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/gemm_int8.h"
#include "lathe/backends/cpu/peak.h"

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
  uint32_t words[16];
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

// ---- Products

constexpr int64_t kTokens = 1024;

std::vector<Line> filled(int64_t elements) {
  std::vector<Line> lines(static_cast<size_t>(elements) / 16 + 1);
  uint32_t random = 1;  // numbers of all mantissas in ±[0.5, 1), as f32 and bf16: the clock depends on them
  for (Line& line : lines)
    for (uint32_t& word : line.words) {
      random = random * 1664525u + 1013904223u;
      word = 0x3f003f00u | ((random ^ random >> 16) & 0x807f807fu);
    }
  return lines;
}

struct Product {
  const char* pass;
  Gemm g;
  bool packed;  // b is packed before the clock starts
};

void bench(ThreadPool& pool, Isa isa, const Peak& peak, DType type, Product product, double seconds) {
  Gemm g = product.g;
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
    pack_b(isa, layout, g.n, g.k, g.b_type, g.b, g.ldb, g.b_transposed, {0, g.n, 0, g.k}, packed.data());
    g.b = packed.data();
    g.b_packed = true;
  }
  std::vector<Line> workspace(gemm_workspace_bytes(isa, g, pool.size()) / 64 + 1);
  const Times t = time_of(seconds, [&] { gemm(pool, isa, g, workspace.data()); });
  const double gflop = 2e-9 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const double limit = type == DType::bf16 ? peak.bf16 : peak.f32;
  const double limit_l2 = type == DType::bf16 ? peak.bf16_from_l2 : peak.f32;
  fmt::print(
      "{{\"bench\":\"gemm\",\"isa\":\"{}\",\"threads\":{},\"type\":\"{}\",\"pass\":\"{}\",\"packed\":{},"
      "\"m\":{},\"n\":{},\"k\":{},\"best_ms\":{:.3f},\"median_ms\":{:.3f},\"gflops\":{:.1f},"
      "\"percent_of_peak\":{:.1f},\"percent_of_peak_from_l2\":{:.1f}}}\n",
      name_of(isa), pool.size(), lathe::name_of(type), product.pass, product.packed, g.m, g.n, g.k,
      t.best * 1e3, t.median * 1e3, gflop / t.best, 100 * gflop / t.best / limit,
      100 * gflop / t.best / limit_l2);
  std::fflush(stdout);
}

// The forward product in integers of bf16 rows, which it rounds itself, with packed weights.
void bench_int8(ThreadPool& pool, Isa isa, const Peak& peak, int64_t in, int64_t out, double seconds) {
  Int8Product p{.m = kTokens, .n = out, .k = in, .type = DType::bf16};
  std::vector<Line> x = filled(p.m * p.k), y = filled(p.m * p.n), w = filled(p.n * p.k);
  std::vector<Line> packed(packed_int8_bytes(isa, p.n, p.k) / 64 + 1);
  pack_int8(pool, isa, p.n, p.k, reinterpret_cast<const float*>(w.data()), packed.data());
  p.x = x.data(), p.w = packed.data(), p.packed = true, p.y = y.data();
  std::vector<Line> workspace(int8_workspace_bytes(isa, p, pool.size()) / 64 + 1);
  const Times t = time_of(seconds, [&] { int8_product(pool, isa, p, workspace.data()); });
  const double gflop = 2e-9 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  fmt::print(
      "{{\"bench\":\"gemm\",\"isa\":\"{}\",\"threads\":{},\"type\":\"int8\",\"pass\":\"forward\",\"packed\":"
      "true,"
      "\"m\":{},\"n\":{},\"k\":{},\"best_ms\":{:.3f},\"median_ms\":{:.3f},\"gflops\":{:.1f},"
      "\"percent_of_bf16_peak\":{:.1f}}}\n",
      name_of(isa), pool.size(), p.m, p.n, p.k, t.best * 1e3, t.median * 1e3, gflop / t.best,
      100 * gflop / t.best / peak.bf16);
  std::fflush(stdout);
}

// A linear layer of `in` → `out` features on 1024 tokens: weights f32, the rest of `type`.
void bench_layer(ThreadPool& pool, Isa isa, const Peak& peak, DType type, int64_t in, int64_t out,
                 double seconds) {
  const Gemm forward{.m = kTokens, .n = out, .k = in, .a_type = type, .c_type = type, .b_transposed = true};
  const Gemm grad_input{.m = kTokens, .n = in, .k = out, .a_type = type, .c_type = type};
  const Gemm grad_weight{
      .m = out, .n = in, .k = kTokens, .a_type = type, .b_type = type, .c_type = type, .a_transposed = true};
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
    Peak peak = measure_peak(pool, isa);
    for (double* flops : {&peak.f32, &peak.bf16, &peak.bf16_from_l2}) *flops *= 1e-9;  // as everything below
    fmt::print(
        "{{\"bench\":\"peak\",\"isa\":\"{}\",\"threads\":{},\"f32_gflops\":{:.1f},\"bf16_gflops\":{:.1f},"
        "\"bf16_from_l2_gflops\":{:.1f}}}\n",
        name_of(isa), pool.size(), peak.f32, peak.bf16, peak.bf16_from_l2);
    for (DType type : {DType::f32, DType::bf16})
      for (const auto& [in, out] : {std::pair{768, 768}, {768, 3072}, {3072, 768}})
        bench_layer(pool, isa, peak, type, in, out, seconds);
    for (const auto& [in, out] : {std::pair{768, 768}, {768, 3072}, {3072, 768}})
      bench_int8(pool, isa, peak, in, out, seconds);
  }
  return 0;
}

}  // namespace
}  // namespace lathe::cpu

int main(int argc, char** argv) { return lathe::cpu::run(argc, argv); }
