#include "lathe/io/torch/pickle_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "lathe/core/test_folder.h"
#include "lathe/io/testdata.h"
#include "lathe/io/torch/torch_file.h"
#include "lathe/io/torch/zip_archive.h"

namespace lathe {
namespace {

/// All that a value holds, tensors with their bytes.
std::string described(const PickleValue& value) {
  std::string out = std::string(value.kind()) + "(";
  if (const auto* flag = value.as<bool>()) out += *flag ? "true" : "false";
  if (const auto* number = value.as<int64_t>()) out += std::to_string(*number);
  if (const auto* real = value.as<double>()) out += std::to_string(std::bit_cast<uint64_t>(*real));
  if (const auto* text = value.as<std::string>()) out += *text;
  if (const auto* name = value.as<PickleValue::Name>()) out += name->name;
  if (const auto* list = value.as<PickleValue::List>())
    for (const PickleValue* item : list->items) out += described(*item);
  if (const auto* tuple = value.as<PickleValue::Tuple>())
    for (const PickleValue* item : tuple->items) out += described(*item);
  if (const auto* dict = value.as<PickleValue::Dict>())
    for (const auto& [key, item] : dict->items) out += described(*key) + described(*item);
  if (const auto* tensor = value.as<TensorView>()) {
    out += std::string(name_of(tensor->dtype)) + to_string(tensor->shape);
    for (const std::byte b : tensor->bytes) out += " " + std::to_string(static_cast<int>(b));
  }
  return out + ")";
}

TEST(PickleWriter, WhatTorchSavedIsReadAgainAsItWas) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  for (const char* name : {"optimizer.pt", "values.pt", "module.bin"}) {
    const TorchFile there = TorchFile::open(fs, testdata(name));
    write_torch_file(fs, folder / name, there.root()).check();
    EXPECT_EQ(described(TorchFile::open(fs, folder / name).root()), described(there.root())) << name;
  }
}

TEST(PickleWriter, RecordsLieWhereTorchPutsThem) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  write_torch_file(fs, folder / "optimizer.pt", TorchFile::open(fs, testdata("optimizer.pt")).root()).check();
  const std::string mine = fs.read(folder / "optimizer.pt").value();
  const std::string theirs = fs.read(testdata("optimizer.pt")).value();
  const ZipArchive written(as_bytes(mine), "mine"), wanted(as_bytes(theirs), "theirs");
  size_t alike = 0;
  for (const auto& [name, entry] : written.entries()) {
    const auto data = written.read(name);
    EXPECT_EQ((data.data() - as_bytes(mine).data()) % 64, 0) << name;
    if (name.ends_with("data.pkl")) continue;  // torch names repeated values by memo
    const auto other = wanted.read(name);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), other.begin(), other.end())) << name;
    ++alike;
  }
  EXPECT_EQ(alike, wanted.entries().size() - 2);  // but .data/serialization_id, a hash that nothing reads
}

TEST(PickleWriter, NumbersAtTheEdgesOfTheirOperations) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  PickleBuilder make;
  std::vector<PickleBuilder::Ref> items;
  for (const int64_t n :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{-1}, int64_t{INT32_MAX}, int64_t{INT32_MIN},
        int64_t{INT32_MAX} + 1, int64_t{INT32_MIN} - 1, INT64_MAX, INT64_MIN})
    items.push_back(make.number(n));
  for (const double x : {0.0, -0.0, 5e-324, 1e300}) items.push_back(make.real(x));
  const auto root = make.dict(
      {{"empty", make.tuple({})}, {"more", make.list({make.list(items), make.dict({{7, make.none()}})})}});
  write_torch_file(fs, folder / "f.pt", *root).check();
  EXPECT_EQ(described(TorchFile::open(fs, folder / "f.pt").root()), described(*root));
}

/// The reader checks the CRC, which is of several parts here.
TEST(PickleWriter, ASourceIsWrittenAsItsBytesAre) {
  const TestFolder folder;
  FileSystem& fs = real_file_system();
  std::vector<int32_t> values(700001);  // 2.7 MiB
  std::iota(values.begin(), values.end(), 5);
  const TensorView view{DType::i32, {std::ssize(values)}, std::as_bytes(std::span(values))};
  PickleBuilder make;
  write_torch_file(fs, folder / "a/f.pt", *make.list({make.tensor(view)})).check();
  write_torch_file(fs, folder / "b/f.pt", *make.list({make.tensor(source_of(view))})).check();
  EXPECT_EQ(fs.read(folder / "b/f.pt").value(), fs.read(folder / "a/f.pt").value());
  const TorchFile file = TorchFile::open(fs, folder / "b/f.pt");
  const auto* read = file.root().as<PickleValue::List>()->items.at(0)->as<TensorView>();
  ASSERT_NE(read, nullptr);
  EXPECT_TRUE(std::ranges::equal(read->bytes, view.bytes));
  TensorSource broken = source_of(view);
  broken.read = [](size_t, std::span<std::byte>) { return Status(ErrorCode::kInternal, "gone"); };
  EXPECT_EQ(write_torch_file(fs, folder / "c/f.pt", *make.tensor(broken)).code(), ErrorCode::kInternal);
  EXPECT_FALSE(fs.exists(folder / "c/f.pt"));
}

TEST(PickleWriter, ObjectsReadBackOnlyWhereTheyAreAskedFor) {
  PickleBuilder b;
  const auto kind = b.object("some.module.Kind", b.tuple({b.text("linear")}));
  const auto whole =
      b.object("some.module.Settings", b.tuple({}), b.dict({{"rate", b.real(0.5)}, {"kind", kind}}));
  std::vector<TensorSource> storages;
  const std::string bytes = pickle(*whole, storages);
  const StorageReader none = [](const std::string&) { return std::span<const std::byte>(); };
  const PickleTree tree = unpickle(as_bytes(bytes), "file", none, true);
  const auto* object = tree.root->as<PickleValue::Object>();
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object->type, "some.module.Settings");
  const auto* state = object->state->as<PickleValue::Dict>();
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(*state->find("rate")->as<double>(), 0.5);
  const auto* inner = state->find("kind")->as<PickleValue::Object>();
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->state, nullptr);
  EXPECT_EQ(*inner->arguments->as<PickleValue::Tuple>()->items.at(0)->as<std::string>(), "linear");
  EXPECT_EQ(tree.root->kind(), std::string("object"));
  try {
    unpickle(as_bytes(bytes), "file", none);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("some.module.Settings"), std::string::npos) << e.what();
  }
}

TEST(PickleWriter, AnObjectThatHoldsItselfIsRefused) {
  // c a\nb \n ) \x81 q\0 h\0 b . : its state is itself
  const std::string bytes(
      "\x80\x02"
      "ca\nb\n)\x81q\x00h\x00"
      "b.",
      15);
  const StorageReader none = [](const std::string&) { return std::span<const std::byte>(); };
  EXPECT_THROW(unpickle(as_bytes(bytes), "file", none, true), Error);
}

}  // namespace
}  // namespace lathe
