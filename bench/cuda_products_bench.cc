// Products of BERT-base's layers on one GPU, forward in bf16 and all of a step in f32: the best of cuBLASLt,
// with a kernel for GELU behind it where there is one, and every way of the own kernels; of f32 also how far
// each is off, in parts of Σ |a · b|.  cuda_products_bench [bf16|f32] [M …]: microseconds of one, of 24 in a
// graph over eight sets of operands, for so many rows.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lathe/backends/cuda/cublaslt.h"
#include "lathe/backends/cuda/cuda_backend.h"
#include "lathe/backends/cuda/device.h"
#include "lathe/backends/cuda/graph.h"
#include "lathe/backends/cuda/own_products.h"
#include "lathe/backends/cuda/products.h"

using namespace lathe;
using namespace lathe::cuda;

namespace {

constexpr int kSets = 8, kLaunches = 24, kRounds = 21;

struct ProductCase {
  std::string name;
  Product shape;  ///< without addresses
  bool gelu = false;
};

/// A linear layer's forward product, as a classifier runs it.
ProductCase forward(std::string name, int64_t m, int64_t n, int64_t k) {
  return {std::move(name), {m, n, k, DType::bf16, false, DType::bf16, false, true}};
}

std::vector<ProductCase> bf16_cases(int64_t m) {
  std::vector<ProductCase> cases{forward("q, k and v", m, 2304, 768), forward("output", m, 768, 768),
                                 forward("linear_gelu", m, 3072, 768),
                                 forward("linear_gelu, C unread", m, 3072, 768),
                                 forward("second", m, 768, 3072)};
  cases[2].gelu = cases[3].gelu = true;
  cases[3].shape.c_is_read = false;
  return cases;
}

/// The three products of a linear layer in a step.
void add_f32(std::vector<ProductCase>& cases, int64_t m, int64_t n, int64_t k) {
  const auto name = [&](const char* what) { return fmt::format("{} {} x {}", what, n, k); };
  cases.push_back({name("forward"), {m, n, k, DType::f32, false, DType::f32, false, true}});
  cases.push_back({name("to inputs"), {m, k, n}});
  cases.push_back({name("to weights"), {n, k, m, DType::f32, false, DType::f32, true}});
}

std::vector<ProductCase> f32_cases(int64_t m) {
  std::vector<ProductCase> cases;
  for (const auto& [n, k] : {std::pair{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}})
    add_f32(cases, m, n, k);
  for (const auto& [n, k] : {std::pair{512, 1024}, {256, 512}}) add_f32(cases, m, n, k);  // of SimpleModel
  return cases;
}

class Operands {
 public:
  Operands(cudaStream_t stream, const ProductCase& of) : stream_(stream) {
    for (Product& p : sets_) {
      p = of.shape;
      p.a = memory(p.m * p.k), p.b = memory(p.n * p.k), p.c = memory(p.m * p.n);
      p.b_is_settled = p.b_transposed;
      if (p.a_transposed) p.a_sums = reinterpret_cast<float*>(memory(p.m));
      if (p.b_transposed) p.bias = memory(p.n);
      if (of.gelu) p.gelu = memory(p.m * p.n);
    }
    if (of.shape.type == DType::f32) fill();
  }
  const Product& set(int i) const { return sets_[i % kSets]; }

  /// The largest |C − A'·B' − bias| / Σ |a · b| of the first set, of up to 4,096 elements; the bias is zero.
  double off() const {
    const Product& p = sets_[0];
    std::vector<float> c(static_cast<size_t>(p.m * p.n));
    check(cudaMemcpy(c.data(), p.c, c.size() * sizeof(float), cudaMemcpyDeviceToHost), "reading");
    double most = 0;
    for (size_t at = 0; at < c.size(); at += c.size() / 4096 + 1) {
      const auto row = static_cast<int64_t>(at) / p.n, col = static_cast<int64_t>(at) % p.n;
      double sum = 0, magnitude = 0;
      for (int64_t i = 0; i < p.k; ++i) {
        const double x = a_[static_cast<size_t>(p.a_transposed ? i * p.m + row : row * p.k + i)];
        const double y = b_[static_cast<size_t>(p.b_transposed ? col * p.k + i : i * p.n + col)];
        sum += x * y, magnitude += std::abs(x * y);
      }
      most = std::max(most, std::abs(c[at] - sum) / magnitude);
    }
    return most;
  }

 private:
  std::byte* memory(int64_t count) {
    held_.push_back(
        allocate(static_cast<size_t>(count) * size_of(sets_[0].type), Memory::kDevice, stream_).value());
    const int byte = sets_[0].type == DType::f32 ? 0 : 0x3c;
    check(cudaMemsetAsync(held_.back().data, byte, held_.back().bytes, stream_), "filling");
    return held_.back().data;
  }
  /// Normal numbers, the same in every set.
  void fill() {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (std::vector<float>* each : {&a_, &b_}) {
      each->resize(static_cast<size_t>((each == &a_ ? sets_[0].m : sets_[0].n) * sets_[0].k));
      std::ranges::generate(*each, [&] { return normal(generator); });
    }
    const auto upload = [&](const void* to, const std::vector<float>& from) {
      check(cudaMemcpyAsync(const_cast<void*>(to), from.data(), from.size() * sizeof(float),
                            cudaMemcpyHostToDevice, stream_),
            "filling");
    };
    for (const Product& p : sets_) upload(p.a, a_), upload(p.b, b_);
  }

  cudaStream_t stream_;
  std::vector<Buffer> held_;
  Product sets_[kSets];
  std::vector<float> a_, b_;
};

/// Microseconds of one launch.
double time(cudaStream_t stream, const std::function<void(int i)>& launch) {
  const Graph graph(stream, [&] {
    for (int i = 0; i < kLaunches; ++i) launch(i);
  });
  const Mark begin(true), end(true);
  std::vector<float> ms(kRounds);
  for (float& each : ms) {
    check(cudaEventRecord(begin, stream), "timing");
    check(cudaGraphLaunch(graph, stream), "timing");
    check(cudaEventRecord(end, stream), "timing");
    check(cudaEventSynchronize(end), "timing");
    check(cudaEventElapsedTime(&each, begin, end), "timing");
  }
  std::sort(ms.begin(), ms.end());
  return ms[kRounds / 2] * 1e3 / kLaunches;
}

void measure(cudaStream_t stream, Products& library, std::byte* workspace, const ProductCase& of) {
  const Operands operands(stream, of);
  const bool is_f32 = of.shape.type == DType::f32;
  const auto report = [&](const std::string& name, const std::function<void(int i)>& launch) {
    fmt::print("  {} {:.1f}", name, time(stream, launch));
    if (is_f32) fmt::print(" ({:.1e})", operands.off());
  };
  fmt::print("{:6} {:24}", is_f32 && of.shape.a_transposed ? of.shape.k : of.shape.m, of.name);
  library.prepare(stream, operands.set(0), workspace);
  report("library", [&](int i) { library.launch(stream, operands.set(i), workspace); });
  for (const OwnProduct& own : own_products())
    for (int way = 0; way < own.ways(); ++way)
      if (own.accepts(operands.set(0), way))
        report(fmt::format("{} {}", own.name, way),
               [&](int i) { check(own.launch(stream, operands.set(i), way), "a product"); });
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> rows;
  std::string type;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "bf16" || word == "f32") {
      type = word;
      continue;
    }
    rows.push_back(std::atoll(argv[i]));
    if (rows.back() < 1) {
      fmt::print(stderr, "cuda_products_bench: found {}, wants bf16, f32 or numbers of rows from 1 on\n",
                 word);
      return 2;
    }
  }
  if (rows.empty()) rows = {12, 100, 884, 4096, 4608, 32768};
  if (const Presence gpu = presence(); !gpu.available) {
    fmt::print(stderr, "cuda_products_bench: {}\n", gpu.detail);
    return 1;
  }
  const Stream stream;
  Products library(*cublaslt(), false, false);
  const Buffer workspace = allocate(64 << 20, Memory::kDevice, stream).value();
  for (const int64_t m : rows) {
    if (type != "f32")
      for (const ProductCase& each : bf16_cases(m)) measure(stream, library, workspace.data, each);
    if (type != "bf16")
      for (const ProductCase& each : f32_cases(m)) measure(stream, library, workspace.data, each);
  }
}
