#include "lathe/core/environment.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <map>

namespace lathe {
namespace {

class Home : public testing::Test {
 protected:
  ~Home() override { saved_.empty() ? unsetenv("HOME") : setenv("HOME", saved_.c_str(), 1); }
  std::string saved_ = environment("HOME");
};

TEST_F(Home, IsWhatTheEnvironmentSays) {
  setenv("HOME", "/some/where", 1);
  EXPECT_EQ(expand_home("~"), "/some/where");
  EXPECT_EQ(expand_home("~/x"), "/some/where/x");
  EXPECT_EQ(expand_home("~other/x"), "~other/x");
  EXPECT_EQ(expand_home("x/~"), "x/~");
  // As in Python:
  for (const char* root : {"", "/"}) {
    setenv("HOME", root, 1);
    EXPECT_EQ(expand_home("~/x"), "/x");
    EXPECT_EQ(expand_home("~"), "/");
  }
}

TEST_F(Home, IsThatOfThePasswordDatabaseWithoutTheVariable) {
  const passwd* user = getpwuid(getuid());
  if (user == nullptr) GTEST_SKIP() << "needs a user whom the password database knows";
  std::string folder = user->pw_dir;
  while (folder.ends_with('/')) folder.pop_back();
  unsetenv("HOME");
  EXPECT_EQ(expand_home("~"), folder.empty() ? "/" : folder);
  EXPECT_EQ(expand_home("~/x"), folder + "/x");
}

/// Each of them as Python's os.path.expandvars has it.
TEST(Variables, AreExpandedAsInPython) {
  setenv("LATHE_TEST_A", "/a b", 1);
  setenv("LATHE_TEST_B", "$LATHE_TEST_A", 1);
  unsetenv("LATHE_TEST_C");
  for (const auto& [text, wanted] :
       std::map<std::string, std::string>{{"", ""},
                                          {"plain/$", "plain/$"},
                                          {"$LATHE_TEST_A", "/a b"},
                                          {"x${LATHE_TEST_A}x/$LATHE_TEST_A/x", "x/a bx//a b/x"},
                                          {"$LATHE_TEST_AB/$LATHE_TEST_A-B", "$LATHE_TEST_AB//a b-B"},
                                          {"$LATHE_TEST_C/${LATHE_TEST_C}", "$LATHE_TEST_C/${LATHE_TEST_C}"},
                                          {"$LATHE_TEST_B", "$LATHE_TEST_A"},  // once
                                          {"$$LATHE_TEST_A ${} ${LATHE_TEST_A", "$/a b ${} ${LATHE_TEST_A"},
                                          {"${LATHE_TEST_C$LATHE_TEST_A}", "${LATHE_TEST_C$LATHE_TEST_A}"}})
    EXPECT_EQ(expand_variables(text), wanted) << text;
  unsetenv("LATHE_TEST_A");
  unsetenv("LATHE_TEST_B");
}

/// A recursive matcher of expressions used up the stack, one that goes back took quadratic time.
TEST(Variables, OfAMegabyteAreExpandedInLinearTime) {
  const size_t size = 1 << 20;
  std::string braces;
  while (braces.size() < size) braces += "${";
  for (const std::string& text : {"$" + std::string(size, 'a'), "${" + std::string(size, 'b') + "}", braces,
                                  std::string(size, '$'), braces + "}"})
    EXPECT_EQ(expand_variables(text), text);
}

}  // namespace
}  // namespace lathe
