#include "lathe/optim/shards.h"

#include <gtest/gtest.h>

#include <numeric>

#include "lathe/core/error.h"
#include "lathe/program/op.h"

namespace lathe {
namespace {

TEST(Shards, AreEqualButForWholeVectorsAndCoverAll) {
  for (const int64_t parameters : {7, 66, 24099, 109483778})
    for (const int ranks : {1, 2, 3, 7}) {
      const Shards shards = shards_of(parameters, ranks, ranks - 1);
      EXPECT_EQ(std::accumulate(shards.counts.begin(), shards.counts.end(), int64_t{0}), parameters);
      EXPECT_EQ(shards.begin() + shards.count(), parameters);
      const int64_t step = parameters < 64 * ranks ? 1 : 64;
      for (int r = 0; r < ranks; ++r) {
        EXPECT_EQ(shards.begin(r) % step, 0);
        EXPECT_NEAR(static_cast<double>(shards.counts[static_cast<size_t>(r)]),
                    static_cast<double>(parameters) / ranks, static_cast<double>(step));
        EXPECT_GT(shards.counts[static_cast<size_t>(r)], 0);
      }
    }
  EXPECT_THROW(shards_of(3, 4, 0), Error);
}

TEST(Shards, OfParametersHaveTheirShareOfWhatDecays) {
  const FlatParameters all{{{10, 4}, {20}}, 40};
  const auto decayed = [&](int rank) { return own_part(all, {{20, 30, 10}, rank}).decayed; };
  EXPECT_EQ(decayed(0), 20);
  EXPECT_EQ(decayed(1), 20);
  EXPECT_EQ(decayed(2), 0);
  EXPECT_EQ(own_part(all, {{20, 30, 10}, 1}).shapes, std::vector<Shape>{{30}});
  EXPECT_EQ(own_part(all, {}).shapes, all.shapes);
}

/// Elements of `flat` that a slice of it gives: first, one past the last.
std::pair<int64_t, int64_t> range_of(const Program& program, Value view, Value flat) {
  const Node& node =
      program.nodes()[static_cast<size_t>(program.values()[static_cast<size_t>(view.id)].producer)];
  EXPECT_EQ(node.in[0], flat.id);
  const int64_t begin = node.attrs.i("offset");
  return {begin, begin + elements(view.type())};
}

TEST(Shards, OfGradientsAreThoseOfTheirParameters) {
  constexpr int64_t kExact = 13, kRounded = 8, kAll = kExact + kRounded;
  for (int64_t first = 0; first <= kExact; ++first)
    for (int64_t begin = 0; begin < kAll; ++begin)
      for (int64_t end = begin + 1; end <= kAll; ++end) {
        Program program;
        const FlatGradients all{program.input("exact", {DType::f32, {kExact}}),
                                program.input("rounded", {DType::bf16, {kRounded}}), first};
        const FlatGradients own = own_part(all, {{begin, end - begin, kAll - end}, 1});
        // By element: which number of which of the two tensors.
        const auto exact = range_of(program, own.exact, all.exact);
        const auto rounded =
            own.rounded ? range_of(program, own.rounded, all.rounded) : std::pair{int64_t{0}, int64_t{0}};
        ASSERT_EQ(exact.second - exact.first + rounded.second - rounded.first, end - begin);
        for (int64_t i = begin; i < end; ++i) {
          const bool is_rounded = i >= first && i < first + kRounded;
          const int64_t at = i - begin, many = rounded.second - rounded.first;
          ASSERT_EQ(is_rounded, own.rounded && at >= own.first && at < own.first + many);
          if (is_rounded)
            ASSERT_EQ(rounded.first + at - own.first, i - first);
          else
            ASSERT_EQ(exact.first + (at < own.first || !own.rounded ? at : at - many),
                      i < first ? i : i - kRounded);
        }
      }
}

}  // namespace
}  // namespace lathe
