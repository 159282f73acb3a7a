#include "lathe/io/npy.h"

#include <gtest/gtest.h>

#include "lathe/core/error_testing.h"
#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

FileSystem& npy_disk() { return real_file_system(); }

// What numpy 2.4 writes: numpy.save of an array of float32 of 2 rows of 3, and of float16 of 3.
std::string numpys_header(const std::string& text) {
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + std::string(117 - text.size(), ' ') + "\n";
}
const std::string kTwoByThree = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
const std::string kThreeHalves = "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }";

void put_npy(const std::string& path, const std::string& bytes) {
  npy_disk().write_atomic(path, bytes).check();
}

TEST(Npy, WritesTheBytesOfNumpy) {
  const TestFolder folder;
  const std::vector<float> values{0, 0.25f, 0.5f, 0.75f, 1, 1.25f};
  write_npy(npy_disk(), folder / "a.npy", {.dtype = DType::f32, .shape = {2, 3}}, values).check();
  std::string expected = numpys_header(kTwoByThree);
  EXPECT_EQ(expected.size(), 128u);
  expected.append(reinterpret_cast<const char*>(values.data()), 24);
  EXPECT_EQ(npy_disk().read(folder / "a.npy").value(), expected);

  write_npy(npy_disk(), folder / "h.npy", {.dtype = DType::f16, .shape = {3}},
            std::vector<float>{1, -2.5f, 65504})
      .check();
  EXPECT_EQ(npy_disk().read(folder / "h.npy").value(),
            numpys_header(kThreeHalves) + std::string("\x00\x3c\x00\xc1\xff\x7b", 6));
}

TEST(Npy, ReadsWhatItWroteInParts) {
  const TestFolder folder;
  const std::string path = folder / "a.npy";
  for (const DType dtype : {DType::f32, DType::f16}) {
    write_npy(npy_disk(), path, {.dtype = dtype, .shape = {5, 2}}, [](const NpySink& sink) {
      for (float i = 0; i < 5; ++i)
        if (Status status = sink(std::vector<float>{i, i / 2}); !status.ok()) return status;
      return Status();
    }).check();
    const NpyFile file = NpyFile::open(npy_disk(), path);
    EXPECT_EQ(file.rows(), 5);
    EXPECT_EQ(file.array().dtype, dtype);
    EXPECT_EQ(file.read(3, 2), (std::vector<float>{3, 1.5f, 4, 2}));
    EXPECT_TRUE(file.read(5, 0).empty());
    EXPECT_NE(message_of(ErrorCode::kUsage, [&] { file.read(4, 2); }).find("of an array of 5"),
              std::string::npos);
  }
}

TEST(Npy, AStreamOfRowsGivesTheSameFile) {
  const TestFolder folder;
  const std::vector<float> values{0, 0.25f, 0.5f, 0.75f, 1, 1.25f};
  for (const int64_t rows : {0, 2}) {
    const auto first = std::span(values).first(static_cast<size_t>(3 * rows));
    write_npy(npy_disk(), folder / "a.npy", {.dtype = DType::f32, .shape = {rows, 3}}, first).check();
    {
      NpyStream stream(npy_disk(), folder / "new/b.npy", 3);
      for (int64_t row = 0; row < rows; ++row) stream.put(first.subspan(static_cast<size_t>(3 * row), 3));
      stream.finish();
    }
    EXPECT_EQ(npy_disk().read(folder / "new/b.npy").value(), npy_disk().read(folder / "a.npy").value());
    EXPECT_EQ(npy_disk().list(folder / "new").value(), std::vector<std::string>{"b.npy"});
  }
}

TEST(Npy, AStreamThatDoesNotEndLeavesNothing) {
  const TestFolder folder;
  { NpyStream(npy_disk(), folder / "b.npy", 1).put(std::vector<float>{1, 2}); }
  EXPECT_TRUE(npy_disk().list(folder.path()).value().empty());
}

TEST(Npy, LeavesNoFileOfAnotherLength) {
  const TestFolder folder;
  const Status status =
      write_npy(npy_disk(), folder / "a.npy", {.shape = {2, 2}}, std::vector<float>{1, 2, 3});
  EXPECT_EQ(status.code(), ErrorCode::kShape);
  EXPECT_NE(status.message().find("found 3 numbers, expected 4"), std::string::npos) << status.message();
  EXPECT_FALSE(npy_disk().exists(folder / "a.npy"));
  EXPECT_EQ(
      write_npy(npy_disk(), folder / "a.npy", {.dtype = DType::i64, .shape = {1}}, std::vector<float>{1})
          .code(),
      ErrorCode::kUnsupported);
  EXPECT_EQ(write_npy(npy_disk(), folder / "a.npy", {.shape = {1, 1, 1}}, std::vector<float>{1}).code(),
            ErrorCode::kShape);
}

std::string npy_refusal(const std::string& bytes, ErrorCode code) {
  const TestFolder folder;
  put_npy(folder / "a.npy", bytes);
  return message_of(code, [&] { NpyFile::open(npy_disk(), folder / "a.npy"); });
}

TEST(Npy, RefusesOtherArraysWithTheWayOut) {
  const auto of = [](const std::string& text) {
    return npy_refusal(numpys_header(text) + std::string(64, '\0'), ErrorCode::kUnsupported);
  };
  EXPECT_NE(of("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }").find("'<f8'"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }").find("astype(\"float32\")"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }").find("ascontiguousarray"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1), }").find("3 dimensions"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }").find("0 dimensions"),
            std::string::npos);
}

TEST(Npy, RefusesDamagedFiles) {
  const std::string whole = numpys_header(kTwoByThree) + std::string(24, '\0');
  for (size_t length = 0; length < whole.size(); length += 11)
    EXPECT_FALSE(npy_refusal(whole.substr(0, length), ErrorCode::kInvalidData).empty());
  for (const char* text : {"{}", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
                           "{'descr': '<f4',"
                           "'fortran_order': False, 'shape': (99999999999999999999,), }",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }"})
    EXPECT_FALSE(npy_refusal(numpys_header(text) + std::string(24, '\0'), ErrorCode::kInvalidData).empty());
  EXPECT_NE(npy_refusal("PK\x03\x04 and so on, an archive", ErrorCode::kInvalidData).find("numpy.save"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe
