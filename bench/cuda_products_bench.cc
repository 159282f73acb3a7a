// Products of BERT-base's layers on one GPU, in bf16: the best of cuBLASLt, with a kernel for GELU behind it
// where there is one, and every way of the own kernels.  cuda_products_bench [M …]: microseconds of one, of
// 24 in a graph over eight sets of operands, for so many rows.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "lathe/backends/cuda/cublaslt.h"
#include "lathe/backends/cuda/cuda_backend.h"
#include "lathe/backends/cuda/device.h"
#include "lathe/backends/cuda/graph.h"
#include "lathe/backends/cuda/kernels/few_rows_product.h"
#include "lathe/backends/cuda/products.h"

using namespace lathe;
using namespace lathe::cuda;

namespace {

constexpr int kSets = 8, kLaunches = 24, kRounds = 21;

struct Layer {
  const char* name;
  int64_t n, k;
  bool gelu = false, c_is_read = true;
};
constexpr Layer kLayers[] = {{"q, k and v", 2304, 768},
                             {"output", 768, 768},
                             {"linear_gelu", 3072, 768, true},
                             {"linear_gelu, C unread", 3072, 768, true, false},
                             {"second", 768, 3072}};

class Operands {
 public:
  Operands(cudaStream_t stream, const Layer& layer, int64_t m) : stream_(stream) {
    for (Product& p : sets_) {
      p = {m, layer.n, layer.k, DType::bf16, false, DType::bf16, false, true};
      p.a = memory(m * layer.k), p.b = memory(layer.n * layer.k), p.c = memory(m * layer.n);
      p.b_is_settled = true, p.c_is_read = layer.c_is_read;
      p.bias = memory(layer.n);
      if (layer.gelu) p.gelu = memory(m * layer.n);
    }
  }
  const Product& set(int i) const { return sets_[i % kSets]; }

 private:
  std::byte* memory(int64_t count) {
    held_.push_back(allocate(static_cast<size_t>(count) * 2, Memory::kDevice, stream_).value());
    check(cudaMemsetAsync(held_.back().data, 0x3c, held_.back().bytes, stream_), "filling");
    return held_.back().data;
  }

  cudaStream_t stream_;
  std::vector<Buffer> held_;
  Product sets_[kSets];
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

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) {
    rows.push_back(std::atoll(argv[i]));
    if (rows.back() < 1) {
      fmt::print(stderr, "cuda_products_bench: found {}, wants numbers of rows from 1 on\n", argv[i]);
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
  for (const int64_t m : rows)
    for (const Layer& layer : kLayers) {
      const Operands operands(stream, layer, m);
      fmt::print("{:6} {:24}", m, layer.name);
      library.prepare(stream, operands.set(0), workspace.data);
      fmt::print(" library {:6.1f}",
                 time(stream, [&](int i) { library.launch(stream, operands.set(i), workspace.data); }));
      for (int way = 0; way < few_rows_product_ways(); ++way)
        if (few_rows_product_accepts(operands.set(0), way))
          fmt::print("  way {} {:.1f}", way, time(stream, [&](int i) {
                       check(few_rows_product(stream, operands.set(i), way), "a product");
                     }));
      fmt::print("\n");
      std::fflush(stdout);
    }
}
