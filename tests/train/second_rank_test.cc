// What a rank other than the first does, in a group of two.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/train/four_sample_runs_testing.h"

namespace lathe {
namespace {

/// The second of two ranks; the first repeats what this one says.
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
  Status barrier() override { return gone_ ? Status(ErrorCode::kIo, "rank 0 is gone") : Status(); }
  std::optional<int> gone() const override { return gone_; }
  std::optional<int> gone_;
};

/// A second rank whose first rank says something else.
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

/// A second rank whose first rank has a model of zeros.
class RankBesideZeros : public SecondRank {
 public:
  Status broadcast(std::span<std::byte> bytes, int) override {
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    return {};
  }
};

class SecondOfTwoRanks : public FourSampleRuns {};

TEST_F(SecondOfTwoRanks, ARankThatIsNotTheMainOneLeavesTheFolderAlone) {
  const std::string left = folder_ / "out/.tmp-checkpoint-9-999999999-0";
  ASSERT_TRUE(real_file_system().create_directories(left).ok());
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  trainer().train();
  EXPECT_TRUE(std::filesystem::exists(left));
}

TEST_F(SecondOfTwoRanks, ARankKeepsItsShardOfTheStatesWhereAskedFor) {
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  const size_t whole = trainer().session().parameters().read_state("exp_avg").size();
  args_.zero_stage = 1;
  EXPECT_LT(trainer().session().parameters().read_state("exp_avg").size(),
            whole / 2 + 64);  // of whole vectors
}

TEST_F(SecondOfTwoRanks, RanksGoOnFromOneStepWithTheSameWeights) {
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

TEST_F(SecondOfTwoRanks, ARankThatIsGoneEndsAnEvaluationBeforeItsLastBatch) {
  const auto rank = std::make_shared<SecondRank>();
  backend_ = open_device("cpu", {.threads = 1, .group = rank});
  args_.per_device_eval_batch_size = 1;
  int64_t seen = 0;
  hooks_.on_evaluation_step = [&](int64_t batch, int64_t batches) {
    EXPECT_EQ(batches, 2);
    seen = batch;
    if (batch == 1) rank->gone_ = 0;
  };
  try {
    trainer().evaluate(data_);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_STREQ(error.what(), "rank 0 is gone");
  }
  EXPECT_EQ(seen, 1);
}

TEST_F(SecondOfTwoRanks, ABatchForOneOfTwoRanksIsLeftOutAndTheErrorCountsThem) {
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  args_.dataloader_drop_last = true;
  EXPECT_EQ(error_of(),
            "--dataloader_drop_last leaves no batch: 4 samples, batches of 4 for each of 2 processes; "
            "lower --per_device_train_batch_size or leave the flag out");
}

/// Only it writes checkpoints, perhaps where the others do not see them.
TEST_F(SecondOfTwoRanks, RanksTakeTheBestModelFromTheFirst) {
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<RankBesideZeros>()});
  args_.load_best_model_at_end = true;
  evaluate({0.9, 0.1, 0.1});
  trainer().train();
  EXPECT_EQ(weights(), std::vector<float>(weights().size(), 0));
}

TEST_F(SecondOfTwoRanks, RanksThatAreToStopDuringAnEvaluationStopBehindIt) {
  backend_ = open_device("cpu", {.threads = 1, .group = std::make_shared<SecondRank>()});
  args_.eval_strategy = "steps";
  args_.eval_steps = 1;
  bool asked = false;
  hooks_.on_evaluation_step = [&](int64_t, int64_t) { asked = true; };
  hooks_.should_stop = [&] { return asked; };
  EXPECT_EQ(error_of(), "interrupted after step 1; its checkpoint is " + folder_ / "out/checkpoint-1");
}

/// transformers 5 takes a classifier's loss for a sum and multiplies it by the number of ranks.
TEST_F(SecondOfTwoRanks, RanksAddUpTheirMeansWhereTransformersDoes) {
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

}  // namespace
}  // namespace lathe
