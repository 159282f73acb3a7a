#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "lathe/backends/register.h"
#include "lathe/io/faulty_file_system.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

const std::string kModel = LATHE_SOURCE_DIR "/tests/golden/tiny_bert/classification";

std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  FileSystem& fs = real_file_system();
  const auto names = fs.list(folder).value();
  for (const std::string& name : names) files[name] = fs.read(join_path(folder, name)).value();
  return files;
}

class Saving : public testing::Test {
 protected:
  void SetUp() override { real_file_system().create_directories(folder_).check(); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Trainer trainer(FileSystem& fs) {
    return Trainer(*backend_, model_, TrainingArguments(), nullptr, nullptr, {}, fs);
  }

  const std::string folder_ = join_path(testing::TempDir(), "lathe-saving-" + std::to_string(getpid()));
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  AutoModel model_ = from_pretrained(real_file_system(), kModel, {Problem::kSingleLabel, {}, false});
};

TEST_F(Saving, AModelThatDoesNotFitLeavesWhatWasThereAndSaysSo) {
  real_file_system().write_atomic(join_path(folder_, "model.safetensors"), "what was there").check();
  const auto before = files_of(folder_);
  int64_t refused = 0;
  for (int64_t room = 0; room <= (1 << 20); room += 1 << 14) {
    FaultyFileSystem fs(real_file_system(), {.disk_bytes = room});
    try {
      trainer(fs).save_model(folder_);
      break;
    } catch (const Error& error) {
      ++refused;
      const std::string message = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_TRUE(message.starts_with(folder_ + ": found 0.")) << message;
      for (const char* word : {"MB free", "wants 0.2 MB to save", "make room", "same command again"})
        EXPECT_NE(message.find(word), std::string::npos) << message;
      EXPECT_EQ(message.find("last checkpoint"), std::string::npos) << message;  // there is none
      EXPECT_EQ(files_of(folder_), before) << room;
    }
  }
  EXPECT_GT(refused, 5);  // and the first that was not refused is whole
  const auto after = files_of(folder_);
  EXPECT_EQ(after.count("config.json"), 1u);
  const auto again = from_pretrained(real_file_system(), folder_, {Problem::kSingleLabel, {}, false});
  EXPECT_EQ(again.model->parameters().size(), model_.model->parameters().size());
}

TEST_F(Saving, AFaultAtAnyMomentLeavesOnlyWholeFiles) {
  trainer(real_file_system()).save_model(folder_);
  const auto whole = files_of(folder_);
  FaultyFileSystem unsynced(real_file_system(), {});  // spares the disk
  for (int64_t at = 0;; ++at) {
    for (const auto& [name, content] : whole)
      unsynced.write_atomic(join_path(folder_, name), "the old " + name).check();
    FaultyFileSystem fs(real_file_system(), {.fail_at = at});
    try {
      trainer(fs).save_model(folder_);
      EXPECT_GT(at, 10);
      break;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(folder_), std::string::npos) << error.what();
    }
    for (const auto& [name, content] : files_of(folder_)) {
      const bool leftover = name.starts_with(".tmp-");  // where removing it was what failed
      EXPECT_TRUE(leftover || content == whole.at(name) || content == "the old " + name) << name << " " << at;
    }
  }
}

TEST_F(Saving, WantsAFolder) {
  try {
    trainer(real_file_system()).save_model("");
    ADD_FAILURE() << "wrote into the working directory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("wants a folder"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lathe
