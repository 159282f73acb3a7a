#include "lathe/io/safetensors.h"

#include <gtest/gtest.h>

#include "lathe/core/test_folder.h"
#include "lathe/io/faulty_file_system_testing.h"
#include "lathe/io/testdata.h"

namespace lathe {
namespace {

SafetensorsFile open_file(const std::string& path) { return SafetensorsFile::open(real_file_system(), path); }

std::vector<float> floats(const TensorView* tensor) {
  std::vector<float> out(static_cast<size_t>(elements(tensor->shape)));
  to_f32(*tensor, out.data());
  return out;
}

std::vector<float> ramp(int n) {
  std::vector<float> out;
  for (int i = 0; i < n; ++i) out.push_back(static_cast<float>(i) / 4 - 1);
  return out;
}

std::vector<float> counting(int n) {
  std::vector<float> out;
  for (int i = 0; i < n; ++i) out.push_back(static_cast<float>(i));
  return out;
}

TensorMap all_tensors(const SafetensorsFile& file) {
  TensorMap out;
  for (const std::string& name : file.names()) out[name] = *file.find(name);
  return out;
}

TEST(Safetensors, ReadsWhatThePythonPackageWrote) {
  const SafetensorsFile file = open_file(testdata("types.safetensors"));
  EXPECT_EQ(file.names().size(), 11u);
  EXPECT_TRUE(std::is_sorted(file.names().begin(), file.names().end()));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(file.find("b.f32")->shape, (Shape{2, 3}));
  EXPECT_EQ(floats(file.find("b.f32")), ramp(6));
  EXPECT_EQ(floats(file.find("a.f32")), ramp(4));
  EXPECT_EQ(floats(file.find("f16")), ramp(5));
  EXPECT_EQ(file.find("bf16")->dtype, DType::bf16);
  EXPECT_EQ(floats(file.find("bf16")), ramp(3));
  EXPECT_EQ(floats(file.find("f64")), ramp(2));
  EXPECT_EQ(floats(file.find("i64")), counting(3));
  EXPECT_EQ(floats(file.find("i32")), counting(3));
  EXPECT_EQ(floats(file.find("u8")), counting(5));
  EXPECT_EQ(file.find("scalar")->shape, Shape());
  EXPECT_EQ(floats(file.find("scalar")), std::vector<float>{2.5f});
  EXPECT_EQ(file.find("empty")->shape, (Shape{0, 3}));
  EXPECT_NE(file.find("quote\"\\/\n\u00e9"), nullptr);
  EXPECT_EQ(file.find("gone"), nullptr);
}

TEST(Safetensors, TypesThatLatheHasNotAreListedAndRefusedWhenRead) {
  const SafetensorsFile file = open_file(testdata("other_types.safetensors"));
  EXPECT_EQ(file.names().size(), 9u);
  EXPECT_EQ(floats(file.find("bool")), (std::vector<float>{1, 0}));
  EXPECT_EQ(floats(file.find("f32")), ramp(2));
  for (const char* name : {"i8", "i16", "u16", "u32", "u64", "c64", "f8"}) {
    const std::string message = error_of([&] { (void)file.find(name); }, ErrorCode::kUnsupported);
    EXPECT_NE(message.find(std::string("tensor \"") + name), std::string::npos) << message;
  }
}

TEST(Safetensors, WritesTheBytesOfThePythonPackage) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const SafetensorsFile file = open_file(testdata("types.safetensors"));
  ASSERT_TRUE(write_safetensors(fs, folder / "f", all_tensors(file)).ok());
  EXPECT_EQ(fs.read(folder / "f").value(), fs.read(testdata("types.safetensors")).value());
}

TEST(Safetensors, AnEmptyMapAndMetadataSurvive) {
  const TestFolder folder;
  const std::map<std::string, std::string> metadata = {{"a", "1"}, {"b", "\"quoted\""}};
  ASSERT_TRUE(write_safetensors(real_file_system(), folder / "f", TensorMap(), metadata).ok());
  EXPECT_EQ(open_file(folder / "f").metadata(), metadata);
  ASSERT_TRUE(write_safetensors(real_file_system(), folder / "g", TensorMap(), {}).ok());
  EXPECT_TRUE(open_file(folder / "g").names().empty());
}

TEST(Safetensors, TheWriterRefusesWhatItsReaderWould) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  const std::vector<std::byte> bytes(4);
  EXPECT_EQ(write_safetensors(fs, folder / "f", {{"x", {DType::f32, {2}, bytes}}}).code(), ErrorCode::kShape);
  for (const Shape& shape : {Shape{int64_t{1} << 62, 4}, Shape{-1, -1}, Shape{-1, 0}})  // of 0, 4, 0 bytes
    EXPECT_EQ(write_safetensors(fs, folder / "f",
                                {{"x", {DType::f32, shape, std::span(bytes).first(shape[1] == -1 ? 4 : 0)}}})
                  .code(),
              ErrorCode::kShape)
        << to_string(shape);
  EXPECT_EQ(write_safetensors(fs, folder / "f", {{"\xff", {DType::f32, {1}, bytes}}}).code(),
            ErrorCode::kInvalidData);
  EXPECT_EQ(write_safetensors(fs, folder / "f", {{"__metadata__", {DType::f32, {1}, bytes}}}).code(),
            ErrorCode::kInvalidData);
  EXPECT_EQ(write_safetensors(fs, folder / "f", TensorMap(), {{"k", "\xff"}}).code(),
            ErrorCode::kInvalidData);
  EXPECT_TRUE(fs.list(folder.path()).value().empty());
}

TEST(Safetensors, OfASourceAPartIsAskedForAtATime) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  constexpr int kMany = 700001;  // 2.7 MiB
  const std::vector<float> values = counting(kMany);
  size_t next = 0, largest = 0;
  TensorSource source = source_of({DType::f32, {kMany}, std::as_bytes(std::span(values))});
  const TensorSource whole = source;
  source.read = [&](size_t begin, std::span<std::byte> out) {
    EXPECT_EQ(begin, next);
    next = begin + out.size();
    largest = std::max(largest, out.size());
    return whole.read(begin, out);
  };
  ASSERT_TRUE(write_safetensors(fs, folder / "f", {{"empty", {DType::f32, {0}}}, {"x", source}}).ok());
  EXPECT_EQ(floats(open_file(folder / "f").find("x")), values);
  EXPECT_EQ(next, values.size() * sizeof(float));
  EXPECT_LE(largest, size_t{1} << 20);
  source.read = [](size_t begin, std::span<std::byte>) {
    return begin == 0 ? Status() : Status(ErrorCode::kInternal, "gone");
  };
  const std::string before = fs.read(folder / "f").value();
  EXPECT_EQ(write_safetensors(fs, folder / "f", {{"x", source}}).code(), ErrorCode::kInternal);
  EXPECT_EQ(fs.read(folder / "f").value(), before);
  EXPECT_EQ(fs.list(folder.path()).value().size(), 1u);
}

TEST(Safetensors, AFullDiskKeepsTheOldFile) {
  const TestFolder folder;
  ASSERT_TRUE(real_file_system().write_atomic(folder / "f", "old").ok());
  const std::vector<std::byte> bytes(4096);
  FaultyFileSystem fs(real_file_system(), {.disk_bytes = 1000});
  EXPECT_EQ(write_safetensors(fs, folder / "f", {{"x", {DType::u8, {4096}, bytes}}}).code(), ErrorCode::kIo);
  EXPECT_EQ(real_file_system().read(folder / "f").value(), "old");
  EXPECT_EQ(real_file_system().list(folder.path()).value().size(), 1u);
}

// Malformed files.

std::string with_header(const std::string& header, const std::string& data = "") {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
         offsets + "]}";
}

std::string error(const std::string& content, ErrorCode code = ErrorCode::kInvalidData) {
  // Of exactly its size, so that reading beyond is seen by the sanitizer.
  const auto bytes = as_bytes(content);
  const auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return error_of([&] { SafetensorsFile::parse({*owner, owner}, "f.safetensors"); }, code);
}

void expect_error(const std::string& content, const std::string& part,
                  ErrorCode code = ErrorCode::kInvalidData) {
  const std::string message = error(content, code);
  EXPECT_TRUE(message.starts_with("f.safetensors")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(SafetensorsMalformed, EveryTruncationIsAnError) {
  const std::string whole = real_file_system().read(testdata("types.safetensors")).value();
  EXPECT_EQ(error(whole), "");
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(error(whole.substr(0, n)), "") << n;
}

TEST(SafetensorsMalformed, ALyingHeaderLengthIsAnError) {
  std::string file = with_header("{}");
  file[0] = 3;
  expect_error(file, "claims 3 bytes, found 2");
  expect_error(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10), "expected at most 33554432");
  expect_error(std::string(8, '\xff'), "expected at most 33554432");
  expect_error("version https://git-lfs.github.com/spec/v1\noid sha256:", "git lfs pull");
  expect_error("", "found 0 bytes");
}

TEST(SafetensorsMalformed, AMillionTensorsAreRefusedBeforeTheyAreParsed) {
  const auto header_of = [](int count) {
    std::string header = "{";
    for (int i = 0; i < count; ++i)
      header += (i > 0 ? "," : "") + tensor(std::to_string(i), "U8", "0", "0,0");
    return with_header(header + "}");
  };
  EXPECT_EQ(error(header_of(2000)), "");
  expect_error(header_of(200'001), "declares more than 200000 tensors");
  std::string lists = "{\"a\":[";
  for (int i = 0; i < 500'000; ++i) lists += "[],";
  expect_error(with_header(lists + "0]}"), "declares more than 200000 tensors");
  std::string numbers = "{\"a\":[", metadata = "{\"__metadata__\":{\"a\":\"\"";
  for (int i = 0; i < 4'000'000; ++i) numbers += "0,";
  for (int i = 0; i < 700'000; ++i) metadata += ",\"" + std::to_string(i) + "\":\"\"";
  expect_error(with_header(numbers + "0]}"), "or as much other data");
  expect_error(with_header(metadata + "}}"), "or as much other data");
}

TEST(SafetensorsMalformed, HeadersThatAreNotTheRightJsonAreErrors) {
  expect_error(with_header(""), "found zero bytes");
  expect_error(with_header("", "data"), "header begins with nothing");
  expect_error(with_header("[]"), "begins with the byte 0x5b, expected '{'");
  expect_error(with_header("\xEF\xBB\xBF{}"), "begins with a byte-order mark, expected '{'");
  expect_error(with_header(" {}"), "begins with the byte 0x20");
  expect_error(with_header(std::string("\0{}", 3)), "begins with the byte 0x00");
  expect_error(with_header(std::string("{}\0\0", 4)), "header:1:3: found a zero byte");
  expect_error(with_header(std::string("{\0}", 3)), "header:1:2: found a zero byte");
  expect_error("<!DOCTYPE html><title>Sign in", "a web page");
  expect_error("PK\x03\x04 and what torch.save wrote", "a zip archive");
  expect_error(std::string(1000, '\0'), "found zero bytes");
  expect_error(with_header("{\"a\":1}"), "tensor \"a\"");
  expect_error(with_header("{\"a\":{}}"), "\"dtype\" is missing");
  expect_error(with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}"), "\"data_offsets\" is missing");
  expect_error(with_header("{\xff:1}"), "header:1:2");
  expect_error(with_header("{\"__metadata__\":{\"a\":1}}"), "__metadata__");
  expect_error(with_header("{\"__metadata__\":[]}"), "expected an object of strings");
  expect_error(with_header(std::string(100000, '{')), "nested deeper than 200");
  const std::string one = tensor("a", "U8", "1", "0,1");
  expect_error(with_header("{" + one + "," + one + "}", "x"), "twice in one object");
}

TEST(SafetensorsMalformed, ShapesAndOffsetsMustFit) {
  EXPECT_EQ(error(with_header("{" + tensor("a", "F32", "1", "0,4") + "}", "1234")), "");
  expect_error(with_header("{" + tensor("a", "F32", "2", "0,4") + "}", "1234"),
               "found 4 bytes at [0, 4), expected 8");
  expect_error(with_header("{" + tensor("a", "F32", "-1", "0,4") + "}", "1234"), "\"shape\"");
  expect_error(with_header("{" + tensor("a", "F32", "1.0", "0,4") + "}", "1234"), "\"shape\"");
  expect_error(with_header("{" + tensor("a", "F32", "1", "4,0") + "}", "1234"), "\"data_offsets\"");
  expect_error(with_header("{" + tensor("a", "F32", "1", "0,4,8") + "}", "1234"), "\"data_offsets\"");
  expect_error(with_header("{" + tensor("a", "F4", "3", "0,1") + "}", "1"), "expected");
  expect_error(with_header("{" + tensor("a", "I4", "2", "0,1") + "}", "1"), "unknown dtype \"I4\"",
               ErrorCode::kUnsupported);
}

TEST(SafetensorsMalformed, OverflowingProductsAreErrors) {
  expect_error(with_header("{" + tensor("a", "F32", "4294967296,4294967296", "0,0") + "}"),
               "larger than any memory");
  expect_error(with_header("{" + tensor("a", "F32", "4611686018427387904,4", "0,0") + "}"),
               "larger than any memory");
  expect_error(with_header("{" + tensor("a", "U8", "18446744073709551615", "0,0") + "}"),
               "larger than any memory");
  expect_error(with_header("{" + tensor("a", "U8", "1", "18446744073709551615,18446744073709551616") + "}"),
               "expected");
}

TEST(SafetensorsMalformed, TheTensorsCoverTheDataExactly) {
  const std::string a = tensor("a", "U8", "2", "0,2");
  EXPECT_EQ(error(with_header("{" + tensor("b", "U8", "2", "2,4") + "," + a + "}", "1234")), "");
  expect_error(with_header("{" + a + "," + tensor("b", "U8", "2", "1,3") + "}", "123"), "overlaps");
  expect_error(with_header("{" + a + "," + tensor("b", "U8", "2", "3,5") + "}", "12345"), "leaves a hole");
  expect_error(with_header("{" + tensor("b", "U8", "2", "1,3") + "}", "123"), "expected 0");
  expect_error(with_header("{" + a + "}", "123"), "found 3 bytes of tensor data, expected 2");
  expect_error(with_header("{" + a + "}", "1"), "cut short");
}

TEST(Safetensors, ReadsARealModel) {
  const std::string path = test_model_folder("all-MiniLM-L6-v2") + "/model.safetensors";
  if (!real_file_system().exists(path)) GTEST_SKIP() << "needs all-MiniLM-L6-v2 (tools/fetch_test_model.sh)";
  const SafetensorsFile file = open_file(path);
  EXPECT_EQ(file.names().size(), 104u);
  int64_t floats_in_all = 0;
  for (const std::string& name : file.names()) {
    const TensorView* tensor_view = file.find(name);
    EXPECT_EQ(find_non_finite(*tensor_view), std::nullopt) << name;
    if (tensor_view->dtype == DType::f32) floats_in_all += elements(tensor_view->shape);
  }
  EXPECT_EQ(floats_in_all, 22713216);  // 22,713,728 elements, 512 of them the I64 position_ids
  EXPECT_EQ(file.find("embeddings.word_embeddings.weight")->shape, (Shape{30522, 384}));
  const TestFolder folder;
  ASSERT_TRUE(write_safetensors(real_file_system(), folder / "copy", all_tensors(file)).ok());
  const MappedFile copy = real_file_system().map(folder / "copy").value();
  const MappedFile original = real_file_system().map(path).value();
  EXPECT_TRUE(copy.text() == original.text());
}

}  // namespace
}  // namespace lathe
