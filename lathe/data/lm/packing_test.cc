#include "lathe/data/lm/packing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/io/json_file.h"

namespace lathe::packing_test {
namespace {

PackingStrategy strategy_named(const std::string& name) {
  if (name == "bfd") return PackingStrategy::kBfd;
  return name == "wrapped" ? PackingStrategy::kWrapped : PackingStrategy::kBfdSplit;
}

TEST(Packing, EqualsTrl) {
  const nlohmann::json golden = read_json(real_file_system(), source_path("tests/golden/packing.json"));
  for (const nlohmann::json& one : golden["cases"]) {
    SCOPED_TRACE(one["strategy"].get<std::string>() + " " + one["length"].dump());
    const auto lengths = one["lengths"].get<std::vector<int64_t>>();
    const auto packed = pack_samples(lengths, one["length"], strategy_named(one["strategy"]));
    std::vector<std::vector<int64_t>> flat;
    for (const auto& pieces : packed) {
      flat.emplace_back();
      for (const auto& [sample, begin, end] : pieces)
        flat.back().insert(flat.back().end(), {sample, begin, end});
    }
    EXPECT_EQ(flat, one["packed"].get<std::vector<std::vector<int64_t>>>());
  }
}

TEST(Packing, NothingGivesNothing) {
  EXPECT_TRUE(pack_samples({}, 8, PackingStrategy::kBfd).empty());
  const std::vector<int64_t> empty = {0, 0};
  EXPECT_TRUE(pack_samples(empty, 8, PackingStrategy::kWrapped).empty());
  EXPECT_THROW(pack_samples(empty, 0, PackingStrategy::kBfd), Error);
}

}  // namespace
}  // namespace lathe::packing_test
