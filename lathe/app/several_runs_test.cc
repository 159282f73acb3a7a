// Runs that follow another one: in its output folder, from its checkpoint, of the same Trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lathe/app/four_samples_testing.h"
#include "lathe/backends/register.h"
#include "lathe/io/faulty_file_system.h"
#include "lathe/io/test_folder.h"
#include "lathe/train/trainer.h"

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

/// The second of two ranks, of which the first says what this one does.
class SecondRank : public ProcessGroup {
 public:
  int rank() const override { return 1; }
  int size() const override { return 2; }
  int local_rank() const override { return 1; }
  Status sum(std::span<float>, DType) override { return {}; }
  Status broadcast(std::span<std::byte>, int) override { return {}; }
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) override {
    return std::vector(2, std::vector(mine.begin(), mine.end()));
  }
  Status gather_parts(std::span<float>, std::span<const int64_t>) override { return {}; }
  Status barrier() override { return {}; }
  std::optional<int> gone() const override { return {}; }
};

/// One of which the first says something else.
class UnlikeRank : public SecondRank {
 public:
  std::string mine, others;
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> told) override {
    std::string first(reinterpret_cast<const char*>(told.data()), told.size());
    const size_t at = mine.empty() ? std::string::npos : first.find(mine);
    if (at != std::string::npos) first.replace(at, mine.size(), others);
    const auto bytes = std::as_bytes(std::span(first));
    return std::vector<std::vector<std::byte>>{{bytes.begin(), bytes.end()}, {told.begin(), told.end()}};
  }
};

class SeveralRuns : public testing::Test {
 protected:
  SeveralRuns() {
    args_.output_dir = folder_ / "out";
    args_.per_device_train_batch_size = 4;
    args_.learning_rate = 1e-2;
    args_.save_strategy = "steps";
    args_.save_steps = 1;
    args_.max_steps = 3;
    hooks_.message = [this](LogLevel level, const std::string& text) {
      said_ += (level == LogLevel::kWarning ? "WARNING " : "") + text + "\n";
    };
  }

  /// One evaluation after each update, with these scores.
  void evaluate(std::vector<double> scores) {
    args_.eval_strategy = "steps";
    args_.eval_steps = 1;
    args_.metric_for_best_model = "score";
    args_.greater_is_better = true;
    hooks_.compute_metrics = [scores = std::move(scores), next = size_t{0}](const TokenizedDataset&,
                                                                            const Predictions&) mutable {
      return MetricValues{{"score", scores.at(next++)}};
    };
  }

  Trainer& trainer(const std::string& model = kTinyModel, FileSystem& fs = real_file_system()) {
    said_.clear();
    model_ = from_pretrained(real_file_system(), model, {Problem::kSingleLabel, {}, false});
    trainer_ = std::make_unique<Trainer>(*backend_, model_, args_, &data_, &data_, hooks_, fs);
    return *trainer_;
  }

  std::vector<float> weights() const { return trainer_->session().read_state("parameters"); }

  /// The message of an error that ends the run; empty if there is none.
  std::string error_of(const std::string& resume_from = "", FileSystem& fs = real_file_system()) {
    try {
      trainer(kTinyModel, fs).train(resume_from);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// A run that is asked to stop after its first update.
  std::string error_of_stopped() {
    hooks_.should_stop = [] { return true; };
    const std::string error = error_of();
    hooks_.should_stop = nullptr;
    return error;
  }

  /// The steps at which the log has this key.
  std::vector<int64_t> logged(const char* key) const {
    std::vector<int64_t> steps;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains(key)) steps.push_back(entry["step"]);
    return steps;
  }

  std::vector<std::string> found() { return real_file_system().list(*args_.output_dir).value(); }

  using Names = std::vector<std::string>;
  using Steps = std::vector<int64_t>;
  TestFolder folder_;
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  TokenizedDataset data_ = four_samples();
  TrainingArguments args_;
  TrainerHooks hooks_;
  AutoModel model_;
  std::unique_ptr<Trainer> trainer_;
  std::string said_;
};

TEST_F(SeveralRuns, ARunSetsCheckpointsOfAnotherAside) {
  trainer().train();
  EXPECT_EQ(said_, "");
  std::filesystem::create_directories(folder_ / "out/old-checkpoint-3/older");
  args_.save_total_limit = 1;
  args_.max_steps = 2;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-2", "old-checkpoint-1", "old-checkpoint-2", "old-checkpoint-3"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/old-checkpoint-3/older"));
  EXPECT_EQ(said_, "WARNING " + folder_ / "out" +
                       ": checkpoint-1, checkpoint-2, checkpoint-3: not of this run, which begins after "
                       "step 0: renamed to old-checkpoint-1, old-checkpoint-2, old-checkpoint-3, which may "
                       "be deleted\n");
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
  for (std::string error = "?"; !error.empty(); ++faults) {
    std::filesystem::remove_all(out);
    std::filesystem::copy(kept, out, std::filesystem::copy_options::recursive);
    FaultyFileSystem fs(real_file_system(), {.fail_at = faults});
    error = error_of("", fs);
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
  EXPECT_GT(faults, 6);  // one for each name that makes room and for each that is changed
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
  for (const auto& [scores, old] : {std::pair(std::vector{0.1, 0.2}, false),    // the one before goes
                                    std::pair(std::vector{0.9, 0.1}, false),    // the last goes at the end
                                    std::pair(std::vector{0.1, 0.2}, true)}) {  // what bears the name goes
    std::filesystem::remove_all(folder_ / "out");
    for (const std::string& name : old ? Names{"checkpoint-1", "old-checkpoint-1"} : Names{})
      for (const std::string& path : files_of(name))
        ASSERT_TRUE(real_file_system().write_atomic(path, "x").ok());
    evaluate(scores);
    EXPECT_EQ(error_of("", fs), "killed");
    for (const std::string& name : found()) {
      if (name.starts_with(kTemporaryPrefix)) continue;
      for (const std::string& path : files_of(name)) EXPECT_TRUE(std::filesystem::exists(path)) << path;
    }
  }
}

TEST_F(SeveralRuns, ARankThatIsNotTheMainOneLeavesTheFolderAlone) {
  const std::string left = folder_ / "out/.tmp-checkpoint-9-999999999-0";
  ASSERT_TRUE(real_file_system().create_directories(left).ok());
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  trainer().train();
  EXPECT_TRUE(std::filesystem::exists(left));
}

TEST_F(SeveralRuns, ARankKeepsItsShardOfTheStatesWhereAskedFor) {
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  const size_t whole = trainer().session().read_state("exp_avg").size();
  args_.zero_stage = 1;
  EXPECT_LT(trainer().session().read_state("exp_avg").size(), whole / 2 + 64);  // of whole vectors
}

TEST_F(SeveralRuns, RanksGoOnFromOneStepWithTheSameWeights) {
  trainer().train();
  const auto rank = std::make_shared<UnlikeRank>();
  backend_ = open_device("cpu", {.threads = 1, .group = rank});
  for (const auto& [mine, others] : {std::pair{"\"updates done\":1", "\"updates done\":2"},
                                     {"\"weights\":\"the checksum ", "\"weights\":\"the checksum 0"}}) {
    trainer();
    rank->mine = mine, rank->others = others;
    try {
      trainer_->train(folder_ / "out/checkpoint-1");
      ADD_FAILURE() << mine;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(error.what()).find(": rank 0 has "), std::string::npos) << error.what();
    }
    rank->mine.clear();
  }
}

/// transformers 5 takes a classifier's loss for a sum and multiplies it by the number of ranks.
TEST_F(SeveralRuns, RanksAddUpTheirMeansWhereTransformersDoes) {
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  args_.save_strategy = "no";
  args_.max_steps = 1, args_.logging_steps = 1;
  const auto logged = [&](bool compat) {
    args_.hf_compat_loss_scale = compat;
    trainer().train();
    return trainer_->state().log_history.at(0);
  };
  const auto means = logged(false), sums = logged(true);
  for (const char* key : {"loss", "grad_norm"})
    EXPECT_EQ(sums.at(key), 2 * means.at(key).get<double>()) << key;
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
  std::filesystem::copy_file(LATHE_SOURCE_DIR "/tests/golden/tiny_bert/masked_lm/model.safetensors",
                             folder_ / "out/checkpoint-2/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
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

TEST_F(SeveralRuns, ARunThatStopsEarlyEndsItsEpoch) {
  args_.per_device_train_batch_size = 1;  // four updates per epoch
  args_.logging_strategy = args_.save_strategy = "epoch";
  args_.max_steps = 40;
  args_.early_stopping_patience = 1;
  evaluate({0.1, 0.2, 0.3, 0.4, 0.9, 0.1});
  EXPECT_EQ(trainer().train().global_step, 6);
  EXPECT_EQ(found(), (Names{"checkpoint-4", "checkpoint-6"}));
  EXPECT_EQ(logged("loss"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(logged("eval_score"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(SeveralRuns, AnEpochEndsWithTheUpdateOfItsLastBatch) {
  args_.per_device_train_batch_size = 1,
  args_.gradient_accumulation_steps = 3;  // of three batches and of one
  args_.logging_strategy = args_.save_strategy = args_.eval_strategy = "epoch";
  args_.max_steps = 4;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-2", "checkpoint-4"}));
  for (const char* key : {"loss", "eval_loss"}) EXPECT_EQ(logged(key), (Steps{2, 4})) << key;
}

TEST_F(SeveralRuns, ARunThatIsStoppedLogsItsEpochOnce) {
  args_.per_device_train_batch_size = 1;
  args_.logging_strategy = "epoch";
  args_.max_steps = 6;
  trainer().train();
  const auto whole = trainer_->state().log_history;
  EXPECT_EQ(logged("loss"), (std::vector<int64_t>{4, 6}));
  std::filesystem::remove_all(folder_ / "out");
  EXPECT_NE(error_of_stopped(), "");
  EXPECT_EQ(error_of(folder_ / "out/checkpoint-1"), "");
  EXPECT_EQ(logged("loss"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(trainer_->state().log_history[0], whole[0]);
}

TEST_F(SeveralRuns, LabelsThatTheModelHasNotAreRefusedInDataToEvaluateToo) {
  model_ = from_pretrained(real_file_system(), kTinyModel, {Problem::kSingleLabel, {}, false});
  TokenizedDataset other = four_samples();
  other.labels[2] = 99;
  try {
    const Trainer refused(*backend_, model_, args_, &data_, &other);
    ADD_FAILURE() << "the model has two classes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
    EXPECT_NE(std::string(error.what()).find("evaluation data"), std::string::npos) << error.what();
  }
}

TEST_F(SeveralRuns, WhatComesAtTheStartComesOnce) {
  args_.logging_first_step = args_.eval_on_start = true;
  args_.eval_delay = 2;
  evaluate({0.1, 0.2, 0.3});
  trainer().train();
  EXPECT_EQ(logged("loss"), Steps{1});
  EXPECT_EQ(logged("eval_score"), (Steps{0, 2, 3}));
  evaluate({0.2, 0.3});
  trainer().train(folder_ / "out/checkpoint-1");
  EXPECT_EQ(logged("loss"), Steps{1});
  EXPECT_EQ(logged("eval_score"), (Steps{0, 2, 3}));
}

TEST_F(SeveralRuns, TheSeedOfTheDataAloneGivesTheirOrder) {
  args_.per_device_train_batch_size = 1;
  args_.learning_rate = 0;  // a loss tells its sample
  args_.logging_steps = 1;
  args_.max_steps = 4;
  args_.save_strategy = "no";
  const auto losses = [&](int64_t seed, std::optional<int64_t> data_seed) {
    args_.seed = seed, args_.data_seed = data_seed;
    trainer().train();
    std::vector<double> all;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  };
  const auto wanted = losses(7, {});
  EXPECT_EQ(wanted.size(), 4u);
  EXPECT_EQ(losses(42, 7), wanted);
  EXPECT_NE(losses(42, {}), wanted);
}

TEST_F(SeveralRuns, EvaluationAfterAStoppedOneIsThatOutsideOfTraining) {
  args_.bf16_full_eval = true;
  EXPECT_NE(error_of_stopped(), "");
  const double after = trainer_->evaluate(data_)["eval_loss"];
  trainer_->save_model(folder_ / "stopped");
  EXPECT_EQ(trainer(folder_ / "stopped").evaluate(data_)["eval_loss"], after);
}

/// --bf16_full_eval is for evaluations outside of a training; those within are in its dtype.
TEST_F(SeveralRuns, FullEvaluationIsNotThatOfATraining) {
  args_.save_strategy = "no";
  args_.eval_strategy = "steps", args_.eval_steps = 3;
  std::vector<double> within, after;
  for (const bool full : {false, true}) {
    args_.bf16_full_eval = full;
    trainer().train();
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("eval_loss")) within.push_back(entry["eval_loss"]);
    after.push_back(trainer_->evaluate(data_)["eval_loss"]);
  }
  ASSERT_EQ(within.size(), 2u);
  EXPECT_EQ(within[0], within[1]);
  EXPECT_EQ(after[0], within[0]);
  EXPECT_NE(after[1], after[0]);
}

/// What a frozen base gives is kept of the evaluation data alone.
TEST_F(SeveralRuns, OtherDataThanThoseWhoseBaseIsKeptAreEvaluatedAnew) {
  args_.freeze_base_model = true;
  args_.eval_strategy = "steps", args_.eval_steps = 3;
  trainer().train();
  TokenizedDataset other = four_samples();
  for (int32_t& id : other.input_ids) id += 20;
  const nlohmann::json found = trainer_->evaluate(other);
  EXPECT_NE(found["eval_loss"], trainer_->evaluate(data_)["eval_loss"]);
  trainer_->save_model(folder_ / "trained");
  EXPECT_EQ(trainer(folder_ / "trained").evaluate(other)["eval_loss"], found["eval_loss"]);
}

/// The base that is kept is that of the training's dtype.
TEST_F(SeveralRuns, AFullEvaluationInAnotherDtypeRunsTheBaseAnew) {
  args_.freeze_base_model = true;
  args_.bf16_full_eval = true;
  args_.eval_strategy = "steps", args_.eval_steps = 3;
  trainer().train();
  const nlohmann::json found = trainer_->evaluate(data_);
  trainer_->save_model(folder_ / "trained");
  EXPECT_EQ(trainer(folder_ / "trained").evaluate(data_)["eval_loss"], found["eval_loss"]);
}

/// Weights in integers are kept from one evaluation to the next, but not behind an update.
TEST_F(SeveralRuns, AnEvaluationInIntegersIsOfTheWeightsAsTheyAre) {
  args_.int8 = true;
  for (const char* optimizer : {"sgd", "adafactor", "adamw_torch"}) {
    args_.optim = optimizer;
    const nlohmann::json before = trainer().evaluate(data_);
    trainer_->train();
    const nlohmann::json after = trainer_->evaluate(data_);
    EXPECT_NE(after["eval_loss"], before["eval_loss"]);
    trainer_->save_model(folder_ / "trained");
    EXPECT_EQ(trainer(folder_ / "trained").evaluate(data_)["eval_loss"], after["eval_loss"]) << optimizer;
  }
}

TEST_F(SeveralRuns, ALossIsTheMeanOfSamplesNotOfBatches) {
  args_.per_device_eval_batch_size = 4;
  const double wanted = trainer().evaluate(data_)["eval_loss"];
  args_.per_device_eval_batch_size = 3;                                               // and a batch of one
  EXPECT_NEAR(trainer().evaluate(data_)["eval_loss"], wanted, 8 * 0x1p-24 * wanted);  // sums of four, in f32
}

TEST_F(SeveralRuns, WhatHasNoLabelsHasNoScores) {
  evaluate({});  // a score that is asked for is one too many
  TokenizedDataset unlabelled = four_samples();
  unlabelled.labels.clear();
  const nlohmann::json found = trainer().evaluate(unlabelled);
  EXPECT_TRUE(found.contains("eval_runtime"));
  for (const char* key : {"eval_loss", "eval_score"}) EXPECT_FALSE(found.contains(key)) << key;
}

/// The gradient of a squared error may be finite where the error itself is not.
TEST_F(SeveralRuns, ALossThatIsNotFiniteTouchesNoWeight) {
  data_.labels.clear();
  data_.targets = {0, 1, 1e29f, 0};
  data_.num_targets = 1;
  args_.logging_steps = 1;
  AutoModel model = from_pretrained(real_file_system(), kTinyModel, {Problem::kRegression, {"x"}, true});
  Trainer trainer(*backend_, model, args_, &data_, nullptr);
  const std::vector<float> before = trainer.session().read_state("parameters");
  try {
    trainer.train();
    ADD_FAILURE() << "the loss is infinite";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNonFinite);
    EXPECT_TRUE(std::string(error.what()).starts_with("step 1: loss inf, gradient norm ")) << error.what();
    EXPECT_EQ(std::string(error.what()).find("norm inf"), std::string::npos) << error.what();
  }
  EXPECT_EQ(trainer.session().read_state("parameters"), before);
}

TEST_F(SeveralRuns, ItsLastStepIsSavedAndEvaluatedThoughNoneIsDue) {
  args_.save_steps = 2;
  evaluate({0.1, 0.2});
  args_.eval_steps = 2;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-2", "checkpoint-3"}));
  EXPECT_EQ(logged("eval_score"), (Steps{2, 3}));
}

TEST_F(SeveralRuns, ItsLastStepAloneIsSavedWhereNoneIsBetween) {
  args_.save_steps = 0;
  trainer().train();
  EXPECT_EQ(found(), (Names{"checkpoint-3"}));
}

TEST_F(SeveralRuns, APartOfAnEpochIsTheUpdatesThatItBegins) {
  args_.per_device_train_batch_size = 1;  // four updates per epoch
  args_.max_steps = -1;
  for (const auto& [epochs, updates] : {std::pair{0.3, 2}, {1.0, 4}, {1.1, 5}}) {
    args_.num_train_epochs = epochs;
    EXPECT_EQ(trainer().plan().max_steps, updates) << epochs;
    EXPECT_EQ(trainer().plan().epochs, epochs > 1 ? 2 : 1) << epochs;
  }
}

TEST_F(SeveralRuns, ABatchThatIsNotFullIsLeftOutWhereAskedFor) {
  args_.per_device_train_batch_size = 3;  // of four samples
  EXPECT_EQ(trainer().plan().updates_per_epoch, 2);
  args_.dataloader_drop_last = true;
  EXPECT_EQ(trainer().plan().updates_per_epoch, 1);
  trainer_->train();
  EXPECT_EQ(trainer_->state().epoch, 3);  // one update each
}

TEST_F(SeveralRuns, RatesGrowAsLongAsTheWarmupSays) {
  args_.save_strategy = "no";
  args_.max_steps = 4;
  args_.logging_steps = 1;
  args_.learning_rate = 0.5;
  const auto rates = [&] {
    trainer().train();
    std::vector<double> all;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("learning_rate")) all.push_back(entry["learning_rate"]);
    return all;
  };
  EXPECT_EQ(rates(), (std::vector<double>{0.5, 0.375, 0.25, 0.125}));
  args_.warmup_steps = 2;
  EXPECT_EQ(rates(), (std::vector<double>{0, 0.25, 0.5, 0.25}));
  args_.warmup_steps = 0, args_.warmup_ratio = 0.25;
  EXPECT_EQ(rates().at(0), 0);
  EXPECT_EQ(rates().at(1), 0.5);
}

/// Plain SGD goes as far as the gradient is long, or may be: torch divides by the norm and 1e-6.
TEST_F(SeveralRuns, AnUpdateIsAsLongAsTheGradientMayBe) {
  args_.save_strategy = "no";
  args_.optim = "sgd";
  args_.max_steps = 1, args_.logging_steps = 1;
  args_.learning_rate = 1;
  for (const double most : {0.01, 0.0}) {  // 0: no limit
    args_.max_grad_norm = most;
    Trainer& t = trainer();
    const std::vector<float> before = weights();
    t.train();
    const std::vector<float> after = weights();
    double sum = 0;
    for (size_t i = 0; i < before.size(); ++i) sum += std::pow(double{after[i]} - double{before[i]}, 2);
    const double norm = t.state().log_history.at(0).at("grad_norm");
    EXPECT_GT(norm, 1);
    // The norm is a sum of so many squares in f32; what is added to weights of about 1 is rounded to 2^-24.
    const double n = static_cast<double>(before.size()), wanted = most > 0 ? most : norm;
    EXPECT_NEAR(std::sqrt(sum), wanted, wanted * (n * 0x1p-25 + 1e-6) + std::sqrt(n) * 0x1p-24) << most;
  }
}

/// A learning rate of 0 leaves masks as all that can change a loss.
TEST_F(SeveralRuns, MasksAreOtherOnesInEachUpdateAndWithEachSeed) {
  args_.save_strategy = "no";
  args_.learning_rate = 0;
  args_.train_sampling_strategy = "sequential";
  args_.logging_steps = 1;
  const auto losses = [&](int64_t seed, double dropout) {
    ModelConfig config = read_model_config(real_file_system(), kTinyModel);
    config.hidden_dropout_prob = dropout;
    AutoModel model = from_config(config, {Problem::kSingleLabel, config_labels(config)}, std::nullopt);
    model.checkpoint = open_checkpoint(real_file_system(), kTinyModel);
    args_.seed = seed;
    Trainer trainer(*backend_, model, args_, &data_, nullptr);
    trainer.train();
    std::vector<double> all;
    for (const auto& entry : trainer.state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  };
  const std::vector<double> without = losses(7, 0), with = losses(7, 0.1), other = losses(8, 0.1);
  EXPECT_EQ(without, std::vector<double>(3, without.at(0)));
  EXPECT_EQ(losses(7, 0.1), with);
  for (size_t i = 0; i < with.size(); ++i) {
    EXPECT_NE(with[i], without[i]);
    EXPECT_NE(with[i], with[(i + 1) % with.size()]);
    EXPECT_NE(with[i], other.at(i));
  }
}

/// A learning rate of 0 leaves the samples of an update as all that can change its loss.  Source:
/// transformers' Trainer._get_train_sampler, whose groups are as large as an update.
TEST_F(SeveralRuns, LengthsAreGroupedOverAllBatchesOfAnUpdate) {
  data_ = {};
  for (int32_t sample = 0; sample < 12; ++sample) {
    for (int32_t token = 0; token <= sample; ++token)
      data_.input_ids.push_back(5 + (7 * sample + token) % 90);
    data_.begins.push_back(std::ssize(data_.input_ids));
    data_.labels.push_back(sample % 3 % 2);
  }
  data_.type_ids.resize(data_.input_ids.size());
  args_.save_strategy = "no";
  args_.learning_rate = 0;
  args_.logging_steps = 1;
  args_.max_steps = 6;  // two epochs
  args_.train_sampling_strategy = "group_by_length";
  const auto losses = [&](int64_t batch_size) {
    args_.per_device_train_batch_size = batch_size, args_.gradient_accumulation_steps = 4 / batch_size;
    trainer().train();
    std::vector<double> all;
    for (const auto& entry : trainer_->state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  };
  const std::vector<double> whole = losses(4), single = losses(1);
  ASSERT_EQ(whole.size(), 6u);
  for (size_t i = 0; i < whole.size(); ++i)  // a mean in f32: three additions and a division
    EXPECT_NEAR(single.at(i), whole[i], 4 * 0x1p-24 * whole[i]) << i;
}

TEST_F(SeveralRuns, NewWeightsFollowTheSeed) {
  const auto drawn = [&](int64_t seed) {
    AutoModel model = from_config(read_model_config(real_file_system(), kTinyModel),
                                  {Problem::kSingleLabel, {"a", "b"}}, std::nullopt);
    args_.seed = seed, args_.data_seed = 1;
    return Trainer(*backend_, model, args_, &data_, nullptr).session().read_state("parameters");
  };
  const std::vector<float> seven = drawn(7);
  EXPECT_EQ(drawn(7), seven);
  EXPECT_NE(drawn(8), seven);
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

TEST_F(SeveralRuns, ALimitOfOneLeavesTheBestAtTheEnd) {
  args_.save_total_limit = 1;
  args_.load_best_model_at_end = true;
  evaluate({0.1, 0.9, 0.1});
  trainer().train();
  EXPECT_EQ(found(), Names{"checkpoint-2"});
}

/// A run that is killed goes on from the last one.
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
