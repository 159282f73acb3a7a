// With a frozen base its output is kept from epoch to epoch: the same bits as running it every time.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/core/error.h"
#include "lathe/core/philox.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/engine/base_cache.h"
#include "lathe/io/json_file.h"
#include "lathe/train/trainer.h"

namespace lathe::frozen_base_test {
namespace {

struct Setting {
  const char* name;
  MakeTask task;
  bool bf16 = false;
  double classifier_dropout = 0;
  int64_t accumulation = 1;
};

constexpr int64_t kLabels = 3;

/// Rows of 1 to 24 tokens of the tiny model's vocabulary, one each or, to choose from, two to four.
TokenizedDataset make_data(MakeTask task, int64_t samples, uint32_t seed) {
  TokenizedDataset data;
  const auto draw = [&](int64_t i, int64_t j, uint32_t below) {
    return static_cast<int32_t>(
        philox({static_cast<uint32_t>(i), static_cast<uint32_t>(j), 0, 0}, seed, 0)[0] % below);
  };
  const auto add_row = [&](int64_t i) {
    const int32_t length = 1 + draw(i, 1000, 24);
    for (int32_t t = 0; t < length; ++t) {
      data.input_ids.push_back(draw(i, t, 115));
      data.type_ids.push_back(static_cast<uint8_t>(t > length / 2));
    }
    data.begins.push_back(static_cast<int64_t>(data.input_ids.size()));
    return length;
  };
  for (int64_t i = 0; i < samples; ++i) {
    const int32_t length = add_row(i);
    if (task == multiple_choice) {
      const int32_t rows = 2 + draw(i, 3000, 3);
      for (int32_t row = 1; row < rows; ++row) add_row(i + row * samples);
      data.end_sample();
      data.tensors.ints("labels").push_back(draw(i, 2000, static_cast<uint32_t>(rows)));
    }
    if (task == single_label) data.tensors.ints("labels").push_back(draw(i, 2000, kLabels));
    if (task == question_answering) {
      data.tensors.ints("start_positions").push_back(draw(i, 2000, static_cast<uint32_t>(length)));
      data.tensors.ints("end_positions").push_back(length - 1);
    }
    const int targets = task == multi_label ? kLabels : task == regression ? 1 : 0;
    for (int k = 0; k < targets; ++k)
      data.tensors.floats("labels", targets).push_back(static_cast<float>(draw(i, 2000 + k, 2)));
  }
  return data;
}

class FrozenBase : public testing::TestWithParam<Setting> {
 protected:
  FrozenBase() {
    const Setting& s = GetParam();
    config_ = read_json(real_file_system(), source_path("tests/golden/tiny_bert/classification/config.json"));
    config_["classifier_dropout"] = s.classifier_dropout;
    args_.freeze_base_model = true;
    args_.bf16 = s.bf16;
    args_.gradient_accumulation_steps = s.accumulation;
    args_.per_device_train_batch_size = 8, args_.per_device_eval_batch_size = 5;
    args_.learning_rate = 1e-2;
    args_.logging_steps = 1;
    args_.eval_strategy = "epoch";
    args_.save_strategy = "no";
    args_.output_dir = output_.path();
  }

  struct Run {
    std::vector<double> log;   // losses, norms and evaluations, in their order
    std::vector<float> state;  // the head, its moments, the last scores
    std::vector<std::string> messages;
  };

  AutoModel make_model() const {
    std::vector<std::string> labels{"x", "y", "z"};
    const MakeTask task = GetParam().task;
    labels.resize(task == regression ? 1 : task == multiple_choice ? 0 : kLabels);
    return from_config(parse_model_config(config_, "config.json"), {GetParam().task, labels}, std::nullopt);
  }

  /// Stops after `stop` updates if that is not 0; continues from `resume_from`.
  Run train(bool keep, int64_t stop = 0, const std::string& resume_from = "") {
    const auto backend = open_device("cpu", {2});
    AutoModel model = make_model();
    Run run;
    int64_t steps = 0;
    TrainerHooks hooks;
    hooks.message = [&](LogLevel, const std::string& text) { run.messages.push_back(text); };
    hooks.should_stop = [&] { return ++steps == stop; };
    Trainer trainer(*backend, model, args_, &train_, &eval_, hooks);
    trainer.keep_base_output(keep);
    try {
      trainer.train(resume_from);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInterrupted) << e.what();
      EXPECT_NE(stop, 0);
    }
    for (const auto& entry : trainer.state().log_history)
      for (const char* key : {"loss", "grad_norm", "eval_loss"})
        if (entry.contains(key)) run.log.push_back(entry[key]);
    for (const char* name : {"parameters", "exp_avg", "exp_avg_sq"})
      append(run, trainer.session().parameters().read_state(name));
    append(run, trainer.predict(eval_).logits);
    return run;
  }
  static void append(Run& run, const std::vector<float>& values) {
    run.state.insert(run.state.end(), values.begin(), values.end());
  }

  nlohmann::json config_;
  TrainingArguments args_;
  TestFolder output_;
  TokenizedDataset train_ = make_data(GetParam().task, 43, 1), eval_ = make_data(GetParam().task, 11, 2);
};

TEST_P(FrozenBase, ItsKeptOutputGivesTheSameBits) {
  const Run wanted = train(false), kept = train(true);
  ASSERT_GT(wanted.log.size(), 9u);
  EXPECT_NE(wanted.log.front(), wanted.log[2]);
  EXPECT_EQ(kept.log, wanted.log);
  EXPECT_EQ(kept.state, wanted.state);
  EXPECT_TRUE(kept.messages.empty()) << kept.messages[0];
}

TEST_P(FrozenBase, ARunThatStoppedAndWentOnGivesTheSameBits) {
  const Run wanted = train(false);
  train(true, 2);
  const Run resumed = train(true, 0, output_ / "checkpoint-2");
  EXPECT_EQ(resumed.log, wanted.log);
  EXPECT_EQ(resumed.state, wanted.state);
}

INSTANTIATE_TEST_SUITE_P(Heads, FrozenBase,
                         testing::Values(Setting{"classification", single_label},
                                         Setting{"dropout_in_the_head", single_label, false, 0.3},
                                         Setting{"accumulation", single_label, false, 0.3, 4},
                                         Setting{"bf16", single_label, true, 0.3, 2},
                                         Setting{"regression", regression, false, 0.1},
                                         Setting{"multi_label", multi_label, false, 0.1},
                                         Setting{"choices", multiple_choice, false, 0.3},
                                         Setting{"choices_bf16", multiple_choice, true, 0.3, 2},
                                         Setting{"question_answering", question_answering},
                                         Setting{"question_answering_bf16", question_answering, true, 0, 2}),
                         [](const auto& i) { return i.param.name; });

class FrozenBaseCache : public FrozenBase {};

TEST_P(FrozenBaseCache, RunsTheBaseOncePerSampleUntilAFrozenParameterChanges) {
  const auto backend = open_device("cpu", {2});
  AutoModel model = make_model();
  Trainer trainer(*backend, model, args_, &train_, &eval_);
  Session& session = trainer.session();
  BaseCache cache(session, train_);
  const auto rows = [&](std::vector<int32_t> samples) {
    PackedBatch batch;
    pack_batch(train_, samples, {{32, 32}}, batch);
    const auto found = cache.rows(batch);
    return std::vector<std::byte>(found.begin(), found.end());
  };
  const auto first = rows({4, 7, 30});
  EXPECT_EQ(session.programs().size(), 1u);
  const auto again = rows({30, 4});  // would be a program of another shape
  EXPECT_EQ(session.programs().size(), 1u);
  // a row for each of a sample's
  const auto bytes_of = [&](int64_t sample) {
    return static_cast<int64_t>(session.base_row_bytes()) * train_.rows_of(sample);
  };
  ASSERT_EQ(std::ssize(first), bytes_of(4) + bytes_of(7) + bytes_of(30));
  ASSERT_EQ(std::ssize(again), bytes_of(30) + bytes_of(4));
  EXPECT_TRUE(std::equal(again.begin(), again.begin() + bytes_of(30), first.end() - bytes_of(30)));
  EXPECT_TRUE(std::equal(again.begin() + bytes_of(30), again.end(), first.begin()));
  EXPECT_EQ(BaseCache::bytes(session, train_), session.base_row_bytes() * static_cast<size_t>(train_.rows()));

  const int bias = model.model->find("bert.pooler.dense.bias");
  std::vector<float> values = session.parameters().read(bias);
  session.parameters().write(bias, values);
  EXPECT_EQ(rows({30, 4}), again);
  EXPECT_EQ(session.programs().size(), 1u);
  for (float& x : values) x += 0.5f;
  session.parameters().write(bias, values);
  EXPECT_NE(rows({30, 4}), again);
  EXPECT_EQ(session.programs().size(), 2u);
}

TEST_P(FrozenBaseCache, DropoutInTheBaseIsSaidAndStays) {
  config_["attention_probs_dropout_prob"] = 0.25;
  const Run wanted = train(false), run = train(true);
  EXPECT_EQ(run.log, wanted.log);
  EXPECT_EQ(run.state, wanted.state);
  ASSERT_EQ(run.messages.size(), 1u);
  EXPECT_NE(run.messages[0].find("The base runs every epoch: its dropout is 0.25"), std::string::npos);
}

TEST_P(FrozenBaseCache, ABaseThatIsTrainedTakesNoOutputOfIt) {
  const auto backend = open_device("cpu", {2});
  AutoModel model = make_model();
  args_.freeze_base_model = false;
  Trainer trainer(*backend, model, args_, &train_, &eval_);
  PackedBatch batch;
  pack_batch(train_, std::vector<int32_t>{0}, {{32, 32}}, batch);
  const std::vector<std::byte> rows(trainer.session().base_row_bytes());
  EXPECT_THROW(trainer.session().step(batch, {}, rows), Error);
}

class FrozenQaCache : public FrozenBase {};

TEST_P(FrozenQaCache, ADataSetTooLargeForItIsSaid) {
  args_.eval_delay = 1000;  // the data set is never read, only measured
  const auto backend = open_device("cpu", {2});
  AutoModel model = make_model();
  std::vector<std::string> messages;
  TrainerHooks hooks;
  hooks.message = [&](LogLevel, const std::string& text) { messages.push_back(text); };
  Trainer trainer(*backend, model, args_, &train_, &eval_, hooks);
  eval_.begins.back() = int64_t{1} << 40;
  trainer.train();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("The base runs at every evaluation: to keep its output takes 134217728 MB"),
            std::string::npos)
      << messages[0];
}

INSTANTIATE_TEST_SUITE_P(Once, FrozenQaCache,
                         testing::Values(Setting{"question_answering", question_answering}),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Heads, FrozenBaseCache,
                         testing::Values(Setting{"classification", single_label},
                                         Setting{"choices", multiple_choice}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace lathe::frozen_base_test
