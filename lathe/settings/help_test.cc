#include "lathe/settings/help.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "lathe/core/source_folder_testing.h"

namespace lathe {
namespace {

std::vector<HelpSection> sections() {
  return {help_section<GlueArguments>("Model and data"), help_section<TrainingArguments>("Training")};
}

TEST(Help, ShowsEveryFlagOnceWithItsDefaultInTheWidth) {
  const std::string text = help_text("usage: lathe glue [flags]", sections(), 90);
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
  const std::string page = arguments_markdown(sections());
  EXPECT_NE(page.find("| `--learning_rate` | float | 5e-05 | Peak learning rate. | works |"),
            std::string::npos);
  EXPECT_NE(page.find("| `--no_cuda` | bool | `--use_cpu` |"), std::string::npos);
  EXPECT_NE(page.find("| `--model_name_or_path` | str | required |"), std::string::npos);
  EXPECT_NE(page.find("refused: DeepSpeed"), std::string::npos);
}

TEST(Help, ThePageInTheDocsIsOfToday) {
  std::ifstream file(source_path("docs/arguments.md"));
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), arguments_page()) << "lathe arguments > docs/arguments.md";
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

}  // namespace
}  // namespace lathe
