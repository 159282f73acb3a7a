#include "lathe/settings/help.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <sstream>

namespace lathe {
namespace {

std::vector<HelpSection> sections() {
  return {help_section<GlueArguments>("Model and data"), help_section<TrainingArguments>("Training")};
}

struct ShowSettings {
  std::optional<std::string> file;
  bool json = false;
  int rows = 3;
};

TEST(Help, ShowsEveryFlagOnceWithItsDefaultInTheWidth) {
  const std::string text = help_text({.name = "glue", .words = Words::kScript, .sections = sections()}, 90);
  for (const auto& section : sections()) {
    for (const auto* info : section.fields) {
      const std::string flag = "--" + std::string(info->name);
      size_t count = 0;
      for (size_t at = 0; (at = text.find(flag, at)) != std::string::npos; at += flag.size()) {
        const size_t end = at + flag.size();
        if (text[end] == ' ' || text[end] == '\n' || text[end] == ',') ++count;
      }
      EXPECT_EQ(count, 1u) << flag;
    }
  }
  EXPECT_NE(text.find("Peak learning rate. (default: 5e-05)"), std::string::npos);
  EXPECT_NE(text.find("--no_logging_nan_inf_filter"), std::string::npos);
  EXPECT_NE(text.find("(required)"), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 90u) << line;
}

TEST(Help, MarkdownHasARowPerFlag) {
  const std::string page = arguments_page(sections());
  EXPECT_NE(page.find("| `--learning_rate` | float | 5e-05 | Peak learning rate. | works |"),
            std::string::npos);
  EXPECT_NE(page.find("| `--no_cuda` | bool | `--use_cpu` |"), std::string::npos);
  EXPECT_NE(page.find("| `--model_name_or_path` | str | required |"), std::string::npos);
  EXPECT_NE(page.find("refused: DeepSpeed"), std::string::npos);
}

TEST(Help, OfACommandThatIsNoScript) {
  const std::vector<Field<ShowSettings>> table = {
      {"file", &ShowSettings::file, "Texts.", {.value = "FILE"}},
      {"json", &ShowSettings::json, "Print JSON."},
      {"rows", &ShowSettings::rows, "Rows at once.", {.low = 1, .letter = "n"}}};
  const Syntax syntax{.name = "show",
                      .synopsis = "TEXT…\n--file FILE",
                      .details = "Shows texts.\n as it stands   here",
                      .words = Words::kAny,
                      .sections = {help_section("flags", table)}};
  EXPECT_EQ(help_text(syntax),
            "usage: lathe show TEXT…\n"
            "       lathe show --file FILE\n"
            "\n"
            "  Shows texts.\n"
            "   as it stands   here\n"
            "\n"
            "flags:\n"
            "  --file FILE                         Texts.\n"
            "  --json                              Print JSON.\n"
            "  -n, --rows INT                      Rows at once. (default: 3)\n");
  std::string flags;
  for (const Flag& flag : flags_of(syntax)) flags += flag.name + "=" + flag.value + " ";
  EXPECT_EQ(flags, "--file=FILE --json= -n=INT --rows=INT ");
}

TEST(Help, WhatIsRefusedOrHasNoEffectSaysWhy) {
  for (const auto& section : sections())
    for (const auto* info : section.fields) {
      if (info->support() != Support::kWorks) {
        EXPECT_NE(info->rules.reason, "") << info->name;
      }
    }
}

TEST(Help, JsonHoldsAllTables) {
  const auto all = arguments_json();
  EXPECT_EQ(all["training"].size(), training_fields().size());
  EXPECT_EQ(all["training"][4]["name"], "learning_rate");
  EXPECT_EQ(all["training"][4]["default"], 5e-5);
  EXPECT_EQ(all["old_names"].size(), old_names().size());
}

TEST(Help, TheTenFirstFlagsOfAScriptComeBeforeTheNamesOfAllOthers) {
  const std::vector<HelpSection> scripts[] = {
      {help_section<GlueArguments>("Model and data"), help_section<TrainingArguments>("Training")},
      {help_section<QaArguments>("Model and data"), help_section<TrainingArguments>("Training")}};
  for (const auto& of_script : scripts) {
    const Syntax syntax{
        .name = "train", .words = Words::kScript, .example = "lathe train --fast", .sections = of_script};
    const std::string text = first_help_text(syntax);
    size_t first = 0, at = text.find("for example:\n  lathe train --fast\n");
    ASSERT_NE(at, std::string::npos);
    for (const auto& section : of_script)
      for (const auto* info : section.fields) {
        first += info->rules.first;
        const std::string flag = "--" + std::string(info->name);
        const size_t place = text.find((info->rules.first ? "\n  " : " ") + flag);
        EXPECT_EQ(place != std::string::npos, info->rules.first || info->support() == Support::kWorks)
            << flag;
        if (!info->rules.first) continue;
        EXPECT_GT(place, at) << flag;  // in the order of the table
        at = place;
      }
    EXPECT_EQ(first, 10u);
    EXPECT_GT(text.find("\nlogs:\n  --logging_strategy "), at);
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 72);  // seven of adapters need two lines
  }
  // A command of a few flags has no first ones.
  const std::vector<Field<ShowSettings>> table = {{"json", &ShowSettings::json, "Print JSON."}};
  const Syntax small{.name = "show", .sections = {help_section("flags", table)}};
  EXPECT_EQ(first_help_text(small), help_text(small));
}

}  // namespace
}  // namespace lathe
