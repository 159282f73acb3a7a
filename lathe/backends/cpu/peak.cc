#include "lathe/backends/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "lathe/backends/cpu/isa/peak_kernels.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

constexpr double kSeconds = 0.1, kMostSeconds = 1;  // for each kernel
constexpr int kCalls = 5;                           // at the least
constexpr double kLongCall = 4e-3;                  // as long as a core may keep a thread waiting
constexpr double kNear = 0.9;                       // of the fastest call
constexpr int64_t kL2Bytes = 1 << 20;  // of operands: they do not fit the first cache, but the second

struct alignas(64) Line {
  uint16_t elements[32] = {};
};

const PeakKernel* kernel_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return &kPeakPortable;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return &kPeakAvx2;
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
      return &kPeakAvx512;
    case Isa::kAvx512Bf16:
      return &kPeakAvx512Bf16;
    case Isa::kAmx:
      return &kPeakAmx;
#elif defined(__aarch64__)
    case Isa::kNeon:
    case Isa::kNeonDot:
      return &kPeakNeon;
    case Isa::kNeonBf16:
      return &kPeakNeonBf16;
#endif
    default:
      return nullptr;
  }
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Operations per second of the fastest of several calls of work(part, rounds), on all threads at once.  The
/// number of rounds grows until the work of a thread is long against the start of the others, and against
/// their waits where other programs have the cores; waits themselves do not count.  There few calls run
/// undisturbed: it goes on, for a while, until some have come near the fastest.
template <typename F>
double rate(ThreadPool& pool, F&& work) {
  std::vector<double> rates;
  int64_t rounds = 1000;
  const double begin = seconds();
  for (;;) {
    double flops = 0, own = 0;
    const double start = seconds();
    pool.run([&](int part, int parts) {
      const double since = seconds(), mine = work(part, rounds);
      if (part == 0) flops = mine * parts, own = seconds() - since;
    });
    const double end = seconds();
    rates.push_back(flops / (end - start));
    if (own < kLongCall) rounds *= 2;
    if (end - begin < kSeconds) continue;
    const double best = *std::ranges::max_element(rates);
    const auto near = std::ranges::count_if(rates, [&](double r) { return r > kNear * best; });
    if (near >= kCalls || end - begin > kMostSeconds) return best;
  }
}

/// Random bf16 in ±[0.5, 1): the clock of a processor at its power limit depends on how many bits change.
class Operands {
 public:
  explicit Operands(ThreadPool& pool) : memory_(static_cast<size_t>(pool.size())) {
    pool.run([&](int part, int) {
      std::vector<Line>& mine = memory_[static_cast<size_t>(part)];
      mine.resize(kL2Bytes / sizeof(Line));
      uint32_t random = 1;
      for (Line& line : mine)
        for (uint16_t& element : line.elements) {
          random = random * 1664525u + 1013904223u;  // Numerical Recipes, 7.1
          element = static_cast<uint16_t>(0x3f00u | (random >> 16 & 0x807fu));
        }
    });
  }
  const char* of(int part) const {
    return reinterpret_cast<const char*>(memory_[static_cast<size_t>(part)].data());
  }

 private:
  std::vector<std::vector<Line>> memory_;
};

}  // namespace

Peak measure_peak(ThreadPool& pool, Isa isa) {
  Peak peak;
  const auto plain = [&](double (*loop)(int64_t)) {
    return loop == nullptr ? 0.0 : rate(pool, [=](int, int64_t rounds) { return loop(rounds); });
  };
  const Operands operands(pool);
  const auto with_operands = [&](double (*loop)(int64_t, const char*, int64_t)) {
    return loop == nullptr ? 0.0 : rate(pool, [&](int part, int64_t rounds) {
      return loop(rounds, operands.of(part), kL2Bytes);
    });
  };
  for (const Isa level : available_isas()) {
    const PeakKernel* kernel = level <= isa ? kernel_of(level) : nullptr;
    if (kernel == nullptr) continue;
    peak.f32 = std::max(peak.f32, plain(kernel->f32));
    peak.bf16 = std::max({peak.bf16, plain(kernel->bf16), with_operands(kernel->bf16_of)});
    peak.bf16_from_l2 = std::max(peak.bf16_from_l2, with_operands(kernel->bf16_from));
  }
  peak.bf16 = std::max(peak.bf16, peak.f32);
  if (peak.bf16_from_l2 == 0) peak.bf16_from_l2 = peak.bf16;
  return peak;
}

double measure_copy(ThreadPool& pool) {
  constexpr long kBytes = 512l << 20;
  const auto from = allocate_zeroed(kBytes), to = allocate_zeroed(kBytes);
  if (from == nullptr || to == nullptr)
    fail(ErrorCode::kIo, "out of memory: 1 GiB wanted to measure how fast it is");
  const auto each = [&](auto&& f) {
    pool.run([&](int part, int parts) {
      const Share mine = share(kBytes, part, parts);
      f(to.get() + mine.begin, from.get() + mine.begin, static_cast<size_t>(mine.end - mine.begin));
    });
  };
  each([](std::byte*, std::byte* x, size_t n) {
    std::memset(x, 1, n);
  });  // pages of its own, not one of zeros
  double best = 0;
  for (int call = 0; call <= kCalls; ++call) {
    const double start = seconds();
    each([](std::byte* y, const std::byte* x, size_t n) { std::memcpy(y, x, n); });
    if (call > 0) best = std::max(best, 2.0 * kBytes / (seconds() - start));
  }
  return best;
}

}  // namespace lathe::cpu
