#include "lathe/backends/cpu/first_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "lathe/backends/cpu/rows.h"
#include "lathe/core/float16.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kHeads = 6, kColumns = 96;  // more heads than look at a sequence together
const std::vector<int32_t> kCu{0, 33, 33, 34, 50}, kIds{4, 1, 7, 2};
constexpr int64_t kTokens = 53, kRows = 4;

using Bytes = std::vector<std::byte>;

/// Elements around ±1; what lies in gaps is NaN.
Bytes drawn(DType t, int64_t rows, int64_t columns, int64_t ld) {
  Bytes x(static_cast<size_t>(rows * ld) * size_of(t), std::byte{0xff});
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = std::sin(static_cast<float>(3 * i + rows));
    const size_t at = static_cast<size_t>(i / columns * ld + i % columns) * size_of(t);
    const bf16 half = to_bf16(value);
    std::memcpy(&x[at], t == DType::f32 ? static_cast<const void*>(&value) : &half, size_of(t));
  }
  return x;
}

/// Both passes; all results but what lies in gaps.
std::vector<Bytes> results(Isa isa, DType t, int threads, int64_t gap) {
  ThreadPool pool(threads);
  FirstAttention a;
  a.t = t;
  a.tokens = kTokens, a.sequences = kRows, a.heads = kHeads, a.columns = kColumns, a.ld = kColumns + gap;
  a.cu = kCu.data(), a.sample_ids = kIds.data(), a.dropout = dropout_rule(1, 2, 3, 0.1);
  const auto of = [](DType type, int64_t count) { return Bytes(static_cast<size_t>(count) * size_of(type)); };
  const auto floats = [](Bytes& bytes) { return reinterpret_cast<float*>(bytes.data()); };
  const Bytes x = drawn(t, kTokens, kColumns, a.ld), dy = drawn(t, kRows, kColumns, kColumns);
  Bytes w = drawn(DType::f32, 3 * kColumns, kColumns, kColumns),
        b = drawn(DType::f32, 1, 3 * kColumns, 3 * kColumns);
  Bytes y = of(t, kRows * kColumns), q = y, sought = of(DType::f32, kRows * kHeads * kColumns),
        seen = of(t, kRows * kHeads * kColumns), p = of(DType::f32, kHeads * kTokens),
        dx = of(t, kTokens * a.ld), dw = of(DType::bf16, 3 * kColumns * kColumns),
        db = of(DType::f32, 3 * kColumns);
  // The pieces are aligned as the workspace is.
  const size_t bytes = std::max(first_attention_workspace_bytes(isa, a, threads),
                                first_attention_bwd_workspace_bytes(isa, a, threads));
  Bytes memory(bytes + 64);
  void* workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  const FirstAttentionResults out{y.data(), q.data(), floats(sought), seen.data(), floats(p)};
  first_attention(pool, isa, a, x.data(), floats(w), floats(b), out, workspace);
  first_attention_bwd(pool, isa, a, dy.data(), x.data(), floats(w), floats(b), out, dx.data(), DType::bf16,
                      dw.data(), floats(db), workspace);
  Bytes dense;
  for (int64_t row = 0; row < kTokens; ++row) {
    const auto* from = dx.data() + static_cast<size_t>(row * a.ld) * size_of(t);
    dense.insert(dense.end(), from, from + kColumns * static_cast<int64_t>(size_of(t)));
  }
  return {y, q, sought, seen, p, dense, dw, db};
}

TEST(FirstAttention, ThreadsAndGapsChangeNoBit) {
  for (const Isa isa : available_isas())
    for (const DType t : {DType::f32, DType::bf16}) {
      const auto alone = results(isa, t, 1, 0);
      for (const int threads : {1, 2, 3, 7})
        for (const int64_t gap : {0, 32})
          EXPECT_EQ(results(isa, t, threads, gap), alone) << name_of(isa) << " " << threads << " " << gap;
    }
}

}  // namespace
}  // namespace lathe::cpu
