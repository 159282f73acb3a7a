// Runs that follow another one: in its output folder, from its checkpoint, of the same Trainer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lathe/core/source_folder_testing.h"
#include "lathe/io/faulty_file_system_testing.h"
#include "lathe/settings/metric_schedule.h"
#include "tests/train/four_sample_runs_testing.h"
#include "tests/train/unsealed_testing.h"

namespace lathe {
namespace {

/// No folder is deleted whole: a kill comes meanwhile.
class KilledWhileDeleting : public FaultyFileSystem {
 public:
  KilledWhileDeleting() : FaultyFileSystem(real_file_system(), {}) {}
  Status remove_all(const std::string& path) override {
    if (!is_directory(path)) return FaultyFileSystem::remove_all(path);
    const std::vector<std::string> names = list(path).value();
    for (size_t i = 0; i < names.size() / 2; ++i)
      if (Status status = FaultyFileSystem::remove_all(join_path(path, names[i])); !status.ok())
        return status;
    return {ErrorCode::kIo, "killed"};
  }
};

class SeveralRuns : public FourSampleRuns {};

TEST_F(SeveralRuns, ARunSetsCheckpointsOfAnotherAside) {
  trainer().train();
  EXPECT_EQ(said_, "");
  std::filesystem::create_directories(folder_ / "out/old-checkpoint-3/older");
  args_.save_total_limit = 1;
  args_.max_steps = 2;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-2", "old-checkpoint-1", "old-checkpoint-2", "old-checkpoint-3",
                            "old-checkpoint-3-2"}));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/old-checkpoint-3/older"));
  EXPECT_EQ(said_, "WARNING " + folder_ / "out" +
                       ": checkpoint-1, checkpoint-2, checkpoint-3: not of this run, which begins after "
                       "step 0: renamed to old-checkpoint-1, old-checkpoint-2, old-checkpoint-3-2, which "
                       "may be deleted\n");
  EXPECT_EQ(last_checkpoint(real_file_system(), folder_ / "out"), folder_ / "out/checkpoint-2");
}

/// A container's image that holds the folder of a run.
TEST_F(SeveralRuns, WhereTheDiskCannotRenameFoldersThoseOfAnotherGoAsideAndOldOnesGo) {
  trainer().train();
  args_.save_total_limit = 1;
  FaultyFileSystem fs(real_file_system(), {.renames_folders = false});
  EXPECT_EQ(error_of(folder_ / "out/checkpoint-1", fs), "");
  EXPECT_EQ(found(), (Names{"checkpoint-3", "old-checkpoint-2", "old-checkpoint-3"}));
  EXPECT_EQ(checkpoint_to_resume(real_file_system(), folder_ / "out"), folder_ / "out/checkpoint-3");
  for (const char* name : {"model.safetensors", "lathe_state.safetensors", "optimizer.pt"})
    EXPECT_EQ(real_file_system().read(folder_ / ("out/old-checkpoint-3/" + std::string(name))).value().size(),
              real_file_system().read(folder_ / ("out/checkpoint-3/" + std::string(name))).value().size());
}

TEST_F(SeveralRuns, OfManyCheckpointsSetAsideAFewAreNamed) {
  for (int step = 1; step <= 100; ++step)
    std::filesystem::create_directories(folder_ / ("out/checkpoint-" + std::to_string(step)));
  args_.save_strategy = "no";
  trainer().train();
  EXPECT_EQ(found().size(), 100u);
  EXPECT_EQ(said_,
            "WARNING " + folder_ / "out" +
                ": checkpoint-1, checkpoint-2, checkpoint-3, … checkpoint-100 (100 in all): not of this "
                "run, which begins after step 0: renamed to old-checkpoint-1, old-checkpoint-2, "
                "old-checkpoint-3, … old-checkpoint-100 (100 in all), which may be deleted\n");
}

TEST_F(SeveralRuns, AFaultWhileCheckpointsAreSetAsideLosesNone) {
  trainer().train();
  const std::filesystem::path kept = folder_ / "kept", out = folder_ / "out";
  std::filesystem::rename(out, kept);
  args_.save_strategy = "no";
  int64_t faults = 0;
  for (bool hit = true; hit; ++faults) {
    std::filesystem::remove_all(out);
    std::filesystem::copy(kept, out, std::filesystem::copy_options::recursive);
    FaultyFileSystem fs(real_file_system(), {.fail_at = faults});
    const std::string error = error_of("", fs);
    hit = fs.operations() > faults;  // where it is the note of what the run may leave, it goes on
    for (const std::string name : {"checkpoint-1", "checkpoint-2", "checkpoint-3"}) {
      const bool there = std::filesystem::exists(out / name);
      EXPECT_NE(there, std::filesystem::exists(out / ("old-" + name))) << faults << " " << name;
      EXPECT_FALSE(there && error.empty()) << name;
      EXPECT_NE(there, said_.find("old-" + name) != std::string::npos) << said_;
    }
    if (!error.empty()) {
      EXPECT_NE(error.find(out), std::string::npos) << error;
      EXPECT_EQ(error_of(), "");  // the same command again
      EXPECT_EQ(found(), (Names{"old-checkpoint-1", "old-checkpoint-2", "old-checkpoint-3"}));
    }
  }
  EXPECT_GT(faults, 3);  // one for each name that is changed
}

TEST_F(SeveralRuns, WhatIsHalfDeletedIsNoCheckpoint) {
  args_.save_total_limit = 1;
  args_.load_best_model_at_end = true;
  KilledWhileDeleting fs;
  args_.max_steps = 2;
  const auto files_of = [&](const std::string& name) {
    const std::string folder = join_path(*args_.output_dir, name);
    return Names{join_path(folder, "config.json"), join_path(folder, "lathe_state.safetensors")};
  };
  for (const std::vector<double>& scores : {std::vector{0.1, 0.2},     // the one before goes
                                            std::vector{0.9, 0.1}}) {  // the last goes at the end
    std::filesystem::remove_all(folder_ / "out");
    evaluate(scores);
    EXPECT_EQ(error_of("", fs), "killed");
    for (const std::string& name : found()) {
      if (name.starts_with(kTemporaryPrefix)) continue;
      for (const std::string& path : files_of(name)) EXPECT_TRUE(std::filesystem::exists(path)) << path;
    }
  }
}

/// As many as the system lets one process have.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{std::min<rlim_t>(before_.rlim_cur, 256), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptorsLeft() {
    for (const int descriptor : leaked_) close(descriptor);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
  NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;
  void leak() {
    for (int descriptor; (descriptor = open("/dev/null", O_RDONLY)) >= 0;) leaked_.push_back(descriptor);
  }

 private:
  rlimit before_ = {};
  std::vector<int> leaked_;
};

TEST_F(SeveralRuns, ACheckpointIsWrittenWhereACallbackLeavesNoDescriptors) {
  const std::string stopped = "interrupted after step 1; its checkpoint is " + folder_ / "out/checkpoint-1";
  for (const bool stops : {true, false}) {
    std::filesystem::remove_all(folder_ / "out");
    NoDescriptorsLeft descriptors;
    args_.save_strategy = stops ? "no" : "steps";
    hooks_.on_step = [&](int64_t step, int64_t, std::optional<double>) {
      if (stops || step == 2) descriptors.leak();
    };
    EXPECT_EQ(stops ? error_of_stopped() : error_of(), stops ? stopped : "");
  }
  EXPECT_EQ(found(), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-3"}));
}

TEST_F(SeveralRuns, WhatIsNotOfATrainingStays) {
  for (const std::string name : {"photos.replaced/one", ".tmp-photos/one", ".tmp-checkpoint-1-1-0/one",
                                 "checkpoint-2.replaced/one", "below/.tmp-model-999999999-0/one"})
    ASSERT_TRUE(real_file_system().write_atomic(folder_ / ("out/" + name), "mine").ok());
  const Names before = found();
  args_.save_strategy = "no";
  trainer().train();
  EXPECT_EQ(found(), before);
  EXPECT_EQ(said_, "");
  std::filesystem::create_directories(folder_ / "out/.tmp-checkpoint-1-999999999-0");
  trainer().train();
  EXPECT_EQ(found().size(), before.size() + 1);
  EXPECT_NE(said_.find(".tmp-checkpoint-1-999999999-0 may be left of a killed run"), std::string::npos)
      << said_;
}

TEST_F(SeveralRuns, AnErrorNamesNoCheckpointOfAnother) {
  trainer().train();
  args_.max_grad_norm = 0;
  args_.learning_rate = 1e38;  // finite, and so are the first update's loss and norm
  args_.save_strategy = "no";
  const std::string error = error_of();
  EXPECT_NE(error.find("There is no checkpoint yet."), std::string::npos) << error;
}

TEST_F(SeveralRuns, ARunThatGoesOnKeepsWhatItGoesOnFromAndWhatCameBefore) {
  trainer().train();
  std::filesystem::rename(folder_ / "out/checkpoint-2", folder_ / "out/checkpoint-9");
  trainer().train(folder_ / "out/checkpoint-9/");
  EXPECT_EQ(found(), (Names{"checkpoint-1", "checkpoint-3", "checkpoint-9", "old-checkpoint-3"}));
}

TEST_F(SeveralRuns, ACheckpointThatLacksWeightsIsNoneToGoOnFrom) {
  trainer().train();
  std::filesystem::copy_file(source_path("tests/golden/tiny_bert/masked_lm/model.safetensors"),
                             folder_ / "out/checkpoint-2/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  make_unsealed(folder_ / "out/checkpoint-2");
  const std::string error = error_of(folder_ / "out/checkpoint-2");
  for (const char* part : {"checkpoint-2: a checkpoint of another model", "classifier.weight"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST_F(SeveralRuns, TheBestModelIsNoneOfAnother) {
  evaluate({0.9, 0.1, 0.1});
  args_.save_steps = 2;
  trainer().train();  // its best step has no checkpoint
  std::filesystem::create_directories(folder_ / "other");
  std::filesystem::rename(folder_ / "out/checkpoint-2", folder_ / "other/checkpoint-2");
  std::filesystem::remove_all(folder_ / "out");
  args_.save_steps = args_.max_steps = 1;
  evaluate({0.5});
  trainer().train();  // another run's checkpoint of that step
  args_.max_steps = 3;
  evaluate({0.2});
  trainer().train(folder_ / "other/checkpoint-2");
  EXPECT_EQ(trainer_->state().best_global_step, 1);
  EXPECT_EQ(trainer_->state().best_model_checkpoint, std::nullopt);
}

TEST_F(SeveralRuns, ASecondCallOfTrainBeginsWithoutMoments) {
  args_.save_strategy = "no";
  trainer().train();
  trainer_->save_model(folder_ / "once");
  trainer_->train();
  const std::vector<float> twice = weights();
  trainer(folder_ / "once").train();
  EXPECT_EQ(weights(), twice);
}

TEST_F(SeveralRuns, AStoppedRunGoesOnWithSaveOnlyModelToo) {
  const double loss = trainer().train().training_loss;
  const std::vector<float> whole = weights();
  args_.save_only_model = true;
  for (const char* strategy : {"steps", "no"}) {
    args_.save_strategy = strategy;
    std::filesystem::remove_all(folder_ / "out");
    EXPECT_EQ(error_of_stopped(),
              "interrupted after step 1; its checkpoint is " + folder_ / "out/checkpoint-1");
    EXPECT_EQ(trainer().train(folder_ / "out/checkpoint-1").training_loss, loss);
    EXPECT_EQ(weights(), whole);
  }
}

TEST_F(SeveralRuns, ARunThatStoppedEarlyDoesNotGoOn) {
  args_.max_steps = 9;
  args_.early_stopping_patience = 2;
  args_.load_best_model_at_end = true;
  evaluate({0.9, 0.1, 0.1});
  const double loss = trainer().train().training_loss;
  const std::vector<float> best = weights();
  trainer(folder_ / "out/checkpoint-1");
  EXPECT_EQ(weights(), best);
  const std::string last = folder_ / "out/checkpoint-3";
  evaluate({});
  const TrainOutput again = trainer().train(last);
  EXPECT_EQ(again.global_step, 3);
  EXPECT_EQ(again.training_loss, loss);
  EXPECT_EQ(weights(), best);
  EXPECT_NE(said_.find(last + ": stopped early after step 3; a larger --early_stopping_patience than 2"),
            std::string::npos)
      << said_;
  args_.early_stopping_patience = 3;
  evaluate({0.1});
  EXPECT_EQ(trainer().train(last).global_step, 4);
}

TEST_F(SeveralRuns, ATrainerWhoseModelAnotherHasFrozenSaysSo) {
  Trainer& first = trainer();
  args_.freeze_base_model = true;
  const Trainer second(*backend_, model_, args_, &data_, &data_);
  try {
    first.train();
    ADD_FAILURE() << "the base is no parameter of the first any more";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a model of its own"), std::string::npos) << error.what();
  }
  AutoModel twin = twin_of(model_);
  args_.freeze_base_model = false;
  Trainer third(*backend_, twin, args_, &data_, &data_);
  EXPECT_EQ(third.train().global_step, 3);
}

/// Parameters of the head, or of the base, one after the other.
std::vector<float> part_of(Trainer& trainer, const TaskModel& model, bool head) {
  std::vector<float> values;
  for (size_t i = 0; i < model.parameters().size(); ++i)
    if (model.parameters()[i].name.starts_with(model.base_prefix()) != head) {
      const auto more = trainer.session().parameters().read(static_cast<int>(i));
      values.insert(values.end(), more.begin(), more.end());
    }
  return values;
}

TEST_F(SeveralRuns, TheFirstUpdateOfAHeadIsThatOfItsOwnLearningRate) {
  args_.optim = "sgd";
  args_.max_steps = 1;
  args_.max_grad_norm = 0;
  args_.save_strategy = "no";
  const auto trained = [&](double rate, std::optional<double> head_rate, bool head) {
    args_.learning_rate = rate;
    args_.head_learning_rate = head_rate;
    trainer().train();
    return part_of(*trainer_, *model_.model, head);
  };
  EXPECT_EQ(trained(0.01, 0.3, true), trained(0.3, {}, true));
  EXPECT_EQ(trained(0.01, 0.3, false), trained(0.01, {}, false));
  EXPECT_NE(trained(0.01, {}, true), trained(0.3, {}, true));
}

TEST_F(SeveralRuns, AHeadWithItsOwnLearningRateGoesOnWithTheSameBits) {
  args_.head_learning_rate = 0.1;
  for (const char* optim : {"adamw_torch", "sgd", "adafactor"})
    for (const char* schedule : {"cosine", "reduce_lr_on_plateau"}) {
      args_.optim = optim;
      args_.lr_scheduler_type = schedule;
      args_.lr_scheduler_kwargs = {};
      args_.output_dir = folder_ / (std::string(optim) + schedule);
      if (MetricSchedule::is(schedule)) args_.lr_scheduler_kwargs = {{"patience", 0}, {"mode", "max"}};
      evaluate({0.5, 0.4, 0.3});
      trainer().train();
      const std::vector<float> whole = weights();
      evaluate({0.4, 0.3});
      trainer().train(*args_.output_dir + "/checkpoint-1");
      EXPECT_EQ(weights(), whole) << optim << " " << schedule;
    }
}

TEST_F(SeveralRuns, ALimitOfOneLeavesTheBestAtTheEnd) {
  args_.save_total_limit = 1;
  args_.load_best_model_at_end = true;
  evaluate({0.1, 0.9, 0.1});
  trainer().train();
  EXPECT_EQ(found(), Names{"checkpoint-2"});
}

/// A run that was killed continues from the last one.
TEST_F(SeveralRuns, ALimitOfOneLeavesTheBestAndTheLastMeanwhile) {
  args_.save_total_limit = 1;
  for (const bool load : {false, true}) {
    args_.load_best_model_at_end = load;
    evaluate({0.9, 0.1, 0.1});
    std::vector<Names> meanwhile;
    hooks_.on_step = [&](int64_t, int64_t, std::optional<double>) { meanwhile.push_back(found()); };
    trainer().train();
    EXPECT_EQ(meanwhile,
              (std::vector<Names>{
                  {"checkpoint-1"}, {"checkpoint-1", "checkpoint-2"}, {"checkpoint-1", "checkpoint-3"}}));
    EXPECT_EQ(found(), Names{"checkpoint-1"});
    std::filesystem::remove_all(folder_ / "out");
  }
}

TEST_F(SeveralRuns, ALimitOfNoneLeavesAll) {
  args_.save_total_limit = 0;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-3"}));
}

TEST_F(SeveralRuns, ABatchSizeFoundByTheRunBeforeIsTaken) {
  trainer().train();
  args_.per_device_train_batch_size = 2;
  args_.gradient_accumulation_steps = 2;
  args_.auto_find_batch_size = true;
  trainer().train(folder_ / "out/checkpoint-2");
  EXPECT_NE(said_.find("--auto_find_batch_size: takes 4, accumulated 1 times, as " +
                       folder_ / "out/checkpoint-2 did"),
            std::string::npos)
      << said_;
  args_.per_device_train_batch_size = 3;  // an update of six cannot be made of fours
  EXPECT_EQ(trainer().plan(folder_ / "out/checkpoint-2").updates_per_epoch, 1);
  EXPECT_EQ(trainer_->arguments().per_device_train_batch_size, 3);
}

}  // namespace
}  // namespace lathe
