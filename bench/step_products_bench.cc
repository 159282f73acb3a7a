// Matrix products in the order of a step of BERT-base in bf16, each on memory of its own that its producer
// has just written, with the workspace at one place and, in turns, each time where others lay some time ago
// (Impl::apart), where operands are packed past the caches. step_products_bench [threads] [tokens] [layers]
// [rounds]: JSON lines, medians.
#include <fmt/core.h>
#include <stdint.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lathe/backends/cpu/gemm.h"
#include "lathe/backends/cpu/memory.h"

namespace lathe::cpu {
namespace {

constexpr struct { int64_t in, out; } kLayers[] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};
constexpr const char* kPasses[] = {"forward", "grad_input", "grad_weight"};
constexpr size_t kPlaces = 32;  // of workspaces, apart

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

/// A matrix of bf16 around ±0.5, first touched by all threads.
class Matrix {
 public:
  Matrix(ThreadPool& pool, int64_t rows, int64_t cols)
      : pool_(pool), words_(rows * cols / 2), data_(allocate_zeroed(static_cast<size_t>(rows * cols) * 2)) {
    if (data_ == nullptr) std::exit(1);
    write();
  }
  void* data() const { return data_.get(); }
  /// Each thread writes its rows anew, as an op on rows does.
  void write() const {
    pool_.run([&](int part, int parts) {
      const Share mine = share(words_, part, parts);
      auto* words = reinterpret_cast<uint32_t*>(data_.get());
      for (long i = mine.begin; i < mine.end; ++i)
        words[i] = 0x3f003f00u | (static_cast<uint32_t>(i) * 2654435761u & 0x807f807fu);
    });
  }

 private:
  ThreadPool& pool_;
  int64_t words_;
  std::shared_ptr<std::byte> data_;
};

struct Linear {
  int64_t in, out;
  Matrix x, y, w, w_turned, dw;
};

class Step {
 public:
  Step(ThreadPool& pool, int64_t tokens, int64_t layers)
      : pool_(pool), tokens_(tokens), dy_(pool, tokens, 3072), dx_(pool, tokens, 3072) {
    for (int64_t layer = 0; layer < layers; ++layer)
      for (const auto& [in, out] : kLayers)
        linears_.push_back({in,
                            out,
                            {pool, tokens, in},
                            {pool, tokens, out},
                            {pool, out, in},
                            {pool, out, in},
                            {pool, out, in}});
    for (const Linear& l : linears_)
      for (int pass = 0; pass < 3; ++pass)
        workspace_bytes_ =
            std::max(workspace_bytes_, gemm_workspace_bytes(isa_, product(l, pass), pool.size()));
    workspace_bytes_ = (workspace_bytes_ + 63) / 64 * 64;
    workspaces_ = allocate_zeroed(workspace_bytes_ * kPlaces);
    if (workspaces_ == nullptr) std::exit(1);
  }

  double flop() const {
    double sum = 0;
    for (const Linear& l : linears_) sum += 2.0 * static_cast<double>(l.in * l.out * tokens_);
    return sum;
  }

  /// Adds the seconds of each pass.
  void run(bool apart, double (&seconds)[3]) {
    for (const Linear& l : linears_) {
      l.x.write();
      run(l, 0, apart, seconds);
    }
    for (size_t i = linears_.size(); i-- > 0;) {
      dy_.write();
      run(linears_[i], 2, apart, seconds);
      run(linears_[i], 1, apart, seconds);
    }
  }

 private:
  Gemm product(const Linear& l, int pass) const {
    Gemm g{.a_type = DType::bf16, .b_type = DType::bf16, .c_type = DType::bf16};
    if (pass == 0) {
      g.m = tokens_, g.n = l.out, g.k = l.in, g.lda = l.in;
      g.a = l.x.data(), g.b = l.w.data(), g.c = l.y.data();
      g.b_packed = g.b_transposed = g.c_cold = true;
    } else if (pass == 1) {
      g.m = tokens_, g.n = l.in, g.k = l.out, g.lda = l.out;
      g.a = dy_.data(), g.b = l.w_turned.data(), g.c = dx_.data();
      g.b_packed = true;
    } else {
      g.m = l.out, g.n = l.in, g.k = tokens_, g.lda = l.out;
      g.a = dy_.data(), g.b = l.x.data(), g.c = l.dw.data();
      g.a_transposed = g.c_streams = true;
    }
    g.ldb = g.b_transposed ? g.k : g.n, g.ldc = g.n;
    return g;
  }
  void run(const Linear& l, int pass, bool apart, double (&seconds)[3]) {
    const size_t place = apart ? place_++ % kPlaces : 0;
    Gemm g = product(l, pass);
    g.workspace_cold = apart;
    const double begin = now();
    gemm(pool_, isa_, g, workspaces_.get() + place * workspace_bytes_);
    seconds[pass] += now() - begin;
  }

  ThreadPool& pool_;
  const Isa isa_ = chosen_isa();
  int64_t tokens_;
  Matrix dy_, dx_;
  std::vector<Linear> linears_;
  size_t workspace_bytes_ = 0, place_ = 0;
  std::shared_ptr<std::byte> workspaces_;
};

int run(int argc, char** argv) {
  const auto argument = [&](int i, int other) {
    return argc > i ? std::max(std::min(1, other), std::atoi(argv[i])) : other;
  };
  ThreadPool pool(argument(1, 0));
  const int64_t tokens = argument(2, 1024), layers = argument(3, 12);
  const int rounds = argument(4, 10);
  Step step(pool, tokens, layers);
  std::vector<double> times[2][3];
  for (int round = 0; round < rounds; ++round)
    for (const bool apart : {false, true}) {
      double seconds[3] = {};
      step.run(apart, seconds);
      for (int pass = 0; pass < 3; ++pass) times[apart][pass].push_back(seconds[pass]);
    }
  for (const bool apart : {false, true})
    for (int pass = 0; pass < 3; ++pass)
      fmt::print(
          "{{\"bench\":\"step_products\",\"isa\":\"{}\",\"threads\":{},\"tokens\":{},\"layers\":{},"
          "\"pass\":\"{}\",\"workspace\":\"{}\",\"median_ms\":{:.3f},\"gflops\":{:.1f}}}\n",
          name_of(chosen_isa()), pool.size(), tokens, layers, kPasses[pass], apart ? "apart" : "one",
          median(times[apart][pass]) * 1e3, 1e-9 * step.flop() / median(times[apart][pass]));
  return 0;
}

}  // namespace
}  // namespace lathe::cpu

int main(int argc, char** argv) { return lathe::cpu::run(argc, argv); }
