#include "lathe/backends/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/float16.h"

namespace lathe::cpu {
namespace {

constexpr double kU32 = 0x1p-24;  // unit roundoff of f32
double unit_of(DType type) { return type == DType::bf16 ? 0x1p-8 : type == DType::f16 ? 0x1p-11 : kU32; }

float rounded(float value, DType type) {
  if (type == DType::bf16) return to_float(to_bf16(value));
  return type == DType::f16 ? to_float(to_f16(value)) : value;
}

// `bytes` of NaN at an address aligned to 64, between two guards.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), lines_((bytes + 63) / 64 + 2 * kGuard) {
    std::memset(lines_.data(), 0xa5, lines_.size() * 64);
    std::memset(data(), 0xff, bytes);
  }
  std::byte* data() { return lines_[kGuard].bytes; }
  const std::byte* data() const { return lines_[kGuard].bytes; }
  bool intact() const {
    const std::byte* all = lines_[0].bytes;
    for (size_t i = 0; i < lines_.size() * 64; ++i)
      if ((i < kGuard * 64 || i >= kGuard * 64 + bytes_) && all[i] != std::byte{0xa5}) return false;
    return true;
  }
  bool same_bits(const Guarded& other) const {
    return bytes_ == other.bytes_ && std::memcmp(data(), other.data(), bytes_) == 0;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  static constexpr size_t kGuard = 2;  // lines before and after
  size_t bytes_;
  std::vector<Line> lines_;
};

// Rows of f32, bf16 or f16, `pad` elements of NaN between them.
class Matrix {
 public:
  Matrix(DType type, int64_t rows, int64_t cols, int64_t pad)
      : type_(type),
        rows_(rows),
        cols_(cols),
        ld_(cols + pad),
        memory_(static_cast<size_t>(rows * (cols + pad)) * size_of(type)) {}

  void randomize(uint32_t seed) {
    std::mt19937 bits(seed);
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < cols_; ++j) set(i, j, static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f);
  }
  void set(int64_t i, int64_t j, float value) {
    std::byte* at = memory_.data() + static_cast<size_t>(i * ld_ + j) * size_of(type_);
    const uint16_t narrow = type_ == DType::bf16 ? to_bf16(value).bits : to_f16(value).bits;
    std::memcpy(at, type_ == DType::f32 ? static_cast<const void*>(&value) : &narrow, size_of(type_));
  }
  float get(int64_t i, int64_t j) const {
    const std::byte* at = memory_.data() + static_cast<size_t>(i * ld_ + j) * size_of(type_);
    float value;
    uint16_t narrow;
    if (type_ == DType::f32) return std::memcpy(&value, at, 4), value;
    std::memcpy(&narrow, at, 2);
    return type_ == DType::bf16 ? to_float(bf16{narrow}) : to_float(f16{narrow});
  }
  void* data() { return memory_.data(); }
  int64_t ld() const { return ld_; }
  bool same_bits(const Matrix& other) const { return memory_.same_bits(other.memory_); }
  bool surroundings_intact() const {
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = cols_; j < ld_; ++j)
        if (!std::isnan(get(i, j))) return false;
    return memory_.intact();
  }

 private:
  DType type_;
  int64_t rows_, cols_, ld_;
  Guarded memory_;
};

// One product with its inputs and what it must give: value and bound of every element.
struct Case {
  // What is added lies in c itself, or elsewhere.
  Case(const Gemm& shape, bool with_bias, uint32_t seed, bool with_addend = false)
      : g(shape),
        a(g.a_type, g.a_transposed ? g.k : g.m, g.a_transposed ? g.m : g.k, seed % 4),
        b(g.b_type, g.b_transposed ? g.n : g.k, g.b_transposed ? g.k : g.n, seed / 4 % 3),
        c(g.c_type, g.m, g.n, seed / 12 % 3),
        addend(c) {
    a.randomize(seed);
    b.randomize(seed + 1);
    if (with_addend) addend.randomize(seed + 2);
    if (with_addend && seed % 2 == 0) c = addend;
    std::mt19937 bits(seed + 3);
    for (int64_t j = 0; with_bias && j < g.n; ++j) bias.push_back(static_cast<float>(bits()) * 0x1p-30f - 2);
    g.a = a.data();
    g.lda = a.ld();
    g.b = b.data();
    g.ldb = b.ld();
    g.ldc = c.ld();
    if (with_bias) g.bias = bias.data();
    if (with_addend) g.addend = addend.data();
    derive();
  }

  // Each step of the sum rounds with a relative error of u at most; as k roundings of random sign they add up
  // to √k. Σ|terms| stands for the partial sums, which it exceeds by far.
  void derive() {
    const DType narrow = g.a_type == DType::f32 ? g.b_type : g.a_type;
    const auto input = [&](float x) { return static_cast<double>(rounded(x, narrow)); };
    const size_t n = static_cast<size_t>(g.n);
    std::vector<double> right(static_cast<size_t>(g.k) * n);
    for (int64_t k = 0; k < g.k; ++k)
      for (int64_t j = 0; j < g.n; ++j)
        right[static_cast<size_t>(k * g.n + j)] = input(g.b_transposed ? b.get(j, k) : b.get(k, j));
    std::vector<double> sum(n), size(n);
    for (int64_t i = 0; i < g.m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const double first = g.bias == nullptr ? 0 : bias[j];
        const double second = g.addend == nullptr ? 0 : addend.get(i, static_cast<int64_t>(j));
        sum[j] = first + second;
        size[j] = std::abs(first) + std::abs(second);
      }
      for (int64_t k = 0; k < g.k; ++k) {
        const double left = input(g.a_transposed ? a.get(k, i) : a.get(i, k));
        const double* row = right.data() + static_cast<size_t>(k) * n;
        for (size_t j = 0; j < n; ++j) {
          sum[j] += left * row[j];
          size[j] += std::abs(left * row[j]);
        }
      }
      for (size_t j = 0; j < n; ++j) {
        double bound = kU32 * std::sqrt(static_cast<double>(g.k + 3)) * size[j];
        if (g.c_type != DType::f32)  // subnormals of f16 are 2^-24 apart
          bound +=
              std::max(unit_of(g.c_type) * (std::abs(sum[j]) + bound), g.c_type == DType::f16 ? 0x1p-25 : 0);
        value.push_back(sum[j]);
        limit.push_back(bound);
      }
    }
  }

  std::string name() const {
    const auto matrix = [](DType type, bool t) { return std::string(lathe::name_of(type)) + (t ? "ᵀ" : ""); };
    return std::to_string(g.m) + "x" + std::to_string(g.n) + "x" + std::to_string(g.k) + " " +
           matrix(g.a_type, g.a_transposed) + "·" + matrix(g.b_type, g.b_transposed) + "→" +
           matrix(g.c_type, false) + (g.bias ? " bias" : "") + (g.addend ? " addend" : "");
  }

  void expect_right(const Matrix& result) const {
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        const size_t at = static_cast<size_t>(i * g.n + j);
        const double difference = std::abs(result.get(i, j) - value[at]);
        ASSERT_LE(difference, limit[at]) << name() << " at " << i << ", " << j << ": " << value[at];
      }
    EXPECT_TRUE(result.surroundings_intact()) << name();
  }

  Gemm g;
  Matrix a, b, c, addend;
  std::vector<float> bias;
  std::vector<double> value, limit;
};

ThreadPool& pool_of(int threads) {
  static ThreadPool one(1), two(2), three(3), sixteen(16);
  return threads == 1 ? one : threads == 2 ? two : threads == 3 ? three : sixteen;
}

// Runs on `threads` threads, or within this one if 0.
Matrix run(const Case& test, Isa isa, int threads) {
  Matrix c = test.c;
  Gemm g = test.g;
  g.c = c.data();
  if (g.addend != nullptr && c.same_bits(test.addend)) g.addend = c.data();
  Guarded workspace(gemm_workspace_bytes(isa, g, std::max(threads, 1)));
  if (threads == 0)
    gemm_single_thread(isa, g, workspace.data());
  else
    gemm(pool_of(threads), isa, g, workspace.data());
  EXPECT_TRUE(workspace.intact()) << test.name();
  return c;
}

void check(const Case& test, std::initializer_list<int> pools = {1, 2, 3}) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name_of(isa));
    const Matrix first = run(test, isa, 0);
    test.expect_right(first);
    for (int threads : pools)
      EXPECT_TRUE(run(test, isa, threads).same_bits(first)) << threads << " threads, " << test.name();
    if (::testing::Test::HasFailure()) return;
  }
}

// Variant v of 256: types (bf16 or f16 beside f32), transpositions, bias, addend.
Case variant(int64_t m, int64_t n, int64_t k, uint32_t v) {
  const DType narrow = v >> 7 ? DType::f16 : DType::bf16;
  const auto type = [&](int bit) { return (v >> bit) & 1 ? narrow : DType::f32; };
  Gemm g{.m = m, .n = n, .k = k, .a_type = type(0), .b_type = type(1), .c_type = type(2)};
  g.a_transposed = (v >> 3) & 1;
  g.b_transposed = (v >> 4) & 1;
  return Case(g, (v >> 5) & 1, v + static_cast<uint32_t>(m + 3 * n + 7 * k), (v >> 6) & 1);
}

struct Shape {
  int64_t m, n, k;
};

TEST(Gemm, SmallShapesInEveryVariant) {
  for (const Shape& s :
       {Shape{1, 1, 1}, {1, 17, 2}, {15, 1, 33}, {16, 16, 16}, {17, 33, 5}, {33, 15, 31}, {31, 65, 3}})
    for (uint32_t v = 0; v < 256; ++v) {
      check(variant(s.m, s.n, s.k, v));
      if (HasFailure()) return;
    }
}

TEST(Gemm, EdgesOfTilesBlocksAndPanels) {
  const Shape shapes[] = {{32, 32, 32},   {63, 64, 65},  {64, 63, 768}, {65, 129, 64}, {97, 101, 103},
                          {1, 768, 768},  {768, 1, 63},  {2, 768, 67},  {14, 96, 513}, {15, 31, 1031},
                          {257, 17, 127}, {12, 6, 2049}, {33, 34, 320}, {48, 48, 1},   {128, 128, 64}};
  uint32_t v = 0;
  for (const Shape& s : shapes)
    for (int i = 0; i < 10; ++i, v += 37) {
      check(variant(s.m, s.n, s.k, v % 256));
      if (HasFailure()) return;
    }
}

// Blocks are up to 512 columns, 256 to 1024 of k, and rows for a quarter of the second cache: with several
// threads fewer, so that each has blocks.
TEST(Gemm, MoreThanOneBlockInEveryDirection) {
  check(variant(460, 530, 1030, 0));        // f32
  check(variant(300, 515, 1030, 7));        // bf16
  check(variant(300, 515, 1030, 7 + 8));    // transposed a
  check(variant(300, 515, 1030, 7 + 128));  // f16
  check(variant(270, 600, 1030, 1 + 16));   // bf16 x, f32 weight, transposed
}

// Sixteen threads are four by four, or eight by two: of what more than three read each packs its own.
TEST(Gemm, OfWhatManyThreadsReadEachPacksItsOwn) {
  for (const Shape& s :
       {Shape{150, 700, 70}, {700, 150, 130}, {290, 130, 600}, {130, 290, 33}, {65, 65, 1030}})
    for (uint32_t v : {0u, 7u, 7u + 8u, 7u + 8u + 16u, 7u + 8u + 128u, 5u}) {
      check(variant(s.m, s.n, s.k, v), {16});
      if (HasFailure()) return;
    }
}

TEST(Gemm, RowsDoNotDependOnTheOtherRows) {
  for (uint32_t v : {0u, 7u, 16u, 16u + 7u, 128u + 7u}) {
    const Case whole = variant(70, 40, 600, v);
    for (Isa isa : available_isas()) {
      const Matrix all = run(whole, isa, 1);
      for (int64_t m : {1, 13, 33}) {
        Case some = whole;
        some.g.m = m;
        some.g.a = some.a.data();
        some.g.b = some.b.data();
        const Matrix part = run(some, isa, 1);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < 40; ++j)
            ASSERT_EQ(part.get(i, j), all.get(i, j)) << name_of(isa) << " " << v;
      }
    }
  }
}

TEST(Gemm, NanAndInfinityArriveWhereTheyBelong) {
  for (uint32_t v : {0u, 3u, 7u, 8u, 16u + 7u, 128u + 3u, 128u + 8u + 7u}) {
    Case test = variant(35, 37, 40, v);
    const bool t = test.g.a_transposed;
    test.a.set(t ? 5 : 20, t ? 20 : 5, NAN);
    test.a.set(t ? 6 : 33, t ? 33 : 6, INFINITY);
    for (Isa isa : available_isas()) {
      const Matrix c = run(test, isa, 2);
      for (int64_t i = 0; i < 35; ++i)
        for (int64_t j = 0; j < 37; ++j) {
          ASSERT_EQ(std::isnan(c.get(i, j)), i == 20) << name_of(isa) << " " << i << ", " << j;
          ASSERT_EQ(std::isinf(c.get(i, j)), i == 33) << name_of(isa) << " " << i << ", " << j;
        }
    }
  }
}

// 1 + u and 1 + 3u, u the unit roundoff, lie halfway between two numbers; stored and packed values must both
// go to the even one.
struct Rounding {
  DType type;
  float in, out;
};
TEST(Gemm, RoundsToNearestEven) {
  std::vector<Rounding> roundings;
  for (DType type : {DType::bf16, DType::f16}) {
    const float u = static_cast<float>(unit_of(type));
    for (const auto& [in, out] : {std::pair{u, 0.f}, {3 * u, 4 * u}, {0x1.01p0f * u, 2 * u}})
      roundings.push_back({type, 1 + in, 1 + out});
  }
  roundings.push_back({DType::f16, 0x1.8p-24f, 0x1p-23f});  // subnormal
  roundings.push_back({DType::f16, 0x1p-25f, 0});
  roundings.push_back({DType::f16, 65519.f, 65504.f});
  roundings.push_back({DType::f16, 65520.f, INFINITY});
  for (Isa isa : available_isas())
    for (const auto& [type, in, out] : roundings) {
      Gemm g{.m = 1, .n = 40, .k = 1, .c_type = type};
      Case stored(g, false, 0);
      Case packed({.m = 1, .n = 40, .k = 1, .a_type = type}, false, 0);
      for (Case* test : {&stored, &packed}) {
        test->a.set(0, 0, 1);
        for (int64_t j = 0; j < 40; ++j) test->b.set(0, j, in);
        const Matrix c = run(*test, isa, 1);
        for (int64_t j = 0; j < 40; ++j) ASSERT_EQ(c.get(0, j), out) << name_of(isa);
      }
    }
}

TEST(Gemm, PackedOnceGivesTheSameBits) {
  for (Isa isa : available_isas())
    for (uint32_t v : {0u, 7u, 16u, 16u + 5u, 1u, 128u + 16u + 5u, 128u + 7u})
      for (const Shape& s : {Shape{33, 70, 65}, {20, 31, 600}}) {
        Case test = variant(s.m, s.n, s.k, v);
        const Matrix wanted = run(test, isa, 2);
        const PackedB layout = packed_b(isa, test.g.a_type, s.n, s.k);
        Guarded packed(layout.bytes);
        pack_b(isa, layout, s.n, s.k, test.g.b_type, test.b.data(), test.b.ld(), test.g.b_transposed,
               {0, s.n, 0, s.k}, packed.data());
        EXPECT_TRUE(packed.intact());
        for (int64_t k = 0; k < s.k; ++k)
          for (int64_t n = 0; n < s.n; ++n) {
            const float value = test.g.b_transposed ? test.b.get(n, k) : test.b.get(k, n);
            const std::byte* at =
                packed.data() + static_cast<size_t>(layout.index(k, n)) * size_of(layout.type);
            float found;
            if (layout.type == DType::bf16)
              found = to_float(*reinterpret_cast<const bf16*>(at));
            else
              std::memcpy(&found, at, sizeof found);
            ASSERT_EQ(found, rounded(value, test.g.a_type)) << name_of(isa);
          }
        test.g.b = packed.data();
        test.g.b_packed = true;
        EXPECT_TRUE(run(test, isa, 2).same_bits(wanted)) << name_of(isa) << " " << test.name();
      }
}

TEST(Gemm, RefusesWhatItCannotCompute) {
  const auto code = [](const Gemm& g) {
    try {
      gemm_workspace_bytes(Isa::kPortable, g, 1);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code({.m = 0, .n = 1, .k = 1}), ErrorCode::kShape);
  EXPECT_EQ(code({.m = 1, .n = 1, .k = -1}), ErrorCode::kShape);
  EXPECT_EQ(code({.m = 1, .n = 1, .k = 1, .a_type = DType::f16, .b_type = DType::bf16}),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code({.m = 1, .n = 1, .k = 1, .c_type = DType::i32}), ErrorCode::kUnsupported);
}

TEST(Gemm, SumsTheColumnsOfA) {
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    for (const Shape& s :
         {Shape{1, 3, 1},
          {5, 1, 17},
          {64, 2, 64},
          {63, 33, 65},
          {768, 4, 300},
          {130, 1, 1000},
          {130, 290, 700},
          {290, 130, 600},
          {100, 128, 1100}}) {  // three and sixteen threads sum while they pack, others before
      Case test({.m = s.m, .n = s.n, .k = s.k, .a_type = type, .b_type = type, .a_transposed = true}, false,
                static_cast<uint32_t>(s.m));
      for (Isa isa : available_isas()) {
        const Matrix without = run(test, isa, 2);
        std::vector<Matrix> sums;
        for (int threads : {1, 2, 3, 16}) {
          Matrix& sum = sums.emplace_back(DType::f32, 1, s.m, 0);
          Case with = test;
          with.g.a_sums = static_cast<float*>(sum.data());
          EXPECT_TRUE(run(with, isa, threads).same_bits(without));
          EXPECT_TRUE(sum.surroundings_intact());
          EXPECT_TRUE(sum.same_bits(sums[0]));
          for (int64_t i = 0; i < s.m; ++i) {
            double wanted = 0, size = 0;
            for (int64_t k = 0; k < s.k; ++k) wanted += test.a.get(k, i), size += std::abs(test.a.get(k, i));
            ASSERT_NEAR(sum.get(0, i), wanted, kU32 * std::sqrt(static_cast<double>(s.k + 2)) * size);
          }
        }
      }
    }
}

}  // namespace
}  // namespace lathe::cpu
