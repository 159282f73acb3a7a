// A checkpoint is gone on from only by the run that it is of.
#include <gtest/gtest.h>

#include <filesystem>

#include "lathe/core/source_folder_testing.h"
#include "lathe/io/safetensors.h"
#include "lathe/train/whole_checkpoint.h"
#include "tests/train/four_sample_runs_testing.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;

class OtherRun : public FourSampleRuns {
 protected:
  void SetUp() override { trainer().train(); }

  std::string at(int step) const { return folder_ / ("out/checkpoint-" + std::to_string(step)); }

  /// The message and the code with which `check` refuses it; empty if it does not.
  std::string refusal(const std::string& checkpoint, bool found, const std::string& model = kTinyModel) {
    try {
      trainer(model).check(checkpoint, found);
    } catch (const Error& error) {
      code_ = error.code();
      return error.what();
    }
    return "";
  }

  /// The tiny model with one weight changed.
  std::string other_model() {
    const std::string other = folder_ / "other";
    stdfs::copy(kTinyModel, other);
    std::string weights = real_file_system().read(join_path(other, "model.safetensors")).value();
    weights.back() = static_cast<char>(weights.back() ^ 1);
    real_file_system().write_atomic(join_path(other, "model.safetensors"), weights).check();
    return other;
  }

  ErrorCode code_ = ErrorCode::kInternal;
};

TEST_F(OtherRun, OfOtherDataIsRefusedWhereNobodyNamedIt) {
  EXPECT_EQ(refusal(at(2), true), "");
  data_.tensors.ints("labels")[0] = 1 - data_.tensors.ints("labels")[0];
  const std::string error = refusal(at(2), true);
  EXPECT_EQ(code_, ErrorCode::kUsage);
  for (const std::string& words :
       {"--output_dir: " + folder_ / "out" +
            " holds another run (checkpoint-2): training data: found 4 samples",
        std::string("give another --output_dir, or --overwrite_output_dir to train from the beginning; or "
                    "--resume_from_checkpoint " +
                    at(2))})
    EXPECT_NE(error.find(words), std::string::npos) << error;
  EXPECT_EQ(refusal(at(2), false), "");
  trainer_->train(at(2));
  EXPECT_NE(said_.find("it goes on with other samples"), std::string::npos) << said_;
  EXPECT_EQ(refusal(at(3), true), "") << "they are its data now";
}

TEST_F(OtherRun, OfOtherDataIsRefusedWhereNoUpdateIsLeftToMake) {
  data_.tensors.ints("labels")[0] = 1 - data_.tensors.ints("labels")[0];
  const std::string error = error_of(at(3));
  EXPECT_TRUE(error.starts_with(at(3) + ": of another run: training data: found 4 samples")) << error;
  EXPECT_NE(error.find("3 of 3 updates are made, none is left to make with these data"), std::string::npos);
  args_.max_steps = 4;
  EXPECT_EQ(error_of(at(3)), "");
}

TEST_F(OtherRun, ThatBeganWithAnotherModelIsRefused) {
  const std::string other = other_model();
  const std::string found = refusal(at(2), true, other);
  EXPECT_EQ(code_, ErrorCode::kUsage);
  EXPECT_NE(found.find("model: found " + std::string(kTinyModel) + " (weights with the checksum "),
            std::string::npos)
      << found;
  EXPECT_NE(found.find(", this run has " + other + " (weights with the checksum "), std::string::npos)
      << found;
  const std::string named = refusal(at(2), false, other);
  EXPECT_EQ(code_, ErrorCode::kInvalidData);
  EXPECT_NE(named.find("a checkpoint goes on with the model that it is of"), std::string::npos) << named;
}

TEST_F(OtherRun, OfOtherLabelsNamesThem) {
  const auto refused_with = [&](const std::vector<std::string>& labels) -> std::string {
    model_ = from_pretrained(real_file_system(), kTinyModel, {single_label, labels, true});
    try {
      trainer_ = std::make_unique<Trainer>(*backend_, model_, args_, &data_, &data_, hooks_);
      trainer_->check(at(3), true);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused_with({"ham", "spam", "eggs"}).find("labels: found ["), std::string::npos);
  EXPECT_NE(
      refused_with({"ham", "spam", "eggs"}).find(", this run has [\"ham\",\"spam\",\"eggs\"]; give another"),
      std::string::npos);
  std::vector<std::string> many;
  for (int i = 0; i < 150; ++i) many.push_back("label " + std::to_string(i));
  EXPECT_NE(refused_with(many).find("this run has 150 labels, and as number 1 \"label 0\""),
            std::string::npos)
      << refused_with(many);
}

TEST_F(OtherRun, IsNotThatOfTheSameModelInAnotherPlaceNorThatOfItsOwnModel) {
  stdfs::copy(kTinyModel, folder_ / "moved");
  trainer_->save_model(folder_ / "out");
  for (const std::string& model : {folder_ / "moved", folder_ / "out", at(1)})
    EXPECT_EQ(refusal(at(2), true, model), "") << model;
  trainer(at(1)).train(at(2));
  EXPECT_EQ(refusal(at(3), true), "") << "it goes on to be the run that began with that model";
}

TEST_F(OtherRun, IsNotKnownOfACheckpointWithoutARecord) {
  const std::string path = join_path(at(2), kStateFile);
  auto metadata = SafetensorsFile::open(real_file_system(), path).metadata();
  auto state = nlohmann::json::parse(metadata.at("state"));
  for (const char* key : {"model", "model_name", "training_data", "training_data_name"}) state.erase(key);
  metadata["state"] = state.dump();
  metadata["format_version"] = "2";
  metadata.erase("files");
  metadata.erase("sha256");
  write_safetensors(real_file_system(), path, TensorMap(), metadata).check();
  data_.tensors.ints("labels")[0] = 1 - data_.tensors.ints("labels")[0];
  EXPECT_EQ(refusal(at(2), true, other_model()), "");
  EXPECT_NE(
      said_.find(at(2) + ": keeps no record of its model and training data: whether they are those of this "
                         "run is not known\n"),
      std::string::npos)
      << said_;
}

class Finished : public OtherRun {
 protected:
  void SetUp() override {
    trainer().train();
    trainer_->save_model(folder_ / "out");
    trainer_->save_state();
    wanted_ = weights();
  }

  /// Whether the run that goes on from there has ended.
  bool finished(const std::string& checkpoint, bool found = true) {
    trainer().check(checkpoint, found);
    return trainer_->take_finished(checkpoint);
  }

  std::vector<float> wanted_;
};

TEST_F(Finished, IsTakenAsItIs) {
  ASSERT_TRUE(finished(at(3)));
  EXPECT_EQ(weights(), wanted_);
  EXPECT_EQ(trainer_->state().global_step, 3);
  EXPECT_FALSE(trainer_->state().log_history.empty());
  EXPECT_EQ(trainer_->losses().points().size(), 3u);
  EXPECT_NE(said_.find(folder_ / "out" + ": already finished at step 3; nothing to train"), std::string::npos)
      << said_;
  args_.max_steps = 2;
  EXPECT_TRUE(finished(at(3)));
  EXPECT_NE(said_.find("max_steps 3 there and 2 here (changes nothing: there is no update left to make)"),
            std::string::npos)
      << said_;
}

TEST_F(Finished, IsNoRunThatGoesOnOrIsDoneAnew) {
  EXPECT_FALSE(finished(at(2), false));
  args_.max_steps = 4;
  EXPECT_FALSE(finished(at(3)));
  args_.max_steps = 3;
  args_.output_dir = folder_ / "another";
  EXPECT_FALSE(finished(at(3), false));
}

TEST_F(Finished, IsNoRunWithoutItsModelOrState) {
  for (const char* name : {"model.safetensors", "config.json", "trainer_state.json"}) {
    const std::string path = folder_ / ("out/" + std::string(name)),
                      text = real_file_system().read(path).value();
    stdfs::remove(path);
    EXPECT_FALSE(finished(at(3))) << name;
    real_file_system().write_atomic(path, text + " ").check();
    EXPECT_EQ(finished(at(3)), name == std::string("trainer_state.json")) << name;
    real_file_system().write_atomic(path, text).check();
    EXPECT_TRUE(finished(at(3))) << name;
  }
}

TEST_F(Finished, HasItsBestModel) {
  stdfs::remove_all(folder_ / "out");
  args_.load_best_model_at_end = true;
  args_.save_total_limit = 1;
  evaluate({0.1, 0.9, 0.1});
  Finished::SetUp();
  ASSERT_FALSE(real_file_system().exists(at(3)));
  EXPECT_TRUE(finished(at(2)));
  EXPECT_EQ(weights(), wanted_);
  EXPECT_FALSE(finished(at(2), false)) << "who names it needs the updates after it";
}

TEST_F(Finished, MayHaveStoppedEarly) {
  stdfs::remove_all(folder_ / "out");
  args_.max_steps = 9;
  args_.early_stopping_patience = 2;
  evaluate({0.9, 0.1, 0.1});
  Finished::SetUp();
  EXPECT_TRUE(finished(at(3)));
  EXPECT_NE(said_.find("stopped early after step 3; a larger --early_stopping_patience than 2"),
            std::string::npos);
  args_.early_stopping_patience = 3;
  EXPECT_FALSE(finished(at(3)));
}

}  // namespace
}  // namespace lathe
