#include "lathe/backends/cpu/blas.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <random>
#include <vector>

#include "lathe/core/cache_file.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

constexpr int kRowMajor = 101, kAsItIs = 111, kTransposed = 112;  // enum values of cblas.h
constexpr const char *kByOwn = "f32 products: own\n", *kByLibrary = "f32 products: ";

/// c = bias or addend, if there is one: what the library then adds to.
bool begin_sums(ThreadPool& pool, const Gemm& g) {
  if (g.bias == nullptr && g.addend == nullptr) return false;
  if (g.bias == nullptr && g.addend == g.c) return true;
  float* c = static_cast<float*>(g.c);
  const float* addend = static_cast<const float*>(g.addend);
  pool.run([&](int part, int parts) {
    const Share rows = share(g.m, part, parts);
    for (int64_t i = rows.begin; i < rows.end; ++i)
      if (g.bias == nullptr)
        std::copy_n(addend + i * g.ldc, g.n, c + i * g.ldc);
      else
        for (int64_t j = 0; j < g.n; ++j)
          c[i * g.ldc + j] = g.bias[j] + (addend == nullptr ? 0.0f : addend[i * g.ldc + j]);
  });
  return true;
}

/// The products of a linear layer with 256 tokens, as wide as BERT-base.
class Trial {
 public:
  Trial(ThreadPool& pool, Isa isa) : pool_(pool), isa_(isa) {
    // 12 bits, too many for TF32 or bf16, against −1, 0 and 1: no sum is rounded.
    std::minstd_rand random(1);
    for (float& x : wide_) x = static_cast<float>(static_cast<int>(random() % 8191) - 4095);
    for (float& x : narrow_) x = static_cast<float>(static_cast<int>(random() % 3) - 1);
    size_t workspace = 0;
    for (const Gemm& g : products(nullptr))
      workspace = std::max(workspace, gemm_workspace_bytes(isa, g, pool.size()));
    workspace_.resize(workspace / sizeof(Line) + 1);
  }

  bool same(const Blas& blas) {
    for (size_t i = 0; i < products(nullptr).size(); ++i) {
      gemm(pool_, isa_, products(own_.data())[i], workspace_.data());
      blas_gemm(blas, pool_, products(theirs_.data())[i]);
      if (own_ != theirs_) return false;
    }
    return true;
  }

  /// Whether sums that are rounded come out the same twice.
  bool repeats(const Blas& blas) {
    for (std::vector<float>* c : {&own_, &theirs_}) {
      Gemm g = products(c->data())[0];
      g.b = wide_.data();
      blas_gemm(blas, pool_, g);
    }
    return own_ == theirs_;
  }

  /// Microseconds, by the library or, where it is null, by Lathe.
  double time(const Blas* blas) {
    const auto start = std::chrono::steady_clock::now();
    for (const Gemm& g : products(theirs_.data()))
      if (blas != nullptr)
        blas_gemm(*blas, pool_, g);
      else
        gemm(pool_, isa_, g, workspace_.data());
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  static constexpr int64_t kTokens = 256, kWidth = 768;

  std::vector<Gemm> products(float* c) const {
    const int64_t w = kWidth;
    Gemm forward{.m = kTokens, .n = w, .k = w, .b_transposed = true, .bias = narrow_.data()};
    Gemm input{.m = kTokens, .n = w, .k = w, .addend = wide_.data()};
    Gemm weight{.m = w, .n = w, .k = kTokens, .a_transposed = true};
    for (Gemm* g : {&forward, &input, &weight}) {
      const bool first = g != &input;  // the case whose a is wide
      g->a = (first ? wide_ : narrow_).data(), g->b = (first ? narrow_ : wide_).data(), g->c = c;
      g->lda = g->ldb = g->ldc = w;
    }
    return {forward, input, weight};
  }

  ThreadPool& pool_;
  Isa isa_;
  std::vector<float> wide_ = std::vector<float>(kWidth * kWidth), narrow_ = wide_, own_ = wide_,
                     theirs_ = wide_;
  std::vector<Line> workspace_;
};

}  // namespace

Blas open_blas(const std::string& path) {
  const auto unusable = [&](const char* what, const std::string& why) {
    fail(ErrorCode::kNotFound,
         "LATHE_BLAS: {} {} ({}); expected the file of a BLAS library with its C interface (Debian, Ubuntu: "
         "libopenblas.so.0 of libopenblas0-pthread), or none for Lathe's own products",
         path, what, why);
  };
  const auto last_error = [] {
    const char* why = dlerror();
    return std::string(why == nullptr ? "no reason given" : why);
  };
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) unusable("does not open", last_error());
  Blas blas;
  blas.sgemm = reinterpret_cast<Blas::Sgemm>(dlsym(handle, "cblas_sgemm"));
  if (blas.sgemm == nullptr) {
    const std::string why = last_error();
    dlclose(handle);
    unusable("has no cblas_sgemm", why);
  }
  utsname system{};
  uname(&system);
  blas.name = fmt::format("{}, {} {}", path, system.sysname, system.release);
  return blas;
}

bool blas_takes(const Gemm& g) {
  const bool f32 = g.a_type == DType::f32 && g.b_type == DType::f32 && g.c_type == DType::f32;
  const int64_t most = std::max({g.m, g.n, g.k, g.lda, g.ldb, g.ldc});
  return f32 && !g.integers && !g.b_packed && most <= INT_MAX;
}

void blas_gemm(const Blas& blas, ThreadPool& pool, const Gemm& g) {
  const float beta = begin_sums(pool, g) ? 1.0f : 0.0f;
  const auto number = [](int64_t x) { return static_cast<int>(x); };
  blas.sgemm(kRowMajor, g.a_transposed ? kTransposed : kAsItIs, g.b_transposed ? kTransposed : kAsItIs,
             number(g.m), number(g.n), number(g.k), 1.0f, static_cast<const float*>(g.a), number(g.lda),
             static_cast<const float*>(g.b), number(g.ldb), beta, static_cast<float*>(g.c), number(g.ldc));
}

KernelVerdict measure_blas(const Blas& blas, ThreadPool& pool, Isa isa) {
  constexpr int kRuns = 5;
  Trial trial(pool, isa);
  KernelVerdict verdict{trial.same(blas) && trial.repeats(blas), trial.time(&blas), trial.time(nullptr)};
  for (int run = 0; verdict.right && run < kRuns; ++run) {
    verdict.parts_us = std::min(verdict.parts_us, trial.time(nullptr));
    verdict.us = std::min(verdict.us, trial.time(&blas));
  }
  return verdict;
}

BlasChoice::BlasChoice(const std::string& setting, const std::string& system, const std::string& cache,
                       ThreadPool& pool, Isa isa)
    : by_setting_(!setting.empty()) {
  if (setting == "none") return;
  if (by_setting_) {
    blas_ = open_blas(setting);
    used_ = true;
    return;
  }
  if (system.empty()) return;
  try {
    blas_ = open_blas(system);
  } catch (const Error&) {
    return;  // nobody asked for this library
  }
  const std::string key = fmt::format("{}, {}, {} threads", blas_->name, name_of(isa), pool.size());
  KernelVerdicts verdicts = KernelVerdicts::parse(read_cache(cache));
  if (!verdicts.has(key)) {
    verdicts.set(key, measure_blas(*blas_, pool, isa));
    write_cache(cache, verdicts.text());
  }
  used_ = verdicts.use(key, "");
}

std::string BlasChoice::tuning() const {
  if (!blas_) return by_setting_ ? kByOwn : "";
  return used_ ? kByLibrary + blas_->name + "\n" : kByOwn;
}

void BlasChoice::adopt(const std::string& tuning) {
  if (by_setting_ || !blas_) return;
  if (tuning == kByOwn) used_ = false;
  if (tuning == kByLibrary + blas_->name + "\n") used_ = true;
}

std::string system_blas() {
#if defined(__APPLE__) && defined(__aarch64__)
  return "/System/Library/Frameworks/Accelerate.framework/Accelerate";
#else
  return {};
#endif
}

}  // namespace lathe::cpu
