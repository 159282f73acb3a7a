#include "lathe/io/byte_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

std::string all_of(ByteSource& source) {
  std::string text;
  while (source.read(text, 3)) continue;
  return text;
}

TEST(ByteSource, AFileInPieces) {
  const TestFolder folder;
  std::ofstream(folder / "file") << "one two";
  ByteSource source(folder / "file");
  EXPECT_EQ(source.bytes(), 7u);
  EXPECT_EQ(all_of(source), "one two");
}

TEST(ByteSource, ANamedPipeOnThreadsThatComeLate) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ByteSource source(pipe);
  std::thread writer([&] {
    std::ofstream out(pipe);
    out << "one " << std::flush;
    out << "two";
  });
  EXPECT_EQ(all_of(source), "one two");
  writer.join();
}

TEST(ByteSource, ANamedPipeThatNobodyWritesTo) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ByteSource source(pipe, {}, 0.05);
  std::string text;
  try {
    source.read(text, 3);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nobody wrote to for 0.05 s"), std::string::npos)
        << error.what();
  }
}

TEST(ByteSource, ADeviceHasNoEnd) {
  std::string text;
  EXPECT_THROW(ByteSource("/dev/zero").read(text, 3), Error);
  EXPECT_FALSE(ByteSource("/dev/null").read(text, 3));
}

}  // namespace
}  // namespace lathe
