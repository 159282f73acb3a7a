#include "lathe/data/torch_random.h"

#include <gtest/gtest.h>

#include <cmath>

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
