// Out of memory is foreseen, and what is said to fit does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <regex>

#include "lathe/core/error.h"
#include "lathe/core/test_folder.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/trainer.h"
#include "tests/conformance/limited_device.h"
#include "tests/conformance/made_batch.h"

namespace lathe::memory_test {
namespace {

/// Rows of 2 to 32 tokens.
TokenizedDataset data(int samples) {
  TokenizedDataset d;
  for (int i = 0; i < samples; ++i) {
    for (int t = 0; t < 2 + i * 7 % 31; ++t) {
      d.input_ids.push_back((3 * i + 5 * t) % 40);
      d.type_ids.push_back(0);
    }
    d.begins.push_back(static_cast<int64_t>(d.input_ids.size()));
    d.tensors.ints("labels").push_back(i % 2);
  }
  return d;
}

/// each: rows of a sample, if it has several.
Work step_of(int64_t samples, int64_t each = 1) {
  return {ProgramKind::kStep, {32 * each * samples, each * samples, 0, each > 1 ? samples : 0}};
}

std::string error_of(Session& session, const Work& work) {
  try {
    session.programs().reserve({&work, 1});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    return error.what();
  }
  return "";
}

int64_t number_in(const std::string& text, const std::string& before) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(before + "([0-9]+)")) ? std::stoll(found[1]) : -1;
}

TEST(Memory, IsForeseenToTheByteAndNotWantedTwice) {
  Limited device;
  AutoModel m = model();
  Session session(device, *m.model, {});
  initialize(session.parameters(), m, 1);
  const Work work = step_of(4);
  const MemoryNeed need = session.programs().memory_need({&work, 1});
  EXPECT_EQ(need.states, 2 * sizeof(float) * static_cast<uint64_t>(session.parameters().layout().trainable));
  device.allocated = 0;
  device.free = need.total();
  session.programs().reserve({&work, 1});
  EXPECT_EQ(device.allocated, need.activations + need.states);
  EXPECT_EQ(session.programs().arena_bytes(), need.activations);
  device.free = 0;
  for (const int64_t rows : {4, 3, 1}) EXPECT_EQ(error_of(session, step_of(rows)), "") << rows;
  EXPECT_NE(error_of(session, step_of(8)), "");
}

TEST(Memory, OfShardedStatesIsThatOfTheRanksPart) {
  for (const bool sharded : {false, true}) {
    Limited device(std::make_shared<FourRanks>());
    AutoModel m = model();
    Session session(device, *m.model, {.shard_states = sharded});
    initialize(session.parameters(), m, 1);
    const Work work = step_of(4);
    const MemoryNeed need = session.programs().memory_need({&work, 1});
    const int64_t all = session.parameters().layout().trainable;
    const int64_t own = sharded ? shards_of(all, 4, 1).count() : all;
    EXPECT_LE(std::abs(own - (sharded ? all / 4 : all)), 64);
    EXPECT_EQ(need.states, 2 * sizeof(float) * static_cast<uint64_t>(own));
    device.allocated = 0;
    device.free = need.total();
    session.programs().reserve({&work, 1});
    EXPECT_EQ(device.allocated, need.activations + need.states);
  }
}

/// Some of four that run on one machine; one of the others tells less than this one, or the same.
class Neighbours : public FourRanks {
 public:
  explicit Neighbours(int local_size, double other = 1e18) : local_size_(local_size), other_(other) {}
  int local_size() const override { return local_size_; }
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine) override {
    std::vector all(4, std::vector(mine.begin(), mine.end()));
    if (mine.size() == sizeof other_) std::memcpy(all[3].data(), &other_, sizeof other_);
    return all;
  }
  Status barrier() override { return {}; }

 private:
  int local_size_;
  double other_;
};

TEST(Memory, OfAMachineIsDividedAmongItsRanks) {
  Limited device(std::make_shared<Neighbours>(2));
  AutoModel m = model();
  Session session(device, *m.model, {});
  EXPECT_EQ(session.programs().free_share(), uint64_t{1'000'000'000'000'000'000});  // what the others tell
  Limited untold(std::make_shared<Neighbours>(2, std::ldexp(1.0, 62)));
  EXPECT_FALSE(Session(untold, *m.model, {}).programs().free_share());
  const Work work = step_of(4);
  device.free = 2 * session.programs().memory_need({&work, 1}).total() - 2;
  EXPECT_EQ(session.programs().free_share(), *device.free / 2);
  try {
    session.programs().reserve({&work, 1}, session.programs().free_share());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    EXPECT_NE(std::string(error.what()).find(" GiB free for each of 2 processes; a batch of "),
              std::string::npos)
        << error.what();
  }
  *device.free += 2;
  session.programs().reserve({&work, 1}, session.programs().free_share());
  device.free = 1000;
  device.have_own_memory();
  EXPECT_EQ(session.programs().free_share(), 1000u);
}

TEST(Memory, ThatAnotherRankHasNotIsNotThere) {
  Limited device(std::make_shared<Neighbours>(2, 300));
  AutoModel m = model();
  Session session(device, *m.model, {});
  device.free = 1000;
  EXPECT_EQ(session.programs().free_share(), 300u);
}

/// A run in flight may have it when the next bucket comes.
TEST(Memory, OfADeviceThatHoldsActivationsItselfIsAskedForOnce) {
  Limited device;
  device.hold_activations();
  AutoModel m = model();
  Session session(device, *m.model, {});
  initialize(session.parameters(), m, 1);
  const Work work = step_of(4);
  device.free = session.programs().memory_need({&work, 1}).total();
  session.programs().reserve({&work, 1});
  device.free = 0;
  for (const int64_t rows : {4, 3, 1}) EXPECT_EQ(error_of(session, step_of(rows)), "") << rows;
  EXPECT_NE(error_of(session, step_of(8)), "");
}

TEST(Memory, OfTrainingIsForeseenForTheRowsOfTraining) {
  Limited device;
  AutoModel m = model();
  Session session(device, *m.model, {});
  initialize(session.parameters(), m, 1);
  const auto row_of = [&](ProgramKind kind) {
    const Work work{kind, {64, 4}};
    (void)session.programs().memory_need({&work, 1});
    return device.longest_row;
  };
  EXPECT_EQ(row_of(ProgramKind::kStep), 0);
  session.programs().expect_rows(ProgramCache::Rows::kTrained, 12);
  EXPECT_EQ(row_of(ProgramKind::kBase), 12);     // training runs it, of a frozen base
  EXPECT_EQ(row_of(ProgramKind::kEvaluate), 0);  // anything may be evaluated
  session.programs().expect_rows(ProgramCache::Rows::kEvaluated, 30);
  session.programs().expect_rows(ProgramCache::Rows::kEvaluated, 20);
  EXPECT_EQ(row_of(ProgramKind::kStep), 12);
  EXPECT_EQ(row_of(ProgramKind::kAccumulate), 12);
  EXPECT_EQ(row_of(ProgramKind::kEvaluate), 30);
}

TEST(Memory, ARowLongerThanWasSaidIsAnErrorUntilMoreIsSaid) {
  Limited device;
  AutoModel m = model();
  Session session(device, *m.model, {});
  initialize(session.parameters(), m, 1);
  const PackedBatch batch = made_batch({5, 12}, 32, 2, 1);
  std::vector<float> expected, logits;
  session.evaluate(batch, expected);
  session.programs().expect_rows(ProgramCache::Rows::kEvaluated, 11);
  try {
    session.evaluate(batch, logits);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(error.what(),
                 "a batch has a row of 12 tokens, expected at most 11, which expect_rows was told");
  }
  session.programs().expect_rows(ProgramCache::Rows::kTrained, 12);  // rows of training are evaluated, too
  session.evaluate(batch, logits);
  EXPECT_EQ(logits, expected);
  EXPECT_EQ(session.programs().size(), 1u);  // that for shorter rows is not kept
}

TEST(Memory, WhatIsSaidToFitDoesAndOneRowMoreDoesNot) {
  for (const int which : {0, 1, 2}) {
    const bool recomputes = which == 1;
    const int64_t each = which == 2 ? 4 : 1, most = 4096 / each;
    Limited device;
    AutoModel m = each > 1 ? model("bert", 2, {multiple_choice, {}}) : model();
    Session::Options options;
    options.program.recompute_every = recomputes;
    Session session(device, *m.model, options);
    initialize(session.parameters(), m, 1);
    const Work some = step_of(20 / each, each);
    device.free = session.programs().memory_need({&some, 1}).total();
    const std::string error = error_of(session, step_of(most, each));
    EXPECT_EQ(number_in(error, "training on a batch of "), most) << error;
    EXPECT_EQ(number_in(error, "a batch of [0-9]+ .(?=[0-9]+ tokens. needs)"), 131072) << error;
    const int64_t fits = number_in(error, "free; a batch of ");
    EXPECT_GE(fits, 20 / each) << error;
    const Work more = step_of(fits + 1, each);
    EXPECT_GT(session.programs().memory_need({&more, 1}).total(), *device.free);
    EXPECT_EQ(error_of(session, step_of(fits, each)), "");
    if (!recomputes) {
      EXPECT_GT(number_in(error, "--gradient_checkpointing one of "), fits) << error;
    }
    EXPECT_EQ(error.find("--gradient_checkpointing") == std::string::npos, recomputes) << error;
    EXPECT_NE(error.find("--gradient_accumulation_steps"), std::string::npos) << error;
  }
}

TEST(Memory, NoRowFitsOrTheDeviceDoesNotTell) {
  Limited device;
  AutoModel m = model();
  Session session(device, *m.model, {});
  initialize(session.parameters(), m, 1);
  device.free = 1000;
  EXPECT_NE(error_of(session, step_of(2)).find("no batch is small enough"), std::string::npos);
  const Work work = step_of(2);
  device.free = session.programs().memory_need({&work, 1}).states + 1000;
  EXPECT_NE(error_of(session, step_of(2)).find("not one such row fits"), std::string::npos);
  device.free = 1000;
  const std::string evaluating = error_of(session, {ProgramKind::kEvaluate, {64, 2}});
  EXPECT_NE(evaluating.find("evaluating a batch of 2 (64 tokens)"), std::string::npos) << evaluating;
  device.free.reset();
  EXPECT_EQ(error_of(session, step_of(2)), "");
}

TEST(Memory, TheLargestBatchIsAsLargeAsAnyThatComes) {
  const TokenizedDataset d = data(50);
  for (const auto strategy :
       {SamplingStrategy::kRandom, SamplingStrategy::kSequential, SamplingStrategy::kGroupByLength}) {
    SamplerOptions options;
    options.size = d.size();
    options.batch_size = 7;
    options.strategy = strategy;
    const Bucket largest = largest_batch(d, options, {2, 32}, 3);
    Bucket seen;
    BatchStream stream(d, options, {2, 32}, 0, 0, 3);
    while (const PackedBatch* batch = stream.next()) {
      seen.tokens = std::max<int64_t>(seen.tokens, batch->tokens);
      seen.rows = std::max<int64_t>(seen.rows, batch->rows);
    }
    EXPECT_EQ(largest, seen);
  }
}

TEST(Memory, RanksThatStepTogetherHaveBatchesOfOneSize) {
  const TokenizedDataset d = data(50);
  SamplerOptions options;
  options.size = d.size();
  options.batch_size = 7;
  options.world_size = 3;
  const Bucket largest = largest_batch(d, options, {2, 32}, 2);
  std::vector<std::unique_ptr<BatchStream>> streams;
  for (options.rank = 0; options.rank < 3; ++options.rank) {
    EXPECT_EQ(largest_batch(d, options, {2, 32}, 2), largest);
    streams.push_back(std::make_unique<BatchStream>(d, options, TokenRounding{2, 32}, 0, 0, 2));
  }
  Bucket seen;
  for (int batches = 0;; ++batches) {
    const PackedBatch* const first = streams[0]->next();
    std::vector<int32_t> ids = first == nullptr ? std::vector<int32_t>{} : first->input_ids;
    for (int rank = 1; rank < 3; ++rank) {
      const PackedBatch* const batch = streams[static_cast<size_t>(rank)]->next();
      ASSERT_EQ(batch == nullptr, first == nullptr);
      if (batch == nullptr) continue;
      ASSERT_EQ(batch->tokens, first->tokens);
      EXPECT_EQ(batch->all_input_ids, first->all_input_ids);
      ids.insert(ids.end(), batch->input_ids.begin(), batch->input_ids.end());
      seen = {std::max<int64_t>(seen.tokens, batch->tokens), std::max<int64_t>(seen.rows, batch->rows)};
    }
    if (first == nullptr) {
      EXPECT_EQ(batches, 2 * 3);  // 50 samples in 21 an update
      break;
    }
    EXPECT_EQ(ids, first->all_input_ids);
  }
  EXPECT_EQ(seen, largest);
}

class AutoBatch : public testing::Test {
 protected:
  AutoBatch() {
    args_.output_dir = output_.path();
    args_.per_device_train_batch_size = 12, args_.gradient_accumulation_steps = 2;
    args_.num_train_epochs = 2;
    args_.logging_steps = 1;
    args_.save_strategy = "no";
    args_.learning_rate = 1e-2;
  }

  std::vector<double> losses(Limited& device, const std::string& resume_from = "") {
    AutoModel m = model();
    TrainerHooks hooks;
    hooks.message = [&](LogLevel, const std::string& text) { messages_.push_back(text); };
    Trainer trainer(device, m, args_, &train_, nullptr, hooks);
    trainer.train(resume_from);
    size_ = trainer.arguments().per_device_train_batch_size;
    accumulation_ = trainer.arguments().gradient_accumulation_steps;
    std::vector<double> all;
    for (const auto& entry : trainer.state().log_history)
      if (entry.contains("loss")) all.push_back(entry["loss"]);
    return all;
  }
  /// What batches of this size take.
  size_t bytes_for(int64_t size) {
    Limited device;
    AutoModel m = model();
    Session session(device, *m.model, {});
    SamplerOptions options;
    options.size = train_.size();
    options.batch_size = static_cast<int>(size);
    const Work work[] = {
        {ProgramKind::kAccumulate, largest_batch(train_, options, session.token_rounding(), 2)},
        {ProgramKind::kUpdate, {}}};
    return session.programs().memory_need(work).total();
  }

  TrainingArguments args_;
  TestFolder output_;
  TokenizedDataset train_ = data(50);
  std::vector<std::string> messages_;
  int64_t size_ = 0, accumulation_ = 0;
};

TEST_F(AutoBatch, SplitsBatchesUntilTheyFitAndTheUpdateStays) {
  Limited device;
  device.free = bytes_for(6) - 1;  // 5 does not divide 24
  EXPECT_THROW(losses(device), Error);
  args_.auto_find_batch_size = true;
  const std::vector<double> found = losses(device);
  EXPECT_EQ(size_, 4);
  EXPECT_EQ(accumulation_, 6);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_NE(messages_[0].find("a batch of 12 does not fit"), std::string::npos) << messages_[0];

  args_.auto_find_batch_size = false;
  args_.per_device_train_batch_size = 4, args_.gradient_accumulation_steps = 6;
  device.free.reset();
  EXPECT_EQ(losses(device), found);
}

TEST_F(AutoBatch, LeavesABatchThatFitsAndGoesOnWithThatOfTheCheckpoint) {
  args_.auto_find_batch_size = true;
  args_.save_strategy = "steps", args_.save_steps = 2;
  Limited device;
  device.free = bytes_for(4);
  const std::vector<double> wanted = losses(device);
  EXPECT_EQ(size_, 4);
  device.free.reset();
  EXPECT_EQ(losses(device, output_ / "checkpoint-2"), wanted);
  EXPECT_EQ(size_, 4);
  args_.output_dir = output_ / "other";
  losses(device);
  EXPECT_EQ(size_, 12);
}

TEST_F(AutoBatch, RanksOfOneMachineHaveAPartOfItsMemory) {
  args_.auto_find_batch_size = true;
  const auto size = [&](int local_size, size_t free) {
    Limited device(std::make_shared<Neighbours>(local_size));
    device.free = free;
    AutoModel m = model();
    return Trainer(device, m, args_, &train_, nullptr).arguments().per_device_train_batch_size;
  };
  const size_t some = bytes_for(6);
  EXPECT_GT(size(1, some), size(2, some));
  EXPECT_EQ(size(1, some), size(2, 2 * some));
  args_.auto_find_batch_size = false;
  Limited device(std::make_shared<Neighbours>(2));
  device.free = bytes_for(12);
  try {
    losses(device);
    FAIL() << "trains";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" free for each of 2 processes"), std::string::npos)
        << error.what();
  }
}

/// --bf16_full_eval concerns evaluations outside of a training.
TEST_F(AutoBatch, EvaluationsWithinATrainingAreForeseenAsTheyRun) {
  args_.per_device_train_batch_size = 1;
  args_.per_device_eval_batch_size = 50;
  args_.eval_strategy = "epoch", args_.bf16_full_eval = true;
  Limited device;
  AutoModel m = model();
  Trainer trainer(device, m, args_, &train_, &train_);
  const TokenRounding rounding = trainer.session().token_rounding();
  const SamplerOptions all{.size = 50, .batch_size = 50, .strategy = SamplingStrategy::kSequential};
  const Work exact{
      .kind = ProgramKind::kEvaluate, .bucket = largest_batch(train_, all, rounding, 1), .dtype = DType::f32};
  const SamplerOptions one{.size = 50, .batch_size = 1};
  const Work work[] = {
      {ProgramKind::kAccumulate, largest_batch(train_, one, rounding, 2)}, {ProgramKind::kUpdate, {}}, exact};
  device.free = trainer.session().programs().memory_need(work).total() - 1;
  try {
    trainer.train();
    FAIL() << "trains";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    EXPECT_EQ(trainer.state().global_step, 0) << error.what();
  }
}

/// Those of the checkpoint are counted before they are read.
TEST_F(AutoBatch, ARunThatGoesOnWithoutRoomSaysSoWithItsStates) {
  args_.save_strategy = "steps", args_.save_steps = 2;
  Limited device;
  losses(device);
  device.free = bytes_for(12) - 1;
  try {
    losses(device, output_ / "checkpoint-2");
    FAIL() << "goes on";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    for (const char* part : {"training on a batch of 12 ", " for optimizer and gradients; cpu has "})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(AutoBatch, FindsTheBatchAtOnceWhateverWasAskedFor) {
  args_.auto_find_batch_size = true;
  args_.per_device_train_batch_size = 1'000'000'000;
  Limited device;
  device.free = bytes_for(10) - 1;  // 8 is the next divisor
  EXPECT_EQ(losses(device).size(), 2u);
  EXPECT_EQ(size_, 8);
  EXPECT_EQ(accumulation_, 250'000'000);
}

}  // namespace
}  // namespace lathe::memory_test
