#include "lathe/backends/cpu/gemm.h"

#include "lathe/backends/cpu/gemm_testing.h"
#include "lathe/core/error.h"

namespace lathe::cpu {
namespace {

using namespace testing;

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

// Blocks are up to 512 columns, 256 to 4096 of k, and rows for a quarter of the second cache: with several
// threads fewer, so that each has blocks.
TEST(Gemm, MoreThanOneBlockInEveryDirection) {
  check(variant(460, 530, 1030, 0));        // f32
  check(variant(300, 515, 1030, 7));        // bf16
  check(variant(300, 515, 1030, 7 + 8));    // transposed a
  check(variant(300, 515, 1030, 7 + 128));  // f16
  check(variant(270, 600, 1030, 1 + 16));   // bf16 x, f32 weight, transposed
  check(variant(70, 66, 4130, 7));          // bf16, where blocks of k are the longest
  check(variant(70, 66, 4130, 7 + 8));
}

// Sixteen threads are four by four, or eight by two.
TEST(Gemm, RegionsOfSixteenThreads) {
  for (const Shape& s :
       {Shape{150, 700, 70}, {700, 150, 130}, {290, 130, 600}, {130, 290, 33}, {65, 65, 1030}})
    for (uint32_t v : {0u, 7u, 7u + 8u, 7u + 8u + 16u, 7u + 8u + 128u, 5u}) {
      check(variant(s.m, s.n, s.k, v), {16});
      if (HasFailure()) return;
    }
}

// Counts of pieces and blocks that are no multiple of the threads' number, small and large ones; two products
// of one type and of two, which may need two kernels.
TEST(GemmPair, HasTheBitsOfEachAlone) {
  const std::pair<Shape, Shape> pairs[] = {{{1, 1, 1}, {1, 1, 1}},
                                           {{33, 17, 70}, {1, 40, 33}},
                                           {{3, 5, 2}, {150, 700, 70}},
                                           {{700, 150, 130}, {2, 3, 1}},
                                           {{96, 200, 150}, {150, 200, 96}}};
  for (const auto& [s, t] : pairs)
    for (const uint32_t narrow : {0u, 7u, 7u + 128u})  // f32, bf16, f16
      for (const uint32_t addend : {0u, 64u}) {
        Case first = variant(s.m, s.n, s.k, (addend == 0 ? narrow : 7u) + 8);
        const Case second = variant(t.m, t.n, t.k, narrow + addend);
        std::vector<float> sums(static_cast<size_t>(s.m));
        first.g.a_sums = sums.data();
        for (const Isa isa : available_isas()) {
          const Matrix c = run(first, isa, 1), d = run(second, isa, 1);
          const std::vector<float> sums_alone = sums;
          for (const int threads : {1, 2, 3, 16}) {
            std::fill(sums.begin(), sums.end(), NAN);
            const auto [paired, other] = run_pair(first, second, isa, threads);
            EXPECT_TRUE(paired.same_bits(c)) << threads << " threads, " << first.name();
            EXPECT_TRUE(other.same_bits(d)) << threads << " threads, " << second.name();
            EXPECT_EQ(sums, sums_alone) << threads << " threads, " << first.name();
          }
          if (HasFailure()) return;
        }
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

TEST(Gemm, WrittenPastTheCachesItHasTheSameBits) {
  for (Isa isa : available_isas())
    for (uint32_t v : {0u, 7u, 7u + 8u, 16u, 16u + 5u, 1u, 128u + 16u + 5u})
      for (const Shape& s : {Shape{33, 70, 65}, {64, 96, 600}}) {
        Case test = variant(s.m, s.n, s.k, v);
        const Matrix wanted = run(test, isa, 16);
        for (bool Gemm::*how : {&Gemm::c_streams, &Gemm::c_cold, &Gemm::workspace_cold}) {
          test.g.*how = true;
          EXPECT_TRUE(run(test, isa, 16).same_bits(wanted)) << name_of(isa) << " " << test.name();
          test.g.*how = false;
        }
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
          {100, 128, 1100}}) {  // three threads each pack and sum for themselves, others together
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
