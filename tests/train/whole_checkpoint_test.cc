// A checkpoint is gone on from only as it was written.
#include "lathe/train/whole_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "lathe/core/source_folder_testing.h"
#include "lathe/io/json_file.h"
#include "lathe/io/model_folder.h"
#include "lathe/text/python_format.h"
#include "tests/train/four_sample_runs_testing.h"
#include "tests/train/unsealed_testing.h"

namespace lathe {
namespace {

namespace stdfs = std::filesystem;

class WholeCheckpoint : public FourSampleRuns {
 protected:
  /// A run of three checkpoints.
  void SetUp() override { trainer().train(); }

  std::string at(int step) const { return folder_ / ("out/checkpoint-" + std::to_string(step)); }

  static std::string content(const std::string& path) { return real_file_system().read(path).value(); }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;  // spares the disk a sync
  }
  static void flip(const std::string& path, size_t byte, int bit) {
    std::string text = content(path);
    text.at(byte) = static_cast<char>(text.at(byte) ^ (1 << bit));
    write(path, text);
  }

  /// What check_whole refuses it with; "whole" or "not known" where it does not.
  static std::string check(const std::string& folder) {
    try {
      return check_whole(real_file_system(), folder) ? "whole" : "not known";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidData);
      return error.what();
    }
  }

  /// Of the third: `path` is the first that is named, and the second is the way out.
  void expect_refused(const std::string& path, const std::string& found, const std::string& what) {
    const std::string text = check(at(3));
    EXPECT_TRUE(text.starts_with(path + ": " + found)) << what << ": " << text;
    EXPECT_NE(text.find("whole one before it is " + at(2) + ": --resume_from_checkpoint " + at(2)),
              std::string::npos)
        << what << ": " << text;
  }

  /// A value of trainer_state.json, of a checkpoint without digests.
  std::string error_with(const nlohmann::json& changes) {
    const std::string path = join_path(at(2), kTrainerStateFile), before = content(path);
    nlohmann::json state = nlohmann::json::parse(before);
    state.update(changes);
    write(path, python_json(state, 2));
    const std::string error = error_of(at(2));
    write(path, before);
    return error;
  }
};

TEST_F(WholeCheckpoint, EveryFileWithAFlippedBitIsRefused) {
  const Names files = real_file_system().list(at(3)).value();
  EXPECT_GE(files.size(), 12u);
  ASSERT_EQ(check(at(3)), "whole");
  int bit = 0;
  for (const std::string& name : files) {
    const std::string path = join_path(at(3), name), before = content(path);
    for (const size_t byte : {size_t{0}, before.size() / 3, before.size() / 2, before.size() - 1}) {
      flip(path, byte, bit = (bit + 3) % 8);
      expect_refused(path, name == kStateFile ? "" : "found other bytes than were written",
                     fmt::format("byte {}", byte));
      write(path, before);
    }
  }
  EXPECT_EQ(check(at(3)), "whole");
}

/// But for spaces that pad the header and the case of hexadecimal digits, which say nothing.
TEST_F(WholeCheckpoint, ItsOwnStateNoticesEveryBit) {
  const std::string path = join_path(at(3), kStateFile), before = content(path);
  const auto metadata = open_state(real_file_system(), at(3)).metadata();
  int bit = 0;
  for (size_t byte = 0; byte < before.size(); byte += 11) {
    flip(path, byte, bit = (bit + 3) % 8);
    try {
      EXPECT_EQ(open_state(real_file_system(), at(3)).metadata(), metadata) << byte << " " << bit;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
    }
    write(path, before);
  }
}

TEST_F(WholeCheckpoint, EveryFileThatIsMissingCutLongerOrOfAnotherStepIsRefused) {
  for (const std::string& name : real_file_system().list(at(3)).value()) {
    const std::string path = join_path(at(3), name), before = content(path);
    stdfs::remove(path);
    expect_refused(path, name == kStateFile ? "missing, though Lathe wrote" : "cannot open: No such file",
                   "missing");
    const std::string bytes = fmt::format("expected the {} that were written", before.size());
    for (const std::string& other : {before.substr(0, before.size() - 1), before + '\n', std::string()}) {
      write(path, other);
      expect_refused(path, name == kStateFile ? "" : fmt::format("found {} bytes, {}", other.size(), bytes),
                     "resized");
    }
    const std::string of_second = content(join_path(at(2), name));
    write(path, of_second);
    if (of_second != before)
      expect_refused(name == kStateFile ? join_path(at(3), "model.safetensors") : path, "found ",
                     "of step 2");
    write(path, before);
  }
  EXPECT_EQ(check(at(3)), "whole");
}

TEST_F(WholeCheckpoint, NothingIsLoadedOfOneThatIsNot) {
  flip(join_path(at(3), "optimizer.pt"), 5000, 1);
  flip(join_path(at(3), "scheduler.pt"), 100, 1);
  Trainer& again = trainer();
  const std::vector<float> before = weights();
  try {
    again.train(at(3));
    ADD_FAILURE() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              join_path(at(3), "optimizer.pt") +
                  ": found other bytes than were written; nor are whole: scheduler.pt: the checkpoint is "
                  "damaged, or was edited. The last whole one before it is " +
                  at(2) + ": --resume_from_checkpoint " + at(2) +
                  " goes on from there; a new run begins without, by --overwrite_output_dir, or with the "
                  "weights of this one by --model_name_or_path " +
                  at(3));
  }
  EXPECT_EQ(weights(), before);
  EXPECT_EQ(error_of(at(2)), "");
}

TEST_F(WholeCheckpoint, OnlyOneThatIsWholeIsNamedForIt) {
  flip(join_path(at(3), "model.safetensors"), 4000, 7);
  flip(join_path(at(2), "trainer_state.json"), 40, 0);
  const std::string error = check(at(3));
  EXPECT_NE(error.find("whole one before it is " + at(1) + ":"), std::string::npos) << error;
  EXPECT_EQ(error.find("--model_name_or_path"), std::string::npos) << error;  // its weights are damaged
  make_unsealed(at(1));
  EXPECT_NE(check(at(3)).find("No older one beside it is known to be whole; "), std::string::npos);
  stdfs::remove_all(at(1));
  EXPECT_NE(check(at(2)).find("No older one beside it is known to be whole; "), std::string::npos);
}

TEST_F(WholeCheckpoint, GoesOnUnderAnotherNameAndInAnotherPlace) {
  stdfs::rename(at(2), folder_ / "moved");
  write(folder_ / "moved/notes.txt", "of the user");
  EXPECT_EQ(check(folder_ / "moved/"), "whole");
  EXPECT_EQ(error_of(folder_ / "moved"), "");
  flip(folder_ / "moved/rng_state.pth", 1000, 2);
  stdfs::create_directory(folder_ / "alone");
  stdfs::rename(folder_ / "moved", folder_ / "alone/moved");
  EXPECT_NE(check(folder_ / "alone/moved").find("No older one"), std::string::npos);
}

TEST_F(WholeCheckpoint, WeightsThatReadersWouldTakeInPlaceOfItsOwnAreRefused) {
  args_.save_safetensors = false;
  trainer().train();
  ASSERT_EQ(check(at(3)), "whole");
  stdfs::copy(join_path(kTinyModel, "model.safetensors"), at(3));
  expect_refused(join_path(at(3), "model.safetensors"), "found weights that were not written with", "beside");
}

TEST_F(WholeCheckpoint, IsOfTheModelThatIsTrained) {
  const std::string other = folder_ / "other";
  stdfs::copy(kTinyModel, other);
  const std::string path = join_path(other, "config.json");
  const nlohmann::json config = read_json(real_file_system(), path);
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"num_attention_heads", 2},
           {"hidden_act", "relu"},
           {"layer_norm_eps", 1e-5},
           {"hidden_dropout_prob", 0.25},
           {"attention_probs_dropout_prob", 0.125},
           {"classifier_dropout", 0.5},
           {"id2label", {{"0", "a"}, {"1", "c"}, {"2", "b"}}}}) {
    nlohmann::json changed = config;
    changed[key] = value;
    write(path, changed.dump());
    for (const bool sealed : {true, false}) {
      if (!sealed) make_unsealed(at(2));
      std::string error;
      try {
        trainer(other).train(at(2));
      } catch (const Error& found) {
        error = found.what();
      }
      EXPECT_TRUE(error.starts_with(join_path(at(2), "config.json") + ": \"" + key + "\": found "))
          << key << ": " << error;
      EXPECT_NE(error.find("take the same --model_name_or_path"), std::string::npos) << error;
    }
  }
  nlohmann::json same = config;  // what nothing is computed with
  same["initializer_range"] = 0.5;
  same["transformers_version"] = "9";
  write(path, same.dump());
  EXPECT_NO_THROW(trainer(other).train(at(2)));
}

TEST_F(WholeCheckpoint, ItsStateIsOneThatARunCanBeIn) {
  make_unsealed(at(2));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const int64_t huge = int64_t{1} << 62;
  const auto entry = [](const nlohmann::json& step) {
    return nlohmann::json{{"log_history", {{{"loss", 1.0}, {"step", step}}}}};
  };
  ASSERT_EQ(error_with(nlohmann::json::object()), "");
  for (const auto& [changes, words] : std::vector<std::pair<nlohmann::json, std::string>>{
           {{{"global_step", -1}}, "\"global_step\": found -1, expected 0 to"},
           {{{"global_step", huge}}, "\"global_step\": found 4611686018427387904, expected 0 to"},
           {{{"global_step", 4}}, "\"global_step\": found 4, expected 3 at most, its max_steps"},
           {{{"global_step", 4}, {"max_steps", 0}},
            "\"global_step\": found 4, expected 3 at most, the updates of"},
           {{{"global_step", 1}}, "of step 2, trainer_state.json of step 1: not of one checkpoint"},
           {{{"max_steps", -3}}, "\"max_steps\": found -3, expected 0 to"},
           {{{"max_steps", huge}}, "\"max_steps\": found"},
           {{{"epoch", kNan}}, "\"epoch\": found nan, expected a number from 0"},
           {{{"epoch", -0.5}}, "\"epoch\": found -0.5, expected a number from 0"},
           {{{"epoch", 0.75}}, "\"epoch\": found 0.75, expected 1 to 2: step 2 with 1 updates per epoch"},
           {{{"epoch", 3}}, "\"epoch\": found 3, expected 1 to 2: step 2 with 1 updates per epoch"},
           {{{"epoch", 4}}, "\"epoch\": found 4, expected 3 at most, its num_train_epochs"},
           {{{"num_train_epochs", -1}}, "\"num_train_epochs\": found -1"},
           {{{"train_batch_size", 0}}, "\"train_batch_size\": found 0, expected 1 to"},
           {{{"train_batch_size", huge}}, "\"train_batch_size\": found"},
           {{{"num_input_tokens_seen", -7}}, "\"num_input_tokens_seen\": found -7"},
           {{{"total_flos", -1}}, "\"total_flos\": found -1"},
           {{{"best_global_step", 3}}, "\"best_global_step\": found 3, expected 0 to 2"},
           {{{"best_model_checkpoint", "out/checkpoint-3"}},
            "\"best_model_checkpoint\": found out/checkpoint-3, expected one of step 2 at most"},
           {entry(3), "log_history[0].step: found 3, expected 0 to 2, the global_step"},
           {entry(-1), "log_history[0].step: found -1, expected 0 to 2"}}) {
    const std::string error = error_with(changes);
    EXPECT_NE(error.find(words), std::string::npos) << changes << ": " << error;
    EXPECT_NE(error.find("trainer_state.json"), std::string::npos) << error;
    EXPECT_NE(error.find("take "), std::string::npos) << error;
  }
  args_.max_steps = 1;  // a run that is over, and more
  EXPECT_EQ(error_of(at(2)), "");
}

TEST_F(WholeCheckpoint, AnOptimizerOfAnotherStepIsRefusedWithoutDigestsToo) {
  make_unsealed(at(3));
  for (const char* name : {"optimizer.pt", "scheduler.pt"})
    write(join_path(at(3), name), content(join_path(at(1), name)));
  EXPECT_EQ(error_of(at(3)),
            join_path(at(3), "optimizer.pt") +
                ": found 1 updates, expected 3: of another step; take a checkpoint that is whole");
}

TEST_F(WholeCheckpoint, TheBestModelIsOneThatWasWritten) {
  for (const bool only_model : {false, true}) {
    args_.load_best_model_at_end = true;
    args_.save_only_model = only_model;
    stdfs::remove_all(folder_ / "out");
    evaluate({0.9, 0.1, 0.1});
    hooks_.on_step = [&](int64_t step, int64_t, std::optional<double>) {
      if (step == 2) flip(join_path(at(1), "model.safetensors"), 70'000, 4);
    };
    const std::string error = error_of();
    if (only_model) continue;  // such a one keeps no digests
    EXPECT_EQ(error,
              join_path(at(1), "model.safetensors") +
                  ": found other bytes than were written: the checkpoint is damaged, or was edited: the best "
                  "model cannot be loaded. The same command without --load_best_model_at_end ends with the "
                  "weights of the last step");
  }
}

/// Folders that earlier Lathes wrote, and one of Hugging Face's Trainer.
TEST_F(WholeCheckpoint, OfAnOlderFormatGoesOnAndIsSaidToTellNothing) {
  const std::string python = source_path("tests/golden/python_checkpoint/checkpoint-6");
  for (const std::string& folder :
       {source_path("tests/golden/old_checkpoints/format_1/checkpoint-6"),
        source_path("tests/golden/old_checkpoints/format_2/checkpoint-6"), python}) {
    EXPECT_EQ(check(folder), "not known") << folder;
    args_.output_dir = folder_ / "other";
    args_.max_steps = 8;
    args_.save_strategy = "no";
    said_.clear();
    model_ = from_pretrained(real_file_system(), python, {single_label, {}, false});
    trainer_ = std::make_unique<Trainer>(*backend_, model_, args_, &data_, &data_, hooks_);
    EXPECT_EQ(trainer_->train(folder).global_step, 8);
    const std::string words = folder + ": keeps no digests of its files, ";
    ASSERT_NE(said_.find(words), std::string::npos) << said_;
    EXPECT_EQ(said_.find(words, said_.find(words) + 1), std::string::npos) << said_;
    EXPECT_EQ(said_.find("WARNING " + words), std::string::npos) << said_;
  }
}

}  // namespace
}  // namespace lathe
