#include "lathe/io/json_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/core/test_folder.h"
#include "lathe/io/keys_once.h"
#include "lathe/io/testdata.h"

namespace lathe {
namespace {

using nlohmann::json;

std::string parse_error(std::string_view text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "f.json", limits); }, ErrorCode::kInvalidData);
}

TEST(Json, ErrorsCarryLineAndColumn) {
  EXPECT_TRUE(parse_error("{\n  \"a\": 1,\n  \"b\": ]\n}").starts_with("f.json:3:8: not valid JSON: "))
      << parse_error("{\n  \"a\": 1,\n  \"b\": ]\n}");
  EXPECT_TRUE(parse_error("{\"a\": 1").starts_with("f.json:1:8: ")) << parse_error("{\"a\": 1");
  EXPECT_TRUE(parse_error("{} x").starts_with("f.json:1:4: "));
}

TEST(Json, InvalidUtf8IsRefusedAndTheMessageIsPlainText) {
  const std::string message = parse_error("{\"a\": \"\xff\xfe\"}");
  EXPECT_TRUE(message.starts_with("f.json:1:")) << message;
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(Json, AMegabyteOfRubbishGivesAShortMessage) {
  EXPECT_LT(parse_error("[\"" + std::string(1 << 20, 'x')).size(), 400u);
}

TEST(Json, DepthIsLimitedOutsideOfStrings) {
  EXPECT_EQ(parse_error(std::string(200, '[') + std::string(200, ']')), "");
  EXPECT_TRUE(parse_error(std::string(1000000, '['))
                  .starts_with("f.json:1:201: found lists or objects nested deeper than 200"));
  EXPECT_EQ(parse_error("\"" + std::string(300, '[') + "\\\"[\""), "");
}

TEST(Json, TheLastOfDuplicateKeysCountsUnlessRefused) {
  EXPECT_EQ(parse_json("{\"a\":1,\"a\":2}", "f")["a"], 2);
  const auto refused = [](std::string_view text) { return parse_error(text, {.duplicate_keys = false}); };
  EXPECT_EQ(
      refused("[1,\n {\"a\":1,\n\"a\":2}]"),
      "f.json:2:2: found the key \"a\" twice in one object, expected each once: rename one or leave it out");
  EXPECT_EQ(refused("[{\"a\":{\"a\":1}},{\"a\":1}]"), "");
}

TEST(Json, KeysOnceReadsWhatParseReadsAndFindsTheObjectThatHasOneTwice) {
  const auto found = [](std::string_view text) -> std::string {
    try {
      const auto refuse = [](const DuplicateKey& twice) { throw twice; };
      EXPECT_EQ(parse_keys_once<json>(text, refuse), json::parse(text)) << text;
      EXPECT_EQ(parse_keys_once<nlohmann::ordered_json>(text, refuse), nlohmann::ordered_json::parse(text));
    } catch (const DuplicateKey& twice) {
      return fmt::format("{} {}", twice.key, twice.object);
    } catch (const json::parse_error& error) {
      return fmt::format("error {}", error.byte);
    } catch (const json::out_of_range&) {
      return "range";
    }
    return "";
  };
  EXPECT_EQ(
      found(R"({"z": [1, -2, 3.5, null, true, "\u00e9\n", [], {}, [[{"a": {}}]]], "a": {"z": [{"a": 1}]}})"),
      "");
  EXPECT_EQ(found("\xEF\xBB\xBF 7"), "");
  EXPECT_EQ(found(R"([{"b": [{}, "\\\"{[", {"a": 1}]}, {"a": 1, "b": {"a": 2, "c": [], "\u0061": 3}}])"),
            "a 48");
  EXPECT_EQ(found(R"({"a": {"b": 1}, "b": {"a": [1]}, "a": 2})"), "a 0");
  EXPECT_EQ(found("\xEF\xBB\xBF{\"a\": 1, \"a\": 2}"), "a 3");
  EXPECT_EQ(found("{\"a\": 1, \"b\" \"a\": 2}"), "error 16");  // before the key
  EXPECT_EQ(found("[1] 2"), "error 5");
  EXPECT_EQ(found("[1e999, {\"a\": 1, \"a\": 2}]"), "range");
}

TEST(Json, AByteOrderMarkIsSkippedAndNumbersBeyondDoubleAreErrors) {
  EXPECT_EQ(parse_json("\xEF\xBB\xBF[1]", "f")[0], 1);
  EXPECT_EQ(
      parse_error("[1e999]"),
      "f.json:1:2: not valid JSON: number overflow parsing '1e999': write a number that a double holds");
  EXPECT_TRUE(parse_error("{\"a\": \"1e999\",\n\"a\": [-1e999 ], \"b\": 1e999}").starts_with("f.json:2:7: "));
  EXPECT_TRUE(parse_error("\n 1e999", {.duplicate_keys = false}).starts_with("f.json:2:2: "));
}

TEST(Json, ZeroBytesAreNoEnd) {
  using namespace std::string_literals;
  EXPECT_EQ(parse_error("{}\n\0 and more"s),
            "f.json:2:1: found a zero byte, expected JSON text: the file is damaged, fetch or save it again");
  EXPECT_TRUE(parse_error("{\"a\": \"\\\0\"}"s).starts_with("f.json:1:9: found a zero byte"));
  EXPECT_FALSE(is_json("{}\0"s));
  EXPECT_TRUE(is_json("{}"));
}

TEST(Json, WhatAnotherFileIsStandsInTheMessage) {
  EXPECT_EQ(parse_error("<!DOCTYPE html>\n<title>Sign in").find("f.json: expected JSON, found a web page"),
            0u);
  EXPECT_EQ(parse_error("\x1f\x8b\x08").find("f.json: expected JSON, found gzip data"), 0u);
  EXPECT_EQ(parse_error("  \n").find("f.json: expected JSON, found an empty file"), 0u);
  EXPECT_NE(parse_error("{\"a\": [1,\n").find("the text ends too early"), std::string::npos);
}

TEST(Json, OrderedKeepsTheOrderAndRefusesKeysThatStandTwice) {
  EXPECT_EQ(parse_ordered_json("{\"z\": {\"b\": 1, \"a\": 2}, \"a\": [3]}", "f").dump(),
            "{\"z\":{\"b\":1,\"a\":2},\"a\":[3]}");
  EXPECT_EQ(error_of([] { parse_ordered_json("{\"a\": 1, \"a\": 1}", "f", {.first_line = 7}); },
                     ErrorCode::kInvalidData),
            "f:7:1: found the key \"a\" twice in one object, expected each once: rename one or leave it out");
  EXPECT_TRUE(error_of([] { parse_ordered_json(std::string(48000, '['), "f"); }, ErrorCode::kInvalidData)
                  .starts_with("f:1:201: "));
}

/// Quadratic time, as ordered_json has it, would be minutes.
TEST(Json, ManyKeysTakeLinearTime) {
  std::string text = "{\"k\":0";
  for (int i = 0; i < 300000; ++i) text += fmt::format(",\"k{}\":{}", i, i);
  text += "}";
  EXPECT_EQ(parse_ordered_json(text, "f").size(), 300001u);
  EXPECT_EQ(parse_json(text, "f", {.duplicate_keys = false}).size(), 300001u);
}

TEST(Json, RequiredNamesFileKeyFoundAndWanted) {
  const json j =
      json::parse(R"({"n":"many","x":1.5,"big":3000000000,"huge":18446744073709551615,"l":[1,"a"]})");
  const auto error = [&j](auto type, const char* key) {
    return error_of([&] { (void)required<decltype(type)>(j, key, "config.json"); }, ErrorCode::kInvalidData);
  };
  EXPECT_EQ(error(int64_t{}, "n"),
            "config.json: \"n\": found \"many\" (a string), expected an integer below 2^63");
  EXPECT_EQ(error(int{}, "x"), "config.json: \"x\": found 1.5 (a number), expected an integer below 2^31");
  EXPECT_NE(error(int{}, "big"), "");
  EXPECT_EQ(error(int64_t{}, "big"), "");
  EXPECT_NE(error(int64_t{}, "huge"), "");
  EXPECT_NE(error(bool{}, "x"), "");
  EXPECT_NE(error(std::string(), "x"), "");
  EXPECT_NE(error(std::vector<int64_t>(), "l"), "");
  EXPECT_EQ(error(int{}, "gone"), "config.json: the key \"gone\" is missing");
  EXPECT_NE(error_of([] { (void)required<int>(json(3), "k", "f"); }, ErrorCode::kInvalidData), "");
}

TEST(Json, ValueOrTakesTheFallbackForMissingAndNullOnly) {
  const json j = json::parse(R"({"none":null,"n":3,"x":2,"l":["a","b"]})");
  EXPECT_EQ(value_or<int>(j, "gone", 7, "f"), 7);
  EXPECT_EQ(value_or<int>(j, "none", 7, "f"), 7);
  EXPECT_EQ(value_or<int>(j, "n", 7, "f"), 3);
  EXPECT_EQ(value_or<double>(j, "x", 7.0, "f"), 2.0);
  EXPECT_EQ(value_or<std::vector<std::string>>(j, "l", {}, "f"), (std::vector<std::string>{"a", "b"}));
  EXPECT_THROW((void)value_or<std::string>(j, "n", "x", "f"), Error);
}

TEST(Json, ReadNamesTheFile) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  ASSERT_TRUE(fs.write_atomic(folder / "a.json", "{\"k\": [1, 2]}").ok());
  EXPECT_EQ(read_json(fs, folder / "a.json")["k"][1], 2);
  EXPECT_NE(error_of([&] { read_json(fs, folder / "b.json"); }, ErrorCode::kNotFound).find("b.json"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe
