#include "lathe/io/bounded_read.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "lathe/core/test_folder.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

std::string error(const std::string& path, const ReadLimits& limits, ErrorCode code) {
  const Status status = bounded_read(path, limits).status();
  EXPECT_EQ(status.code(), code) << status.message();
  return status.message();
}

TEST(BoundedRead, AFileUpToTheLimit) {
  const TestFolder folder;
  std::ofstream(folder / "f") << "12345678";
  EXPECT_EQ(bounded_read(folder / "f", {8}).value(), "12345678");
  EXPECT_NE(
      error(folder / "f", {7}, ErrorCode::kInvalidData).find("f: found 8 bytes, expected at most 7 bytes"),
      std::string::npos);
  std::ofstream(folder / "empty") << "";
  EXPECT_EQ(bounded_read(folder / "empty", {0}).value(), "");
}

TEST(BoundedRead, ALargeFileIsRefusedBeforeItIsRead) {
  const TestFolder folder;
  std::ofstream(folder / "f") << "x";
  std::filesystem::resize_file(folder / "f", uint64_t{1} << 40);  // a hole: no bytes on the disk
  EXPECT_NE(error(folder / "f", {kSmallFileBytes}, ErrorCode::kInvalidData).find("found 1099511627776 bytes"),
            std::string::npos);
}

TEST(BoundedRead, DevicesThatHaveNoEnd) {
  for (const char* device : {"/dev/zero", "/dev/urandom"})
    EXPECT_NE(error(device, {kSmallFileBytes}, ErrorCode::kIo).find("found a device"), std::string::npos);
  EXPECT_EQ(bounded_read("/dev/null", {kSmallFileBytes}).value(), "");
  EXPECT_EQ(error("/", {kSmallFileBytes}, ErrorCode::kIo), "/: cannot read: Is a directory; name a file");
}

TEST(BoundedRead, APipeThatNobodyWritesTo) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(error(pipe, {100, 0.05}, ErrorCode::kIo).find("nobody wrote to for 0.05 s"), std::string::npos);
  const Status mapped = real_file_system().map(pipe).status();
  EXPECT_NE(mapped.message().find("expected a file"), std::string::npos) << mapped.message();
}

TEST(BoundedRead, APipeWhoseWriterTakesItsTime) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto write_to = [&](std::initializer_list<const char*> parts) {
    return std::thread([pipe, parts = std::vector<std::string>(parts.begin(), parts.end())] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      std::ofstream out(pipe);
      for (const std::string& part : parts) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        out << part << std::flush;
      }
    });
  };
  std::thread writer = write_to({"one ", "two"});
  EXPECT_EQ(bounded_read(pipe, {100}).value(), "one two");
  writer.join();
  writer = write_to({});
  EXPECT_EQ(bounded_read(pipe, {100}).value(), "");
  writer.join();
  writer = write_to({"12345678"});
  EXPECT_NE(error(pipe, {7}, ErrorCode::kInvalidData).find("a pipe that goes on, expected at most 7 bytes"),
            std::string::npos);
  writer.join();
}

TEST(BoundedRead, APipeOfAnotherProcess) {
  std::FILE* process = popen("sleep 0.05; printf text", "r");
  EXPECT_EQ(bounded_read("/dev/fd/" + std::to_string(fileno(process)), {100}).value(), "text");
  pclose(process);
  process = popen("true", "r");
  EXPECT_EQ(bounded_read("/dev/fd/" + std::to_string(fileno(process)), {100}).value(), "");
  pclose(process);
}

}  // namespace
}  // namespace lathe
