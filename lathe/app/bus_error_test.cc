#include "lathe/app/bus_error.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "lathe/core/test_folder.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

/// Reads a byte of a mapped file that is cut short by then.
void read_what_is_gone(const std::string& path) {
  explain_bus_errors();
  const MappedFile file = real_file_system().map(path).value();
  std::filesystem::resize_file(path, 0);
  volatile char byte = file.text()[5000];
  (void)byte;
}

TEST(BusError, OfAFileThatIsCutShortIsExplained) {
  const TestFolder folder;
  std::ofstream(folder / "f") << std::string(10000, 'x');
  EXPECT_EXIT(read_what_is_gone(folder / "f"), testing::KilledBySignal(SIGBUS), "got shorter meanwhile");
}

}  // namespace
}  // namespace lathe
