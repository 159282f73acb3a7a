#include "lathe/settings/argument_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <set>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe {
namespace {

using nlohmann::json;

TEST(ArgumentTable, EveryHuggingFaceFieldIsThereInOrderWithItsDefault) {
  std::ifstream file(source_path("tests/golden/arguments/fields.json"));
  ASSERT_TRUE(file);
  const auto expected = nlohmann::ordered_json::parse(file);
  ASSERT_EQ(expected.size(), 114u);
  size_t at = 0;
  for (const auto& [name, value] : expected.items()) {
    const auto& info = training_fields()[at++].info;
    EXPECT_EQ(info.name, name);
    json ours = info.default_value;
    if (info.kind == Kind::kList && value.is_string()) ours = ours[0];  // 'none' means a list with it
    if (name == "logging_nan_inf_filter") ours = true;                  // Lathe stops unless it is given
    EXPECT_EQ(ours, json(value)) << name;
  }
}

template <typename S>
void expect_sound(const std::vector<Field<S>>& fields, std::set<std::string_view>& names) {
  S object;
  for (const auto& field : fields) {
    const FieldInfo& info = field.info;
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " stands there twice";
    EXPECT_FALSE(info.help.empty()) << info.name;
    EXPECT_EQ(field.get(object), info.default_value) << info.name;
    EXPECT_TRUE(info.support() != Support::kNoEffect || !info.rules.reason.empty()) << info.name;
    field.set(object, info.default_value);
    EXPECT_EQ(field.get(object), info.default_value) << info.name;
  }
}

TEST(ArgumentTable, NamesAreUniqueAndOldNamesPointSomewhere) {
  std::set<std::string_view> glue, qa;
  expect_sound(training_fields(), glue);
  expect_sound(training_fields(), qa);
  expect_sound(glue_fields(), glue);
  expect_sound(qa_fields(), qa);
  for (const auto& old : old_names()) {
    EXPECT_FALSE(glue.count(old.name)) << old.name;
    EXPECT_TRUE(old.to.empty() || glue.count(old.to)) << old.name << " -> " << old.to;
  }
}

/// What the pattern's first group finds in the sources.
std::set<std::string> found_in_sources(const std::regex& pattern) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path("lathe"))) {
    if (entry.path().extension() != ".cc" || entry.path().stem().string().ends_with("_test")) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
      found.insert((*it)[1]);
  }
  return found;
}

TEST(ArgumentTable, AFieldIsReadByItsNameWithOrWithoutAMember) {
  TrainingArguments args;
  EXPECT_EQ(value_of(args, "seed"), 42);
  EXPECT_EQ(value_of(args, "ddp_comm_hook"), "no");
  args.seed = 7;
  args.other["ddp_comm_hook"] = "bf16";
  EXPECT_EQ(value_of(args, "seed"), 7);
  EXPECT_EQ(value_of(args, "ddp_comm_hook"), "bf16");
  EXPECT_THROW((void)value_of(args, "no_such"), Error);
}

TEST(ArgumentTable, WhatSourcesReadByNameIsThere) {
  const std::set<std::string> names = found_in_sources(std::regex(R"re(\bvalue_of\([\w.]+,\s*"(\w+)")re"));
  EXPECT_TRUE(names.contains("ddp_comm_hook"));
  for (const std::string& name : names) EXPECT_NO_THROW((void)value_of(TrainingArguments{}, name)) << name;
}

/// The table's values for the fields that some source casts to int.
template <typename S>
void expect_bounded(const std::vector<Field<S>>& fields, const std::set<std::string>& casts) {
  for (const auto& field : fields) {
    if (casts.count(std::string(field.info.name)) == 0) continue;
    EXPECT_GE(field.info.rules.low, 0) << field.info.name;
    EXPECT_LE(field.info.rules.high, std::numeric_limits<int>::max()) << field.info.name;
  }
}

TEST(ArgumentTable, FieldsThatAreCastToIntAreBounded) {
  const std::set<std::string> casts =
      found_in_sources(std::regex("static_cast<int>\\((?:args|args_|training_|glue_|qa_)\\.(\\w+)"));
  for (const char* known : {"max_seq_length", "doc_stride", "n_best_size", "max_answer_length", "threads"})
    EXPECT_EQ(casts.count(known), 1u) << known;
  expect_bounded(training_fields(), casts);
  expect_bounded(glue_fields(), casts);
  expect_bounded(qa_fields(), casts);
}

TEST(ArgumentTable, BoundFieldsReadAndWriteTheObject) {
  TrainingArguments args;
  for (const auto& field : bind(args)) {
    if (field.info->name == "seed") field.set(7);
    if (field.info->name == "eval_steps") field.set(nullptr);
    if (field.info->name == "greater_is_better") field.set(true);
    if (field.info->name == "neftune_noise_alpha") field.set(5.0);
  }
  EXPECT_EQ(args.seed, 7);
  EXPECT_FALSE(args.eval_steps);
  EXPECT_EQ(args.greater_is_better, true);
  EXPECT_EQ(args.other.at("neftune_noise_alpha"), 5.0);
}

TEST(ArgumentTable, JsonIsWhatHuggingFaceWrites) {
  TrainingArguments args;
  args.learning_rate = 2e-5;
  args.hub_token = "secret";
  const auto out = to_json(bind(args));
  EXPECT_EQ(out["logging_steps"].dump(), "500");
  EXPECT_EQ(out["num_train_epochs"].dump(), "3.0");
  EXPECT_EQ(out["learning_rate"], 2e-5);
  EXPECT_TRUE(out["eval_steps"].is_null());
  EXPECT_EQ(out["hub_token"], "<hub_token>");
  EXPECT_FALSE(out.contains("print_config"));
  args.logging_steps = 0.25;
  EXPECT_EQ(to_json(bind(args))["logging_steps"].dump(), "0.25");
}

std::string error_of(Kind kind, const std::string& text) {
  try {
    value_from_text("flag", kind, text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    return e.what();
  }
  return "no error";
}

TEST(ArgumentValues, TextBecomesWhatTheFieldIs) {
  for (const auto* yes : {"true", "True", "YES", "y", "t", "1"})
    EXPECT_EQ(value_from_text("f", Kind::kBool, yes), true);
  for (const auto* no : {"false", "No", "n", "F", "0"})
    EXPECT_EQ(value_from_text("f", Kind::kBool, no), false);
  EXPECT_EQ(value_from_text("f", Kind::kInt, "-1"), -1);
  EXPECT_EQ(value_from_text("f", Kind::kFloat, "2e-5"), 2e-5);
  EXPECT_EQ(
      value_from_text("f", Kind::kDict, R"({"a": "True", "b": "3", "c": "0.5", "d": "x", "e": {"f": "1"}})"),
      json::parse(R"({"a": true, "b": 3, "c": 0.5, "d": "x", "e": {"f": 1}})"));
}

TEST(ArgumentValues, WrongTextNamesFlagFoundAndWanted) {
  EXPECT_EQ(error_of(Kind::kBool, "maybe"), "--flag: found 'maybe', expected true or false");
  EXPECT_EQ(error_of(Kind::kInt, "1.5"), "--flag: found '1.5', expected a whole number");
  EXPECT_EQ(error_of(Kind::kInt, "99999999999999999999"),
            "--flag: found '99999999999999999999', expected a whole number");
  EXPECT_EQ(error_of(Kind::kFloat, "fast"), "--flag: found 'fast', expected a number");
  EXPECT_NE(error_of(Kind::kDict, "{broken").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(Kind::kDict, "/no/such.json").find("path of a JSON file"), std::string::npos);
}

TEST(ArgumentValues, JsonIsTakenStrictly) {
  EXPECT_EQ(value_from_json("f", Kind::kFloat, false, 3), 3.0);
  EXPECT_EQ(value_from_json("f", Kind::kList, false, "none"), json::array({"none"}));
  EXPECT_TRUE(value_from_json("f", Kind::kInt, true, nullptr).is_null());
  EXPECT_THROW(value_from_json("f", Kind::kInt, false, nullptr), Error);
  EXPECT_THROW(value_from_json("f", Kind::kInt, false, 1.5), Error);
  EXPECT_THROW(value_from_json("f", Kind::kInt, false, UINT64_MAX), Error);
  EXPECT_THROW(value_from_json("f", Kind::kBool, false, 1), Error);
  EXPECT_THROW(value_from_json("f", Kind::kText, false, 1), Error);
  EXPECT_THROW(value_from_json("f", Kind::kList, false, json::array({1})), Error);
}

}  // namespace
}  // namespace lathe
