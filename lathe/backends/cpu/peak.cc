#include "lathe/backends/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "lathe/backends/cpu/isa/peak/peak_kernels.h"
#include "lathe/backends/cpu/memory.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

constexpr double kSeconds = 0.1, kMostSeconds = 1;  // for each kernel
constexpr int kCalls = 5;                           // at least
constexpr double kCallSeconds = 4e-3;               // as long as a thread may have to wait for a core
constexpr double kNear = 0.9;                       // of the fastest call
constexpr int64_t kRounds = 10000;                  // between two looks at the clock: 20 to 500 µs
constexpr int64_t kL2Bytes = 1 << 20;  // of operands: they fit the second-level cache, not the first

struct alignas(64) Line {
  uint16_t elements[32] = {};
};

const PeakKernel* kernel_of(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return &kPeakPortable;
#if defined(__x86_64__)
    case Isa::kAvx2:
    case Isa::kAvx2Vnni:
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
    return loop == nullptr ? 0.0 : measure_rate(pool, [=](int) { return loop(kRounds); });
  };
  const Operands operands(pool);
  const auto with_operands = [&](double (*loop)(int64_t, const char*, int64_t)) {
    return loop == nullptr
               ? 0.0
               : measure_rate(pool, [&](int part) { return loop(kRounds, operands.of(part), kL2Bytes); });
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

double measure_rate(ThreadPool& pool, const std::function<double(int part)>& work,
                    const std::function<double()>& now) {
  if (!now) return measure_rate(pool, work, seconds);
  struct alignas(64) Own {
    double rate = 0;
  };
  std::vector<Own> own(static_cast<size_t>(pool.size()));
  std::vector<double> rates;
  const double begin = now();
  for (;;) {
    pool.run([&](int part, int) {
      const double start = now();
      double done = 0, took = 0;
      while (took < kCallSeconds) {
        done += work(part);
        took = now() - start;
      }
      own[static_cast<size_t>(part)].rate = done / took;
    });
    rates.push_back(
        std::accumulate(own.begin(), own.end(), 0.0, [](double sum, Own o) { return sum + o.rate; }));
    const double took = now() - begin;
    if (took < kSeconds) continue;
    const double best = *std::ranges::max_element(rates);
    const auto near = std::ranges::count_if(rates, [&](double r) { return r > kNear * best; });
    if (near >= kCalls || took > kMostSeconds) return best;
  }
}

double measure_copy(ThreadPool& pool) {
  constexpr long kBytes = 512l << 20, kPieces = 8;  // of each thread
  const auto from = allocate_zeroed(kBytes), to = allocate_zeroed(kBytes);
  if (from == nullptr || to == nullptr)
    fail(ErrorCode::kIo, "out of memory: 1 GiB needed to measure how fast it is");
  // The work is dealt out in pieces, so that a slow thread does not decide.
  const long pieces = kPieces * pool.size();
  const auto each = [&](auto&& f) {
    pool.deal(pieces);
    pool.run([&](int part, int) {
      for (long i; (i = pool.next_item(part)) >= 0;) {
        const Share piece = share(kBytes, static_cast<int>(i), static_cast<int>(pieces));
        f(to.get() + piece.begin, from.get() + piece.begin, static_cast<size_t>(piece.end - piece.begin));
      }
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
