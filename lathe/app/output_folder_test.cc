#include "lathe/app/output_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

using Kind = RunInput::Kind;

class OutputFolderChecks : public testing::Test {
 protected:
  OutputFolderChecks() { args_.overwrite_output_dir = args_.do_train = true; }

  /// The error, "warned: …", or nothing.
  std::string told(const std::string& output, const std::vector<RunInput>& inputs = {}) {
    args_.output_dir = output;
    std::string warned;
    try {
      check_output_folder(real_file_system(), args_, inputs,
                          [&](const std::string& text) { warned += text; });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return warned.empty() ? "" : "warned: " + warned;
  }
  void put(const std::string& name) { real_file_system().write_atomic(folder_ / name, "{}").check(); }
  static bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  const TestFolder folder_;
  TrainingArguments args_;
};

TEST_F(OutputFolderChecks, TheRootFolderIsRefusedHoweverItIsSpelled) {
  std::filesystem::create_directory_symlink("/", folder_ / "link");
  for (const bool train : {true, false}) {
    args_.do_train = train;
    for (const std::string& output : std::vector<std::string>{
             "/", "///", "/usr/..", "/../.", folder_ / "link", folder_ / "link/", folder_ / "no/../link"})
      EXPECT_TRUE(holds(told(output), "is the root folder; a run writes into a folder of its own")) << output;
  }
  EXPECT_EQ(told(folder_ / "out"), "");
}

TEST_F(OutputFolderChecks, AFolderAboveTheHomeFolderIsWarnedOf) {
  const std::string before = environment("HOME");
  put("users/me/file");
  setenv("HOME", (folder_ / "users/me").c_str(), 1);
  const std::string at = told(folder_ / "users/me/"), above = told(folder_ / "users"),
                    below = told(folder_ / "users/me/x");
  setenv("HOME", before.c_str(), 1);
  EXPECT_TRUE(holds(at, "is a home folder")) << at;
  EXPECT_TRUE(holds(above, "warned: --output_dir: the home folder ")) << above;
  EXPECT_EQ(below, "");
}

TEST_F(OutputFolderChecks, FoldersOfInputsAreRefusedUnlessARunHasWrittenThere) {
  put("model/config.json");
  put("data/MRPC/train.tsv");
  const std::vector<RunInput> inputs = {{Kind::kModelFolder, "--model", folder_ / "model"},
                                        {Kind::kModelFolder, "--tokenizer", "bert-base-cased"},
                                        {Kind::kModelFolder, "--config", ""},
                                        {Kind::kDataFolder, "--data", folder_ / "data"},
                                        {Kind::kDataFile, "--train", folder_ / "data/MRPC/train.tsv"}};
  std::filesystem::create_directory_symlink("data", folder_ / "link");
  for (const char* name : {"model", "model//", "model/.", "x/../model"})
    EXPECT_TRUE(holds(told(folder_ / name, inputs), "is the folder of --model, which")) << name;
  for (const char* name : {"data", "data/MRPC", "link/MRPC/", "link/../data"})
    EXPECT_TRUE(holds(told(folder_ / name, inputs), "is where the data lie (--")) << name;
  for (const char* name : {"model/out", "data/out", "data/MRPC/out", "", "new"})
    EXPECT_EQ(told(folder_ / name, inputs), "") << name;
  put("model/run.json");
  put("data/MRPC/trainer_state.json");
  EXPECT_TRUE(holds(told(folder_ / "model", inputs), "warned: ")) << told(folder_ / "model", inputs);
  EXPECT_TRUE(holds(told(folder_ / "data/MRPC", inputs), "warned: "));
  args_.overwrite_output_dir = false;
  EXPECT_EQ(told(folder_ / "model", inputs), "");
}

TEST_F(OutputFolderChecks, AnEvaluationMayUseTheFolderOfItsModel) {
  put("model/config.json");
  args_.do_train = false;
  EXPECT_EQ(told(folder_ / "model", {{Kind::kModelFolder, "--model", folder_ / "model"}}), "");
}

TEST_F(OutputFolderChecks, ACheckpointIsNoOutputFolderOfATraining) {
  put("out/checkpoint-7/trainer_state.json");
  EXPECT_TRUE(
      holds(told(folder_ / "out/checkpoint-7/"), "is a checkpoint, which the training would write over"));
  EXPECT_EQ(told(folder_ / "out/checkpoint-8"), "");
  args_.do_train = false;
  EXPECT_EQ(told(folder_ / "out/checkpoint-7"), "");
}

}  // namespace
}  // namespace lathe
