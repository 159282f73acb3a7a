#include "lathe/text/python_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string golden_text(const std::string& name) {
  std::ifstream file(source_path("tests/golden/arguments/") + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

TEST(PythonRepr, FloatsAsPythonPrintsThem) {
  for (const auto& row : json::parse(golden_text("floats.json"))) {
    const auto x = std::bit_cast<double>(row[0].get<uint64_t>());
    EXPECT_EQ(python_repr(x), row[1].get<std::string>());
    EXPECT_EQ(python_repr(python_round(x, 4)), row[2].get<std::string>()) << row[1];
  }
  EXPECT_EQ(python_repr(std::nan("")), "nan");
  EXPECT_EQ(python_repr(-HUGE_VAL), "-inf");
}

TEST(PythonRepr, DictKeepsOrderAndQuotesAsPython) {
  const ordered_json logs = {
      {"loss", 0.6975}, {"learning_rate", 1e-5}, {"note", "it's"}, {"n", 3}, {"b", true}};
  EXPECT_EQ(python_repr(logs),
            "{'loss': 0.6975, 'learning_rate': 1e-05, 'note': \"it's\", 'n': 3, 'b': True}");
  EXPECT_EQ(python_repr(ordered_json({nullptr, "a'b\"c\n"})), "[None, 'a\\'b\"c\\n']");
}

TEST(PythonJson, PrintsFloatsAsPython) {
  EXPECT_EQ(python_float(0), "0.0");
  EXPECT_EQ(python_float(-0.0), "-0.0");
  EXPECT_EQ(python_float(1e-5), "1e-05");
  EXPECT_EQ(python_float(1e-4), "0.0001");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(123456789012345680), "1.2345678901234568e+17");
  EXPECT_EQ(python_float(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float(double{0.1f}), "0.10000000149011612");
  EXPECT_EQ(python_float(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(python_float(std::numeric_limits<double>::quiet_NaN()), "NaN");
}

TEST(PythonJson, WritesStringsAsPython) {
  EXPECT_EQ(python_json_string("a\"b\\\n\t\r\b\f\x01\x7F\xC3\xA4\xF0\x9F\x98\x80"),
            "\"a\\\"b\\\\\\n\\t\\r\\b\\f\\u0001\\u007f\\u00e4\\ud83d\\ude00\"");
}

TEST(PythonJson, DumpEqualsPythons) {
  EXPECT_EQ(python_json(json::parse(golden_text("dump_source.json")), 4), golden_text("dump.json"));
}

TEST(PythonJson, OrderAsciiAndOneLine) {
  const ordered_json value = {{"z", "é"}, {"a", {1, 2}}};
  EXPECT_EQ(python_json(value, -1), R"({"z": "\u00e9", "a": [1, 2]})");
  EXPECT_EQ(python_json(value, -1, false), R"({"z": "é", "a": [1, 2]})");
}

TEST(PythonJson, InvalidUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(python_json(json("a\xff\xc3"), -1), R"("a\ufffd\ufffd")");
  EXPECT_EQ(python_json(json("\xed\xa0\x80"), -1, false),
            "\"\uFFFD\uFFFD\uFFFD\"");  // a surrogate is no character
}

TEST(PythonJson, NotFiniteNumbersGoThereAndBack) {
  const json value = {
      {"eval_loss", std::nan("")}, {"list", {HUGE_VAL, -HUGE_VAL, 1.5}}, {"text", "NaN \" -Infinity"}};
  const std::string text = python_json(value, 2);
  EXPECT_NE(text.find("\"eval_loss\": NaN"), std::string::npos);
  const json back = parse_python_json(text, "all_results.json");
  EXPECT_TRUE(std::isnan(back["eval_loss"].get<double>()));
  EXPECT_EQ(back["list"], value["list"]);
  EXPECT_EQ(back["text"], value["text"]);
}

TEST(PythonJson, BrokenTextNamesItsSource) {
  try {
    parse_python_json("{\"a\": ", "all_results.json");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidData);
    EXPECT_EQ(std::string(e.what()).find("all_results.json:1:"), 0u) << e.what();
  }
}

TEST(ParseDouble, TakesWholeNumbersOnly) {
  EXPECT_EQ(parse_double("2e-5"), 2e-5);
  EXPECT_EQ(parse_double("+3"), 3.0);
  EXPECT_EQ(parse_double("-.5"), -0.5);
  EXPECT_EQ(parse_double("inf"), HUGE_VAL);
  EXPECT_EQ(parse_double("-inf"), -HUGE_VAL);
  EXPECT_EQ(parse_double("Infinity"), HUGE_VAL);
  EXPECT_TRUE(std::isnan(parse_double("NaN").value_or(0)));
  for (const auto* text : {"", "+", "+-1", "++1", "-0x1", "1,5", "1.5x", " 1", "1 ", "0x10", "two"}) {
    EXPECT_FALSE(parse_double(text)) << text;
  }
}

}  // namespace
}  // namespace lathe
