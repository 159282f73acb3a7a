#include "lathe/io/model_folder.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/safetensors.h"
#include "lathe/io/testdata.h"

namespace lathe {
namespace {

/// Sets an environment variable for a test's time; null takes it away.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Environment() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

using Folders = std::vector<std::string>;

class FindModels : public testing::Test {
 protected:
  void put(const std::string& model, const std::string& revision = "main",
           const std::string& commit = "abc") {
    const std::string base = folder_ / ("hub/models--" + model);
    real_file_system().write_atomic(base + "/refs/" + revision, commit + "\n").check();
    real_file_system().write_atomic(base + "/snapshots/" + commit + "/config.json", "{}").check();
  }
  std::string snapshot(const std::string& model, const std::string& commit = "abc") {
    return folder_ / ("hub/models--" + model + "/snapshots/" + commit);
  }
  /// Of each form of the name, the name's own first; `looked_at_` says where there was none.
  Folders find(const std::string& name, const std::string& revision = "main",
               const std::string& cache_dir = "") {
    looked_at_.clear();
    return find_models(real_file_system(), name, revision, cache_dir, looked_at_);
  }
  Folders looked_at_;
  TestFolder folder_;
  std::string home_ = folder_.path();
  Environment hub_cache_{"HF_HUB_CACHE", nullptr}, old_hub_cache_{"HUGGINGFACE_HUB_CACHE", nullptr};
  Environment hf_home_{"HF_HOME", home_.c_str()}, xdg_{"XDG_CACHE_HOME", nullptr};
};

TEST_F(FindModels, AFolderIsItself) {
  EXPECT_EQ(find(folder_.path()), Folders{folder_.path()});
  const Environment home("HOME", home_.c_str());
  EXPECT_EQ(find("~/"), Folders{home_ + "/"});
}

TEST_F(FindModels, BothFormsOfANameFindEitherInTheCache) {
  put("google-bert--bert-base-cased");
  EXPECT_EQ(find("google-bert/bert-base-cased"), Folders{snapshot("google-bert--bert-base-cased")});
  EXPECT_EQ(find("bert-base-cased"), Folders{snapshot("google-bert--bert-base-cased")});
  put("bert-base-uncased");
  EXPECT_EQ(find("bert-base-uncased"), Folders{snapshot("bert-base-uncased")});
  EXPECT_EQ(find("google-bert/bert-base-uncased"), Folders{snapshot("bert-base-uncased")});
  put("FacebookAI--roberta-base");
  EXPECT_EQ(find("roberta-base"), Folders{snapshot("FacebookAI--roberta-base")});
  put("plain");
  EXPECT_EQ(find("somebody/plain"), Folders{});  // another's model of that name is another model
}

TEST_F(FindModels, RevisionsAreBranchesTagsOrCommits) {
  put("org--m", "main", "c1");
  put("org--m", "v2", "c2");
  put("org--m", "refs/pr/1", "c3");
  EXPECT_EQ(find("org/m"), Folders{snapshot("org--m", "c1")});
  EXPECT_EQ(find("org/m", "v2"), Folders{snapshot("org--m", "c2")});
  EXPECT_EQ(find("org/m", "c2"), Folders{snapshot("org--m", "c2")});
  EXPECT_EQ(find("org/m", "refs/pr/1"), Folders{snapshot("org--m", "c3")});
  EXPECT_EQ(find("org/m", "v3"), Folders{});
  EXPECT_NE(error_of([&] { find("org/m", "../../x"); }, ErrorCode::kUsage), "");
  ASSERT_TRUE(real_file_system().write_atomic(folder_ / "hub/models--org--m/refs/bad", "../../..").ok());
  EXPECT_NE(error_of([&] { find("org/m", "bad"); }, ErrorCode::kInvalidData), "");
}

TEST_F(FindModels, TheCacheComesFromTheArgumentThenTheEnvironment) {
  put("org--m");
  const std::string hub = folder_ / "hub", none = folder_ / "none";
  {
    const Environment other("HF_HOME", none.c_str());
    EXPECT_EQ(find("org/m"), Folders{});
    EXPECT_EQ(find("org/m", "main", hub), Folders{snapshot("org--m")});
    const Environment old_name("HUGGINGFACE_HUB_CACHE", hub.c_str());
    EXPECT_EQ(find("org/m"), Folders{snapshot("org--m")});
    const Environment name("HF_HUB_CACHE", none.c_str());
    EXPECT_EQ(find("org/m"), Folders{});
  }
  ASSERT_TRUE(real_file_system().create_directories(folder_ / ".cache/huggingface").ok());
  ASSERT_TRUE(real_file_system().rename(hub, folder_ / ".cache/huggingface/hub").ok());
  const Environment no_hf_home("HF_HOME", nullptr), home("HOME", home_.c_str());
  EXPECT_EQ(find("org/m"), Folders{folder_ / ".cache/huggingface/hub/models--org--m/snapshots/abc"});
}

TEST_F(FindModels, VariablesInThePathOfTheCacheAreExpanded) {
  put("org--m");
  const Environment at("LATHE_TEST_FOLDER", home_.c_str());
  {
    const Environment home("HF_HOME", "$LATHE_TEST_FOLDER");
    EXPECT_EQ(find("org/m"), Folders{snapshot("org--m")});
  }
  {
    const Environment cache("HF_HUB_CACHE", "${LATHE_TEST_FOLDER}/hub");
    EXPECT_EQ(find("org/m"), Folders{snapshot("org--m")});
  }
  ASSERT_TRUE(real_file_system().create_directories(folder_ / "huggingface").ok());
  ASSERT_TRUE(real_file_system().rename(folder_ / "hub", folder_ / "huggingface/hub").ok());
  const Environment no_home("HF_HOME", nullptr), xdg("XDG_CACHE_HOME", "$LATHE_TEST_FOLDER");
  EXPECT_EQ(find("org/m"), Folders{folder_ / "huggingface/hub/models--org--m/snapshots/abc"});
}

TEST_F(FindModels, WhereItLookedIsSaid) {
  EXPECT_EQ(find("org/m"), Folders{});
  EXPECT_EQ(looked_at_, (Folders{"org/m", snapshot("org--m", "main")}));
  put("org--m", "v2");
  EXPECT_EQ(find("org/m"), Folders{});
  EXPECT_EQ(looked_at_, (Folders{"org/m", snapshot("org--m", "main") + " (and refs/main)"}));
}

TEST_F(FindModels, WhatCannotBeANameIsTakenForAPath) {
  ASSERT_TRUE(real_file_system().write_atomic(folder_ / "file", "x").ok());
  for (const std::string& name : {std::string("./gone"), std::string("/gone/too"), std::string("a/b/c"),
                                  std::string("../x"), std::string("a b"), std::string(), folder_ / "file"})
    EXPECT_NE(error_of([&] { find(name); }, ErrorCode::kNotFound).find("expected a folder"),
              std::string::npos)
        << name;
}

// Checkpoints.

std::string format_folder(const std::string& name) { return source_path("tests/golden/formats/") + name; }

std::map<std::string, std::vector<float>> all_floats(const Checkpoint& checkpoint) {
  std::map<std::string, std::vector<float>> out;
  for (const std::string& name : checkpoint.names()) {
    const TensorView* tensor = checkpoint.find(name);
    out[name].resize(static_cast<size_t>(elements(tensor->shape)));
    to_f32(*tensor, out[name].data());
  }
  return out;
}

TEST(Checkpoint, EveryFormHoldsTheSameTensors) {
  FileSystem& fs = real_file_system();
  const auto whole = open_checkpoint(fs, format_folder("f32"));
  const auto expected = all_floats(*whole);
  ASSERT_GT(expected.size(), 20u);
  for (const char* form : {"sharded", "bin"})
    EXPECT_TRUE(all_floats(*open_checkpoint(fs, format_folder(form))) == expected) << form;
  const auto f16 = all_floats(*open_checkpoint(fs, format_folder("f16")));
  EXPECT_TRUE(all_floats(*open_checkpoint(fs, format_folder("bin_f16"))) == f16);
  for (const char* form : {"f16", "bf16"}) {
    const double unit = form[0] == 'f' ? 1.0 / 2048 : 1.0 / 256;  // half a unit in the last place, relative
    for (const auto& [name, values] : all_floats(*open_checkpoint(fs, format_folder(form)))) {
      const std::vector<float>& exact = expected.at(name);
      ASSERT_EQ(values.size(), exact.size());
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], exact[i], unit * std::abs(exact[i]) + 6e-8) << form << name;
    }
  }
  EXPECT_EQ(whole->find("gone"), nullptr);
  EXPECT_EQ(whole->file_of("gone"), "");
}

TEST(Checkpoint, AShardedTensorKnowsItsFile) {
  const auto checkpoint = open_checkpoint(real_file_system(), format_folder("sharded"));
  EXPECT_NE(checkpoint->file_of("classifier.bias").find("/model-0000"), std::string::npos);
}

#if defined(__linux__)
/// The file to which this memory is mapped; "" if to none.
std::string mapped_file(const std::byte* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2 && begin <= address &&
        address < end)
      return line.find('/') == line.npos ? "" : line.substr(line.find('/'));
  }
  return "";
}

/// Weights of a large model take no memory in addition to the device's.
TEST(Checkpoint, TensorsLieInTheMappedFile) {
  for (const char* form : {"f32", "sharded", "bin"}) {
    const auto checkpoint = open_checkpoint(real_file_system(), format_folder(form));
    for (const std::string& name : checkpoint->names())
      EXPECT_EQ(mapped_file(checkpoint->find(name)->bytes.data()),
                std::filesystem::canonical(checkpoint->file_of(name)))
          << form << ", " << name;
  }
}
#endif

class BrokenCheckpoint : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    real_file_system().write_atomic(folder_ / name, content).check();
  }
  std::string error(ErrorCode code) {
    return error_of([&] { open_checkpoint(real_file_system(), folder_.path()); }, code);
  }
  TestFolder folder_;
};

TEST_F(BrokenCheckpoint, AnEmptyFolderAndOtherFrameworksAreNotFound) {
  EXPECT_FALSE(has_weights(real_file_system(), folder_.path()));
  EXPECT_NE(error(ErrorCode::kNotFound).find("found none of them"), std::string::npos);
  put("tf_model.h5", "x");
  EXPECT_NE(error(ErrorCode::kNotFound).find("found tf_model.h5, which Lathe does not read"),
            std::string::npos);
  EXPECT_FALSE(has_weights(real_file_system(), folder_.path()));
}

TEST_F(BrokenCheckpoint, AnIndexMustMatchItsShards) {
  const std::vector<std::byte> bytes(4);
  const TensorMap tensors = {{"a", {DType::f32, {1}, bytes}}};
  ASSERT_TRUE(write_safetensors(real_file_system(), folder_ / "s1.safetensors", tensors).ok());
  const std::string index = "model.safetensors.index.json";
  put(index, R"({"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  EXPECT_TRUE(has_weights(real_file_system(), folder_.path()));
  EXPECT_NE(error(ErrorCode::kNotFound).find("s2.safetensors: this shard is missing"), std::string::npos);
  put(index, R"({"weight_map":{"a":"s1.safetensors","b":"s1.safetensors"}})");
  EXPECT_NE(error(ErrorCode::kInvalidData).find("tensor \"b\" is missing"), std::string::npos);
  put(index, R"({"weight_map":{"a":"../s1.safetensors"}})");
  EXPECT_NE(error(ErrorCode::kInvalidData).find("without a folder"), std::string::npos);
  put(index, R"({"weight_map":{"a":1}})");
  EXPECT_NE(error(ErrorCode::kInvalidData).find("expected a string"), std::string::npos);
  put(index, R"({"weight_map":{}})");
  EXPECT_NE(error(ErrorCode::kInvalidData), "");
  put(index, R"({"weight_map":{"a":"s1.safetensors"}})");
  EXPECT_EQ(error(ErrorCode::kInvalidData), "");
}

TEST_F(BrokenCheckpoint, ADamagedFileIsNamed) {
  put("model.safetensors", "garbage!garbage!");
  EXPECT_NE(error(ErrorCode::kInvalidData).find("model.safetensors: the header claims"), std::string::npos);
}

}  // namespace
}  // namespace lathe
