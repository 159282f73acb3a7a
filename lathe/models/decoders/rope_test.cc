#include "lathe/models/decoders/rope.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/io/json_file.h"

namespace lathe::rope_test {
namespace {

std::string error_of(const nlohmann::json& json) {
  try {
    parse_rope(json, "", 10000, 64, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// transformers computes in f32: a power, a quotient and, where positions are stretched, up to four more
// operations, each within an ulp of 2⁻²³; the wave that chooses the share of a mix has an error of its own.
TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const nlohmann::json golden = read_json(real_file_system(), source_path("tests/golden/rope.json"));
  ASSERT_GT(golden.size(), 5u);
  for (const auto& [name, stored] : golden.items()) {
    SCOPED_TRACE(name);
    const RopeConfig rope = parse_rope({{"rope_parameters", stored[0]}}, "", 10000, 64, "config.json");
    const RopeTable table = rope_table(rope, stored[1]);
    const auto wanted = stored[2].get<std::vector<double>>();
    ASSERT_EQ(table.frequencies.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(table.frequencies[i], wanted[i], 8 * 0x1p-23 * wanted[i]) << i;
    EXPECT_NEAR(table.attention_factor, stored[3].get<double>(), 1e-15);
    EXPECT_EQ(parse_rope({{"rope_parameters", rope_to_write(rope)}}, "", 10000, 64, ""), rope);
  }
}

TEST(Rope, VersionFoursKeysAreRead) {
  const RopeConfig plain = parse_rope({{"rope_theta", 5e5}}, "", 10000, 64, "");
  EXPECT_EQ(plain.theta, 5e5);
  EXPECT_EQ(plain.type, "default");
  const RopeConfig scaled = parse_rope(
      {{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}, "", 10000, 64, "");
  EXPECT_EQ(scaled.type, "linear");
  EXPECT_EQ(scaled.factor, 4);
  EXPECT_EQ(scaled.theta, 5e5);
  const RopeConfig own = parse_rope(
      {{"rope_parameters",
        {{"sliding_attention", {{"rope_theta", 7e3}}}, {"full_attention", {{"rope_theta", 1e6}}}}}},
      "sliding_attention", 10000, 64, "");
  EXPECT_EQ(own.theta, 7e3);
}

TEST(Rope, WhatNoModelHasIsRefused) {
  const auto with = [](nlohmann::json parameters) {
    return error_of({{"rope_parameters", std::move(parameters)}});
  };
  EXPECT_NE(with({{"rope_type", "longrope"}}).find("\"longrope\", expected default, linear, llama3 or yarn"),
            std::string::npos);
  EXPECT_NE(with({{"rope_theta", -1}}).find("\"rope_theta\" is -1"), std::string::npos);
  EXPECT_NE(with({{"rope_type", "linear"}, {"factor", 0}}).find("\"factor\" is 0"), std::string::npos);
  EXPECT_NE(with({{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}})
                .find("expected more than \"low_freq_factor\""),
            std::string::npos);
  EXPECT_NE(error_of({{"rope_parameters", 3}}).find("is 3, expected an object"), std::string::npos);
  EXPECT_NE(error_of({{"rope_theta", 1}}).find("expected a number above 1"), std::string::npos);
}

}  // namespace
}  // namespace lathe::rope_test
