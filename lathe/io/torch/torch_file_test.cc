#include "lathe/io/torch/torch_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "lathe/core/test_folder.h"
#include "lathe/io/testdata.h"
#include "lathe/io/torch/zip_archive.h"

namespace lathe {
namespace {

TorchFile open_testdata(std::string_view name) { return TorchFile::open(real_file_system(), testdata(name)); }

std::vector<float> floats_of(const TensorView& tensor) {
  std::vector<float> out(static_cast<size_t>(elements(tensor.shape)));
  to_f32(tensor, out.data());
  return out;
}

std::string error_opening(std::string_view name, ErrorCode code) {
  return error_of([&] { StateDict::open(real_file_system(), testdata(name)); }, code);
}

MappedFile in_memory(const std::string& content) {
  const auto bytes = as_bytes(content);
  const auto owner = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {*owner, owner};
}

TEST(StateDict, ReadsAModulesStateDict) {
  const StateDict file = StateDict::open(real_file_system(), testdata("module.bin"));
  const TensorMap& tensors = file.tensors();
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors.at("0.weight").shape, (Shape{2, 3}));
  EXPECT_EQ(floats_of(tensors.at("0.weight")), (std::vector<float>{-1, -.75, -.5, -.25, 0, .25}));
  EXPECT_EQ(floats_of(tensors.at("1.bias")), (std::vector<float>{-1, -.75}));
}

TEST(StateDict, ViewsStridesAndTypesComeOutDense) {
  const StateDict file = StateDict::open(real_file_system(), testdata("views.bin"));
  const TensorMap& tensors = file.tensors();
  EXPECT_EQ(tensors.size(), 13u);
  // ramp(12) as [3, 4]: row r, column c holds (4 r + c) / 4 - 1.
  EXPECT_EQ(tensors.at("transposed").shape, (Shape{4, 3}));
  EXPECT_EQ(floats_of(tensors.at("transposed")),
            (std::vector<float>{-1, 0, 1, -.75, .25, 1.25, -.5, .5, 1.5, -.25, .75, 1.75}));
  EXPECT_EQ(floats_of(tensors.at("column")), (std::vector<float>{-.75, .25, 1.25}));
  EXPECT_EQ(floats_of(tensors.at("rows")), (std::vector<float>{0, .25, .5, .75, 1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(floats_of(tensors.at("parameter")), (std::vector<float>{-1, -.75}));
  EXPECT_EQ(tensors.at("f16").dtype, DType::f16);
  for (const char* name : {"f16", "bf16", "f64"})
    EXPECT_EQ(floats_of(tensors.at(name)), (std::vector<float>{-1, -.75, -.5})) << name;
  for (const char* name : {"i64", "i32", "u8"})
    EXPECT_EQ(floats_of(tensors.at(name)), (std::vector<float>{0, 1, 2})) << name;
  EXPECT_EQ(floats_of(tensors.at("bool")), (std::vector<float>{1, 0}));
  EXPECT_EQ(tensors.at("scalar").shape, Shape());
  EXPECT_EQ(floats_of(tensors.at("scalar")), std::vector<float>{2.5f});
  EXPECT_EQ(tensors.at("empty").shape, (Shape{0, 3}));
}

/// What is not wanted soon comes again from the file; what was not contiguous is no part of it.
TEST(StateDict, ReleasedTensorsAreReadAgain) {
  const StateDict file = StateDict::open(real_file_system(), testdata("views.bin"));
  std::map<std::string, std::vector<float>> before;
  for (const auto& [name, tensor] : file.tensors()) before[name] = floats_of(tensor);
  for (const auto& [name, tensor] : file.tensors()) file.release(tensor);
  for (const auto& [name, tensor] : file.tensors()) EXPECT_EQ(floats_of(tensor), before[name]) << name;
}

TEST(TorchFile, ReadsAnOptimizersState) {
  const TorchFile file = open_testdata("optimizer.pt");
  const auto* root = file.root().as<PickleValue::Dict>();
  ASSERT_NE(root, nullptr);
  const auto* state = root->find("state")->as<PickleValue::Dict>();
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->items.size(), 4u);
  const auto* first = state->find(0)->as<PickleValue::Dict>();
  EXPECT_EQ(floats_of(*first->find("step")->as<TensorView>()), std::vector<float>{1});
  EXPECT_EQ(first->find("exp_avg")->as<TensorView>()->shape, (Shape{2, 3}));
  const auto* groups = root->find("param_groups")->as<PickleValue::List>();
  const auto* group = groups->items.at(0)->as<PickleValue::Dict>();
  EXPECT_EQ(*group->find("lr")->as<double>(), 0.5);
  EXPECT_EQ(*group->find("betas")->as<PickleValue::Tuple>()->items.at(1)->as<double>(), 0.999);
  EXPECT_EQ(*group->find("amsgrad")->as<bool>(), false);
  EXPECT_TRUE(group->find("foreach")->is_none());
  EXPECT_EQ(group->find("params")->as<PickleValue::List>()->items.size(), 4u);
}

TEST(TorchFile, ReadsEveryKindOfValue) {
  const TorchFile file = open_testdata("values.pt");
  const auto* root = file.root().as<PickleValue::Dict>();
  ASSERT_NE(root, nullptr);
  EXPECT_TRUE(root->find("none")->is_none());
  EXPECT_EQ(*root->find("true")->as<bool>(), true);
  std::vector<int64_t> numbers;
  for (const PickleValue* item : root->find("numbers")->as<PickleValue::List>()->items)
    numbers.push_back(*item->as<int64_t>());
  EXPECT_EQ(numbers, (std::vector<int64_t>{-1, 255, 256, 70000, -(int64_t{1} << 40), int64_t{1} << 62}));
  EXPECT_EQ(*root->find("real")->as<double>(), 0.1);
  EXPECT_EQ(*root->find("size")->as<PickleValue::Tuple>()->items.at(1)->as<int64_t>(), 3);
  EXPECT_EQ(*root->find("pair")->as<PickleValue::Tuple>()->items.at(1)->as<std::string>(), "two");
  EXPECT_EQ(root->find("dtype")->as<PickleValue::Name>()->name, "torch.bfloat16");
  EXPECT_EQ(*root->find(7)->as<std::string>(), "integer key");
  EXPECT_EQ(root->find("gone"), nullptr);
}

TEST(TorchFile, AnotherFileInItsPlaceIsNamed) {
  const TestFolder folder;
  for (const auto& [content, part] :
       {std::pair<std::string, const char*>{"<!DOCTYPE html><title>Sign in", "a web page"},
        {"", "an empty file"},
        {"\x1f\x8b\x08", "gzip data"},
        {"PK\x03\x04 cut", "pytorch_model.bin"},
        {"weights", "expected a zip archive"}}) {
    const std::string path = folder / "pytorch_model.bin";
    ASSERT_TRUE(real_file_system().write_atomic(path, content).ok());
    const std::string message =
        error_of([&] { StateDict::open(real_file_system(), path); }, ErrorCode::kInvalidData);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(TorchFile, WhatItDoesNotReadIsNamed) {
  const auto expect = [](std::string_view name, const char* part, ErrorCode code = ErrorCode::kUnsupported) {
    const std::string message = error_opening(name, code);
    EXPECT_NE(message.find(part), std::string::npos) << name << ": " << message;
    EXPECT_NE(message.find(std::string(name) + ":"), std::string::npos) << message;
  };
  expect("object.bin", "argparse.Namespace");
  expect("before_zip.bin", "from before torch 1.6");
  expect("protocol4.bin", "pickle protocol 4");
  expect("compressed.bin", "compressed");
  expect("script.bin", "TorchScript");
  expect("expanded.bin", "t.clone()");
  expect("not_only_tensors.bin", "\"epoch\": found a int, expected a tensor", ErrorCode::kInvalidData);
  expect("types.safetensors", "not a file of torch.save", ErrorCode::kInvalidData);
}

TEST(TorchFile, EveryTruncationIsAnError) {
  const std::string whole = real_file_system().read(testdata("module.bin")).value();
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_NE(
        error_of([&] { TorchFile::parse(in_memory(whole.substr(0, n)), "f.bin"); }, ErrorCode::kInvalidData),
        "")
        << n;
}

TEST(TorchFile, AFlippedBitInAnyRecordIsFoundByItsCrc) {
  const std::string whole = real_file_system().read(testdata("module.bin")).value();
  const ZipArchive archive(as_bytes(whole), "f.bin");
  int flipped = 0;
  for (const auto& [name, entry] : archive.entries()) {
    const bool used =
        name.ends_with("data.pkl") || name.ends_with("byteorder") || name.find("/data/") != name.npos;
    if (!used) continue;
    std::string bad = whole;
    bad[static_cast<size_t>(reinterpret_cast<const char*>(archive.read(name).data()) - whole.data())] ^= 4;
    const std::string message =
        error_of([&] { TorchFile::parse(in_memory(bad), "f.bin"); }, ErrorCode::kInvalidData);
    EXPECT_NE(message.find("CRC"), std::string::npos) << name << ": " << message;
    ++flipped;
  }
  EXPECT_EQ(flipped, 6);
}

// Pickles made by hand.

const std::vector<std::byte> kFour(16);  // a storage of four floats_of

std::string pickle_error(const std::string& body, ErrorCode code = ErrorCode::kInvalidData) {
  const std::string pickle = "\x80\x02" + body + ".";
  return error_of(
      [&] { unpickle(as_bytes(pickle), "f.bin", [](const std::string&) { return std::span(kFour); }); },
      code);
}

std::string n4(int32_t value) { return "J" + std::string(reinterpret_cast<const char*>(&value), 4); }
std::string n8(int64_t value) { return "\x8a\x08" + std::string(reinterpret_cast<const char*>(&value), 8); }
std::string text(const std::string& value) {
  return "U" + std::string(1, static_cast<char>(value.size())) + value;
}

std::string storage(int32_t count) {
  return "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + n4(count) + "tQ";
}

std::string tensor(const std::string& offset, const std::string& size, const std::string& stride,
                   int32_t count = 4) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage(count) + offset + "(" + size + "t(" + stride +
         "ttR";
}

TEST(Pickle, TensorsMustLieInTheirStorage) {
  EXPECT_EQ(pickle_error(tensor(n4(0), n4(4), n4(1))), "");
  EXPECT_EQ(pickle_error(tensor(n4(1), n4(3), n4(1))), "");
  EXPECT_EQ(pickle_error(tensor(n4(3), n4(1), n8(INT64_MAX))), "");
  EXPECT_EQ(pickle_error(tensor(n4(0), n4(0) + n4(5), n4(9) + n4(9))), "");
  EXPECT_NE(pickle_error(tensor(n4(1), n4(4), n4(1))).find("reaches beyond its storage of 4"),
            std::string::npos);
  EXPECT_NE(pickle_error(tensor(n4(0), n4(2), n4(4))), "");
  EXPECT_NE(pickle_error(tensor(n4(0), n4(2), n8(INT64_MAX))), "");
  EXPECT_NE(pickle_error(tensor(n8(INT64_MAX), n4(2), n4(1))), "");
  EXPECT_NE(pickle_error(tensor(n4(0), n8(INT64_MAX) + n8(INT64_MAX), n4(0) + n4(0))), "");
  EXPECT_NE(pickle_error(tensor(n4(-1), n4(1), n4(1))), "");
  EXPECT_NE(pickle_error(tensor(n4(0), n4(-1), n4(1))), "");
  EXPECT_NE(pickle_error(tensor(n4(0), n4(1), n4(-1))), "");
  EXPECT_NE(pickle_error(tensor(n4(0), n4(1), "")), "");
  EXPECT_NE(pickle_error(tensor(n4(0), n4(1), n4(1), 5)).find("expected 5 elements"), std::string::npos);
}

TEST(Pickle, RepeatedCopiesOfOneStorageAreBounded) {
  const std::string transposed = tensor(n4(0), n4(2) + n4(2), n4(1) + n4(2));
  const auto copies = [&transposed](int n) {
    std::string body = "](";
    for (int i = 0; i < n; ++i) body += transposed;
    return body + "e";
  };
  EXPECT_EQ(pickle_error(copies(8)), "");
  EXPECT_NE(pickle_error(copies(9), ErrorCode::kUnsupported).find("t.clone()"), std::string::npos);
}

TEST(Pickle, GlobalsBeyondTheListAreRefusedByName) {
  for (const char* name :
       {"os\nsystem", "builtins\neval", "torch\nload", "posix\nsystem", "torch.storage\n_load_from_bytes",
        "collections\nCounter", "torch._utils\n_rebuild_tensor"}) {
    std::string wanted = name;
    wanted.replace(wanted.find('\n'), 1, ".");
    EXPECT_NE(pickle_error(std::string("c") + name + "\n", ErrorCode::kUnsupported).find(wanted),
              std::string::npos);
  }
}

TEST(Pickle, StackAndMemoFaultsAreErrors) {
  for (const char* body : {"",  "0",  "t", "(",   "a", "]a",  "}a",   "}(Nu",   "N(Nu", "h\x05", "q",
                           "Q", "NQ", "R", "NNR", "b", "NNb", "\x85", "NN\x87", "]((e", "(Na",   "(q\x01"})
    EXPECT_NE(pickle_error(body), "") << body;
  EXPECT_NE(pickle_error("\x93", ErrorCode::kUnsupported).find("0x93"), std::string::npos);
  EXPECT_NE(pickle_error("\x8a\x09"
                         "123456789",
                         ErrorCode::kUnsupported),
            "");
}

TEST(Pickle, ValuesThatContainThemselvesAndBombsAreErrors) {
  EXPECT_NE(pickle_error("]q\x01h\x01"
                         "a")
                .find("contain themselves"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 50000; ++i) deep += "]";
  deep += std::string(49999, 'a');
  EXPECT_NE(pickle_error(deep).find("nested deeper"), std::string::npos);
  std::string bomb = "]q";
  bomb += '\0';
  for (int level = 1; level < 40; ++level) {  // every list holds the one before ten times
    bomb += "](";
    for (int i = 0; i < 10; ++i) bomb += std::string("h") + static_cast<char>(level - 1);
    bomb += std::string("eq") + static_cast<char>(level);
  }
  EXPECT_NE(pickle_error(bomb).find("references counted"), std::string::npos);
}

TEST(Pickle, ATextThatIsReferredToOftenIsABombToo) {
  const auto referred_to = [](int times, size_t bytes) {
    std::string body =
        "](X" + std::string(reinterpret_cast<const char*>(&bytes), 4) + std::string(bytes, 'x');
    body += std::string("q\0", 2);
    for (int i = 0; i < times; ++i) body += std::string("h\0", 2);
    return body + "e";
  };
  EXPECT_EQ(pickle_error(referred_to(60, size_t{1} << 20)), "");
  EXPECT_NE(pickle_error(referred_to(70, size_t{1} << 20)).find("67108864 bytes of text"), std::string::npos);
}

TEST(Pickle, NamesMarksAndMemoAreBounded) {
  // Every object has a copy of its class's name.
  std::string body = "](c" + std::string(1 << 20, 'm') + "\nC\nq" + std::string(1, '\0') + "0";
  for (int i = 0; i < 300; ++i) body += std::string("h\0)\x81", 4);
  const std::string objects = error_of(
      [&] {
        unpickle(
            as_bytes("\x80\x02" + body + "e."), "f.bin", [](const std::string&) { return std::span(kFour); },
            true);
      },
      ErrorCode::kInvalidData);
  EXPECT_NE(objects.find("hold more than 268435456 bytes"), std::string::npos) << objects;
  EXPECT_NE(pickle_error(std::string(2000, '(')).find("more than 1000 marks"), std::string::npos);
  std::string memo = "N";
  for (uint32_t i = 0; i <= 2'000'000; ++i) memo += "r" + std::string(reinterpret_cast<const char*>(&i), 4);
  EXPECT_NE(pickle_error(memo).find("values in the memo"), std::string::npos);
  EXPECT_NE(pickle_error(std::string(size_t{33} << 20, 'N')).find("tensors lie outside of it"),
            std::string::npos);
}

// Zip archives made by hand.

std::string le(uint64_t value, size_t bytes) {
  std::string out(reinterpret_cast<const char*>(&value), sizeof(value));
  out.resize(bytes, '\0');
  return out;
}

/// One stored entry "a/data.pkl"; `zip64` writes its numbers in the long form.
std::string zip_of(const std::string& data, bool zip64) {
  const std::string name = "a/data.pkl";
  const uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  const uint64_t elsewhere = 0xffffffff;
  std::string out = "PK\3\4" + le(45, 2) + le(0, 8) + le(crc, 4) + le(data.size(), 4) + le(data.size(), 4) +
                    le(name.size(), 2) + le(0, 2) + name + data;
  const uint64_t directory = out.size();
  const std::string extra =
      zip64 ? le(1, 2) + le(24, 2) + le(data.size(), 8) + le(data.size(), 8) + le(0, 8) : "";
  const uint64_t size = zip64 ? elsewhere : data.size();
  out += "PK\1\2" + le(45, 2) + le(45, 2) + le(0, 8) + le(crc, 4) + le(size, 4) + le(size, 4) +
         le(name.size(), 2) + le(extra.size(), 2) + le(0, 10) + le(zip64 ? elsewhere : 0, 4) + name + extra;
  const uint64_t directory_bytes = out.size() - directory;
  if (zip64) {
    const uint64_t end64 = out.size();
    out += "PK\6\6" + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 8) + le(1, 8) + le(1, 8) +
           le(directory_bytes, 8) + le(directory, 8);
    out += "PK\6\7" + le(0, 4) + le(end64, 8) + le(1, 4);
  }
  return out + "PK\5\6" + le(0, 4) + le(1, 2) + le(1, 2) + le(zip64 ? elsewhere : directory_bytes, 4) +
         le(zip64 ? elsewhere : directory, 4) + le(0, 2);
}

TEST(ZipArchive, ReadsBothFormsAndACommentBehind) {
  for (const bool zip64 : {false, true}) {
    std::string file = zip_of("content", zip64);
    file[file.size() - 2] = 3;
    file += "hi!";
    const ZipArchive archive(as_bytes(file), "f.zip");
    const auto data = archive.read("a/data.pkl");
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(data.data()), data.size()), "content");
    EXPECT_NE(error_of([&] { (void)archive.read("b"); }, ErrorCode::kInvalidData), "");
  }
}

TEST(ZipArchive, EntriesThatAreTheSameBytesAreRefused) {
  const std::string data(1000, 'x');
  std::string file = "PK\3\4" + le(45, 2) + le(0, 8) + le(0, 4) + le(1000, 4) + le(1000, 4) + le(1, 2) +
                     le(0, 2) + "a" + data;
  const uint64_t directory = file.size();
  for (char name = 'a'; name <= 'c'; ++name)
    file += "PK\1\2" + le(45, 2) + le(45, 2) + le(0, 8) + le(0, 4) + le(1000, 4) + le(1000, 4) + le(1, 2) +
            le(0, 12) + le(0, 4) + name;
  file += "PK\5\6" + le(0, 4) + le(3, 2) + le(3, 2) + le(file.size() - directory, 4) + le(directory, 4) +
          le(0, 2);
  EXPECT_NE(error_of([&] { ZipArchive(as_bytes(file), "f.zip"); }, ErrorCode::kInvalidData)
                .find("lie over each other"),
            std::string::npos);
}

TEST(ZipArchive, NoByteCanBeChangedIntoACrash) {
  for (const bool zip64 : {false, true}) {
    const std::string good = zip_of("\x80\x02}.", zip64);
    EXPECT_NO_THROW(TorchFile::parse(in_memory(good), "f.zip"));
    int errors = 0;
    for (size_t i = 0; i < good.size(); ++i)
      for (const int value : {0, 1, 0x7f, 0xff}) {
        std::string bad = good;
        bad[i] = static_cast<char>(value);
        try {
          TorchFile::parse(in_memory(bad), "f.zip");
        } catch (const Error&) {
          ++errors;
        }
      }
    EXPECT_GT(errors, 100);
  }
}

}  // namespace
}  // namespace lathe
