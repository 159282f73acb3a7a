#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <new>

#include "lathe/backends/register.h"
#include "lathe/core/host_memory.h"
#include "lathe/core/sanitized.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/io/faulty_file_system_testing.h"
#include "lathe/io/safetensors.h"
#include "lathe/train/four_samples_testing.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

const std::string kModel = source_path("tests/golden/tiny_bert/classification");

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
  AutoModel model_ = from_pretrained(real_file_system(), kModel, {single_label, {}, false});
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
      for (const char* word : {"MB free", "needs 0.2 MB to save", "make room", "same command again"})
        EXPECT_NE(message.find(word), std::string::npos) << message;
      EXPECT_EQ(message.find("last checkpoint"), std::string::npos) << message;  // there is none
      EXPECT_EQ(files_of(folder_), before) << room;
    }
  }
  EXPECT_GT(refused, 5);  // and the first that was not refused is whole
  const auto after = files_of(folder_);
  EXPECT_EQ(after.count("config.json"), 1u);
  const auto again = from_pretrained(real_file_system(), folder_, {single_label, {}, false});
  EXPECT_EQ(again.model->parameters().size(), model_.model->parameters().size());
}

/// Who reads the folder takes model.safetensors where both are there.
TEST_F(Saving, WeightsOfTheOtherFormatDoNotStay) {
  for (const bool safetensors : {true, false, true}) {
    TrainingArguments args;
    args.save_safetensors = safetensors;
    Trainer(*backend_, model_, args, nullptr, nullptr).save_model(folder_);
    EXPECT_EQ(files_of(folder_).contains("model.safetensors"), safetensors);
    EXPECT_EQ(files_of(folder_).contains("pytorch_model.bin"), !safetensors);
  }
}

TEST_F(Saving, ADiskThatDoesNotTellItsRoomIsWrittenTo) {
  FaultyFileSystem fs(real_file_system(), {.tells_room = false});
  trainer(fs).save_model(folder_);
  EXPECT_EQ(files_of(folder_).count("model.safetensors"), 1u);
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
      for (const auto& [name, content] : whole) EXPECT_EQ(files_of(folder_).at(name), content) << name;
      if (fs.operations() > at) continue;  // the note of what it may leave is no part of it
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

/// A resumed run takes its learning rate, loss scale and reported losses from these.
TEST_F(Saving, ACheckpointKeepsEveryNumberOfARun) {
  Trainer t = trainer(real_file_system());
  const RunState run{.total_loss = 1.5,
                     .loss_updates = 2,
                     .loss_since_log = 0.25,
                     .updates_since_log = 3,
                     .updates_per_epoch = 4,
                     .data_seed = 5,
                     .seed = 6,
                     .identity = {"weights", "a summary", "a model", "a file"},
                     .skipped_updates = 7,
                     .loss_scaler = {.scale = 0.5, .growth_tracker = 8, .bad_losses = 9},
                     .metric_schedule = {{"best", 10}}};
  TrainerState state;
  state.global_step = 11;
  const TrainingArguments args;
  const std::string folder = join_path(folder_, "checkpoint-11");
  write_checkpoint(real_file_system(), folder, {model_, t.session(), state, run, {.applied = 4}, args})
      .check();
  RunState found;
  TrainerState found_state;
  EXPECT_FALSE(read_checkpoint(real_file_system(), folder, model_, t.session(), found_state, found));
  EXPECT_EQ(found_state.global_step, 11);
  EXPECT_EQ(found.total_loss, run.total_loss);
  EXPECT_EQ(found.loss_updates, run.loss_updates);
  EXPECT_EQ(found.loss_since_log, run.loss_since_log);
  EXPECT_EQ(found.updates_since_log, run.updates_since_log);
  EXPECT_EQ(found.updates_per_epoch, run.updates_per_epoch);
  EXPECT_EQ(found.data_seed, run.data_seed);
  EXPECT_EQ(found.seed, run.seed);
  EXPECT_EQ(found.identity.model, run.identity.model);
  EXPECT_EQ(found.identity.data, run.identity.data);
  EXPECT_EQ(found.identity.model_name, run.identity.model_name);
  EXPECT_EQ(found.identity.data_name, run.identity.data_name);
  EXPECT_EQ(found.skipped_updates, run.skipped_updates);
  EXPECT_EQ(found.loss_scaler.scale, run.loss_scaler.scale);
  EXPECT_EQ(found.loss_scaler.growth_tracker, run.loss_scaler.growth_tracker);
  EXPECT_EQ(found.loss_scaler.bad_losses, run.loss_scaler.bad_losses);
  EXPECT_EQ(found.metric_schedule, run.metric_schedule);
}

TEST_F(Saving, ACheckpointThatIsNotOfThisModelRunOrProgramIsRefused) {
  FileSystem& fs = real_file_system();
  Trainer t = trainer(fs);
  TrainingArguments of_sgd;
  of_sgd.optim = "sgd";
  Trainer other(*backend_, model_, of_sgd, nullptr, nullptr);
  const std::string folder = join_path(folder_, "checkpoint-1");
  const std::string weights = join_path(folder, "model.safetensors"),
                    own = join_path(folder, "lathe_state.safetensors");
  /// Of one that was changed.
  const auto error = [&](const Session& writer, ErrorCode code, const auto& change) -> std::string {
    write_checkpoint(fs, folder, {model_, writer, {}, {}, {}, TrainingArguments()}).check();
    change();
    RunState run;
    TrainerState state;
    try {
      read_checkpoint(fs, folder, model_, t.session(), state, run);
    } catch (const Error& found) {
      EXPECT_EQ(found.code(), code);
      return found.what();
    }
    return "";
  };
  const auto nothing = [] {};
  EXPECT_EQ(error(t.session(), ErrorCode::kInternal, nothing), "");
  const auto newer = [&] {
    write_safetensors(fs, own, TensorMap(), {{"format", "lathe"}, {"format_version", "5"}}).check();
  };
  EXPECT_EQ(error(t.session(), ErrorCode::kUnsupported, newer),
            own + ": format version 5, this Lathe reads up to 4; use a newer one");
  EXPECT_EQ(error(other.session(), ErrorCode::kInvalidData, nothing),
            own +
                ": written by the optimizer sgd, this run's is adamw; resume with the same --optim, or train "
                "from the beginning with another --output_dir or with --overwrite_output_dir");
  const std::string renamed = error(t.session(), ErrorCode::kInvalidData, [&] {
    std::string content = fs.read(weights).value();
    content.replace(content.find("classifier.weight"), 17, "classifier.Weight");
    fs.write_atomic(weights, content).check();
  });
  EXPECT_TRUE(renamed.starts_with(folder + ": a checkpoint of another model\n")) << renamed;
  EXPECT_NE(renamed.find("classifier.weight"), std::string::npos) << renamed;
}

/// A checkpoint holds the weights and two states of their size; what is planned before a training leaves no
/// room for one of the three.
TEST_F(Saving, ACheckpointTakesLessMemoryThanOneStateOfTheModel) {
  if (LATHE_SANITIZED) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  if (!peak_resident_bytes()) GTEST_SKIP() << "the memory of this process is not known";
  ModelConfig config;
  config.vocab_size = 60000, config.hidden_size = 64, config.num_hidden_layers = 1;
  config.num_attention_heads = 1, config.intermediate_size = 64, config.max_position_embeddings = 8;
  const int64_t state_bytes = config.vocab_size * config.hidden_size * int64_t{sizeof(float)};
  const TokenizedDataset data = four_samples();
  for (const bool safetensors : {true, false}) {
    AutoModel model = from_config(config, {single_label, {"a", "b"}}, std::nullopt);
    TrainingArguments args;
    args.output_dir = folder_;
    args.max_steps = args.logging_steps = args.save_steps = 1;
    args.save_safetensors = safetensors;
    uint64_t before = 0;
    std::optional<int64_t> grown;
    TrainerHooks hooks;
    // Right before the checkpoint, then after it.
    hooks.on_record = [&](const nlohmann::ordered_json& entry) {
      if (entry.contains("loss")) {
        reset_peak_resident();
        before = peak_resident_bytes().value();
      } else {
        grown = static_cast<int64_t>(peak_resident_bytes().value()) - static_cast<int64_t>(before);
      }
    };
    FaultyFileSystem unsynced(real_file_system(), {});  // spares the disk
    Trainer(*backend_, model, args, &data, nullptr, hooks, unsynced).train();
    ASSERT_TRUE(grown.has_value());
    EXPECT_LT(*grown, state_bytes) << safetensors;
    const std::string checkpoint = join_path(folder_, "checkpoint-1/");
    EXPECT_GT(real_file_system().read(checkpoint + "optimizer.pt").value().size(), 2 * state_bytes);
    std::filesystem::remove_all(checkpoint);
  }
}

/// It is read from where it lies in the files to where it is kept: the two states of its size, and no copy.
TEST_F(Saving, GoingOnTakesLessMemoryThanOneMoreStateOfTheModel) {
  if (LATHE_SANITIZED) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  if (!peak_resident_bytes()) GTEST_SKIP() << "the memory of this process is not known";
  ModelConfig config;  // of many tensors, none of them larger than half
  config.vocab_size = 8000, config.hidden_size = 256, config.num_hidden_layers = 2;
  config.num_attention_heads = 4, config.intermediate_size = 4096, config.max_position_embeddings = 8;
  const TokenizedDataset data = four_samples();
  const auto made = [&] { return from_config(config, {single_label, {"a", "b"}}, std::nullopt); };
  const std::string checkpoint = join_path(folder_, "checkpoint-1");
  FaultyFileSystem unsynced(real_file_system(), {});  // spares the disk
  for (const bool own : {true, false}) {
    TrainingArguments args;
    args.output_dir = folder_;
    args.max_steps = args.save_steps = 1;
    args.save_safetensors = own;
    {
      AutoModel model = made();
      Trainer(*backend_, model, args, &data, nullptr, {}, unsynced).train();
    }
    for (const char* name : {"lathe_state.safetensors", "training_args.json"})  // which are Lathe's own
      if (!own) std::filesystem::remove(join_path(checkpoint, name));
    AutoModel model = made();
    Trainer trainer(*backend_, model, args, &data, nullptr, {}, unsynced);
    const int64_t state_bytes = trainer.session().parameters().layout().trainable * int64_t{sizeof(float)};
    reset_peak_resident();
    const auto before = static_cast<int64_t>(peak_resident_bytes().value());
    trainer.train(checkpoint);
    const int64_t grown = static_cast<int64_t>(peak_resident_bytes().value()) - before;
    EXPECT_EQ(trainer.state().global_step, 1);
    EXPECT_GT(grown, 2 * state_bytes);
    EXPECT_LT(grown, 3 * state_bytes) << own;
    std::filesystem::remove_all(checkpoint);
  }
}

TEST_F(Saving, MemoryThatEndsInItIsNoMatterOfTheBatch) {
  class Short : public FaultyFileSystem {
   public:
    using FaultyFileSystem::FaultyFileSystem;
    Result<std::unique_ptr<WritableFile>> create(const std::string&) override { throw std::bad_alloc(); }
  } fs(real_file_system(), {});
  try {
    trainer(fs).save_model(folder_);
    ADD_FAILURE() << "saved without memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMemory);
    EXPECT_TRUE(std::string(error.what()).starts_with(folder_ + ": out of memory while it was saved"))
        << error.what();
  }
}

TEST_F(Saving, WantsAFolder) {
  try {
    trainer(real_file_system()).save_model("");
    ADD_FAILURE() << "wrote into the working directory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("expected a folder"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lathe
