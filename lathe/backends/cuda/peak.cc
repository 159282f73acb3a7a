// How fast the GPU multiplies and copies: what bench compares with.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "lathe/backends/cuda/cuda_backend.h"
#include "lathe/backends/cuda/device.h"
#include "lathe/backends/cuda/products.h"

namespace lathe::cuda {
namespace {

constexpr int64_t kSize = 8192;  // rows, columns and terms of the product
constexpr size_t kCopyBytes = size_t{1} << 30;
constexpr int kRuns = 10;

/// Seconds of the fastest of several runs of `work`, which only launches.
template <typename F>
double seconds_of(cudaStream_t stream, F work) {
  const Mark begin(true), end(true);
  float best = INFINITY;
  for (int i = 0; i < kRuns; ++i) {
    check(cudaEventRecord(begin, stream), "measuring");
    work();
    check(cudaEventRecord(end, stream), "measuring");
    check(cudaEventSynchronize(end), "measuring");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "measuring");
    best = std::min(best, ms);
  }
  return static_cast<double>(best) * 1e-3;
}

/// A square matrix of small random numbers: a million of them, over and over.
Buffer random_matrix(cudaStream_t stream, DType type) {
  const size_t bytes = static_cast<size_t>(kSize * kSize) * size_of(type);
  const Buffer matrix = allocate(bytes, Memory::kDevice, stream).value();
  std::vector<uint32_t> words(size_t{1} << 19);
  std::mt19937 random(1);
  // Exponents around that of 1, in either type: the bits 0x3f80 of bf16 are the upper half of an f32.
  for (uint32_t& word : words) {
    const uint32_t bits = random();
    word = (bits & 0x80ff80ffu) | (type == DType::f32 ? 0x3f000000u : 0x3f003f00u);
  }
  size_t filled = std::min(bytes, words.size() * sizeof(uint32_t));
  check(cudaMemcpyAsync(matrix.data, words.data(), filled, cudaMemcpyHostToDevice, stream), "measuring");
  for (; filled < bytes; filled *= 2)
    check(cudaMemcpyAsync(matrix.data + filled, matrix.data, std::min(filled, bytes - filled),
                          cudaMemcpyDeviceToDevice, stream),
          "measuring");
  check(cudaStreamSynchronize(stream), "measuring");
  return matrix;
}

double product_rate(DType type) {
  const Stream stream;
  Products products(*cublaslt(), false);
  const Buffer a = random_matrix(stream, type), b = random_matrix(stream, type),
               c = random_matrix(stream, type);
  Product p;
  p.m = p.n = p.k = kSize;
  p.type = p.c_type = type;
  p.b_transposed = true;
  p.a = a.data, p.b = b.data, p.c = c.data;
  const Buffer workspace = allocate(Products::workspace_bytes(p), Memory::kDevice, stream).value();
  products.prepare(stream, p, workspace.data);
  const double n = static_cast<double>(kSize);
  return 2 * n * n * n / seconds_of(stream, [&] { products.launch(stream, p, workspace.data); });
}

}  // namespace

Peak measure_peak() { return {product_rate(DType::f32), product_rate(DType::bf16)}; }

double measure_copy() {
  const Stream stream;
  const Buffer from = allocate(kCopyBytes, Memory::kDevice, stream).value();
  const Buffer to = allocate(kCopyBytes, Memory::kDevice, stream).value();
  return 2.0 * kCopyBytes / seconds_of(stream, [&] {
           check(cudaMemcpyAsync(to.data, from.data, kCopyBytes, cudaMemcpyDeviceToDevice, stream),
                 "measuring");
         });
}

}  // namespace lathe::cuda
