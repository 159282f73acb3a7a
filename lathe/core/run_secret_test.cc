#include "lathe/core/run_secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "lathe/core/error.h"
#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

const std::string kSecret(32, 's');

std::string secret_of(const std::map<std::string, std::string>& variables) {
  return run_secret([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

std::string why_not(const std::map<std::string, std::string>& variables) {
  try {
    secret_of(variables);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RunSecret, IsEachTimeAnother) {
  EXPECT_EQ(new_run_secret().size(), 64u);
  EXPECT_EQ(new_run_secret().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(new_run_secret(), new_run_secret());
}

TEST(RunSecret, TheVariableGoesBeforeTheFile) {
  EXPECT_EQ(secret_of({}), "");
  EXPECT_EQ(secret_of({{kRunSecret, ""}, {kRunSecretFile, ""}}), "");
  EXPECT_EQ(secret_of({{kRunSecret, kSecret}, {kRunSecretFile, "/not/there"}}), kSecret);
}

TEST(RunSecret, AShortOneIsRefusedAndNotShown) {
  const std::string said = why_not({{kRunSecret, "hunter2"}});
  EXPECT_TRUE(said.starts_with("LATHE_RUN_SECRET: found a secret of 7 characters, expected 32 to 4096"))
      << said;
  EXPECT_EQ(said.find("hunter2"), std::string::npos);
}

TEST(RunSecret, AFileIsOfItsOwnerAlone) {
  const TestFolder folder;
  const std::string path = folder / "secret";
  EXPECT_NE(why_not({{kRunSecretFile, path}}).find("No such file"), std::string::npos);
  EXPECT_NE(why_not({{kRunSecretFile, folder.path()}}).find("expected a file"), std::string::npos);
  std::ofstream(path) << kSecret << "\n";
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  EXPECT_NE(why_not({{kRunSecretFile, path}}).find("found mode 640, expected 600"), std::string::npos);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(secret_of({{kRunSecretFile, path}}), kSecret);
  std::ofstream(path) << "short\n";
  EXPECT_NE(why_not({{kRunSecretFile, path}}).find("found a secret of 5 characters"), std::string::npos);
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_NE(why_not({{kRunSecretFile, path}}).find("expected 32 to 4096"), std::string::npos);
}

}  // namespace
}  // namespace lathe
