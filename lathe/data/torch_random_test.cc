#include "lathe/data/torch_random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "lathe/data/golden_testing.h"
#include "lathe/data/test_data.h"

namespace lathe {
namespace {

// log, sin and cos of PyTorch's vector units and of the C library are each within 2 units in the last place
// of a float; a radius is at most sqrt(-2 ln 2^-24) = 5.8, so 6 roundings cost at most 6 · 5.8 · 2^-23.
constexpr double kNormalBound = 6 * 5.8 * 0x1p-23;

TEST(TorchGenerator, PermutesAsPyTorch) {
  for (const auto& c : golden("reference.json", "randperm")) {
    const auto order = TorchGenerator(c["seed"].get<uint64_t>()).randperm(c["n"].get<int64_t>());
    const auto head = c["head"].get<std::vector<int32_t>>();
    ASSERT_EQ(std::vector<int32_t>(order.begin(), order.begin() + static_cast<long>(head.size())), head)
        << c["n"] << " " << c["seed"];
    EXPECT_EQ(fnv64(order), c["fnv64"].get<std::string>()) << c["n"] << " " << c["seed"];
  }
}

TEST(TorchGenerator, DrawsNormalNumbersAsPyTorch) {
  for (const auto& c : golden("reference.json", "normal")) {
    std::vector<float> x(c["n"].get<size_t>());
    const float std = c["std"];
    TorchGenerator(c["seed"].get<uint64_t>()).normal(x, c["mean"], std);
    for (size_t i = 0; i < c["at"].size(); ++i) {
      const double wanted = c["values"][i];
      const double bound = kNormalBound * std + std::abs(wanted) * 0x1p-23;
      EXPECT_NEAR(x[c["at"][i].get<size_t>()], wanted, bound) << c["n"] << " at " << c["at"][i];
    }
  }
}

TEST(TorchGenerator, GoesOnAsPyTorchFromOneKindToTheNext) {
  const auto wanted = golden("reference.json", "continued").get<std::vector<double>>();
  std::vector<float> x(30);
  const std::span<float> all(x);
  TorchGenerator g(7);
  g.normal(all.subspan(0, 5));
  g.normal(all.subspan(5, 2));  // the first is the second half of the pair drawn before
  g.uniform(all.subspan(7, 3), -1, 3);
  g.normal(all.subspan(10, 20));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], wanted[i], kNormalBound) << i;
}

TEST(TorchGenerator, DrawsTruthsAsPyTorch) {
  for (const auto& c : golden("../mlm/generator.json", "bernoulli")) {
    const auto n = c["n"].get<size_t>();
    const std::vector<int32_t> thousandths = pseudo(n, 1001, 9);
    TorchGenerator g(c["seed"].get<uint64_t>());
    std::vector<int32_t> drawn;
    for (size_t i = 0; i < n; ++i)
      drawn.push_back(
          g.bernoulli(c["p"].is_null() ? static_cast<float>(thousandths[i]) / 1000.0f : c["p"].get<float>()));
    EXPECT_EQ(fnv64(drawn), c["fnv64"].get<std::string>()) << c["n"] << " " << c["p"];
  }
}

TEST(TorchGenerator, DrawsWholeNumbersAsPyTorch) {
  for (const auto& c : golden("../mlm/generator.json", "randint")) {
    std::vector<int64_t> drawn(c["n"].get<size_t>());
    TorchGenerator(c["seed"].get<uint64_t>()).randint(c["high"].get<int64_t>(), drawn);
    const auto head = c["head"].get<std::vector<int64_t>>();
    EXPECT_TRUE(std::equal(head.begin(), head.end(), drawn.begin())) << c["n"] << " " << c["high"];
    std::vector<int32_t> halves;
    for (const int64_t x : drawn)
      for (const int shift : {0, 32})
        halves.push_back(static_cast<int32_t>(static_cast<uint64_t>(x) >> shift));
    EXPECT_EQ(fnv64(halves), c["fnv64"].get<std::string>()) << c["n"] << " " << c["high"];
  }
}

// After every step the generator is made anew from its bytes, in the middle of a pair of normal numbers, too.
TEST(TorchGenerator, GoesOnFromItsStateAsPyTorchDoesWithout) {
  std::vector<std::byte> state = TorchGenerator(11).state();
  for (const auto& step : golden("../mlm/generator.json", "in_sequence")) {
    TorchGenerator g(0);
    g.restore(state);
    if (step.contains("random63")) {
      EXPECT_EQ(g.random63(), step["random63"].get<int64_t>());
    } else if (step.contains("bernoulli")) {
      for (const auto& truth : step["bernoulli"])
        EXPECT_EQ(g.bernoulli(step["bernoulli"].size() == 40 ? 0.3f : 0.5f), truth.get<int>() == 1);
    } else if (step.contains("normal")) {
      std::vector<float> x(step["normal"].size());
      g.normal(x);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], step["normal"][i].get<float>(), kNormalBound);
    } else if (const auto wanted = step["randint"].get<std::vector<int64_t>>(); wanted.size() == 5) {
      std::vector<int64_t> x(5);
      g.randint(1000, x);
      EXPECT_EQ(x, wanted);
    } else {
      std::vector<int64_t> x(700);
      g.randint(int64_t{1} << 40, x);
      EXPECT_EQ(std::vector<int64_t>(x.end() - 3, x.end()), wanted);
    }
    state = g.state();
  }
}

TEST(TorchGenerator, RefusesBytesThatAreNoState) {
  TorchGenerator g(3);
  const uint32_t first = TorchGenerator(3).next32();
  std::vector<std::byte> state = g.state();
  const auto cut = std::span(state).first(100);
  EXPECT_TRUE(contains(message_of(ErrorCode::kInvalidData, [&] { g.restore(cut); }), "found 100"));
  state[4 * 624 + 3] = std::byte{1};  // more used words than there are
  message_of(ErrorCode::kInvalidData, [&] { g.restore(state); });
  EXPECT_EQ(g.next32(), first);
  std::vector<int64_t> x(1);
  message_of(ErrorCode::kUnsupported, [&] { g.randint(0, x); });
}

TEST(TorchGenerator, RefusesWhatPyTorchTreatsInAnotherWay) {
  message_of(ErrorCode::kUnsupported, [] { TorchGenerator(1).randperm(int64_t{1} << 32); });
  message_of(ErrorCode::kUnsupported, [] { TorchGenerator(1).randperm(-1); });
  std::vector<float> x(20);
  for (const float most : {0.9f, 0.0f, -1.0f, std::nanf("")})
    message_of(ErrorCode::kUnsupported, [&] { TorchGenerator(1).truncated_normal(x, 2, most); });
  TorchGenerator(1).truncated_normal(x, 2, 1);
  for (const float value : x) EXPECT_LT(std::abs(value), 1);  // drawn again, not cut off
  TorchGenerator(1).truncated_normal(x, 0, 0);
  EXPECT_EQ(x, std::vector<float>(20));
}

}  // namespace
}  // namespace lathe
