#include "lathe/app/commands/commands.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "lathe/app/commands/completion.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe {
namespace {

TEST(Commands, ThePageInTheDocsIsOfToday) {
  std::ifstream file(source_path("docs/arguments.md"));
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), command_page()) << "lathe arguments > docs/arguments.md";
}

TEST(Commands, EveryFlagStandsInHelpManPageCompletionAndDocs) {
  const std::string man = man_page(commands()), page = command_page();
  const std::string scripts[] = {completion_script("bash", commands()), completion_script("zsh", commands()),
                                 completion_script("fish", commands())};
  std::set<std::string> names;
  for (const Command& command : commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    const std::string help = help_text(command);
    EXPECT_TRUE(help.starts_with("usage: lathe " + command.name + " ")) << help;
    std::set<std::string> flags;
    for (const Flag& flag : flags_of(command)) {
      const std::string place = command.name + " " + flag.name;
      EXPECT_TRUE(flags.insert(flag.name).second) << place;
      EXPECT_FALSE(flag.meaning.empty()) << place;
      EXPECT_NE(help.find(flag.name), std::string::npos) << place;
      EXPECT_NE(man.find(flag.name.substr(2)), std::string::npos) << place;
      if (flag.name.starts_with("--") && !flag.name.starts_with("--no_")) {
        EXPECT_NE(page.find("| `" + flag.name + "` |"), std::string::npos) << place;
      }
      for (const std::string& script : scripts)
        EXPECT_NE(script.find(flag.name.substr(flag.name.starts_with("--") ? 2 : 1)), std::string::npos)
            << place;
    }
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_LE(columns, 100) << line;
    }
  }
}

}  // namespace
}  // namespace lathe
