#include "lathe/train/python/python_checkpoint.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/testdata.h"
#include "lathe/io/torch/pickle_writer.h"
#include "lathe/io/torch/torch_file.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/four_samples_testing.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

using StateValues = std::map<std::string, std::vector<float>>;  // flat, by name

const std::string kPythonCheckpoint = source_path("tests/golden/python_checkpoint/");
const std::string kCheckpoint = kPythonCheckpoint + "checkpoint-6";

/// Every value of a file, tensors by their bits.
std::string described(const PickleValue& value) {
  std::string out = std::string(value.kind()) + " ";
  if (const auto* flag = value.as<bool>()) return out + (*flag ? "true" : "false");
  if (const auto* number = value.as<int64_t>()) return out + std::to_string(*number);
  if (const auto* real = value.as<double>()) return out + std::to_string(std::bit_cast<uint64_t>(*real));
  if (const auto* text = value.as<std::string>()) return out + *text;
  if (const auto* tensor = value.as<TensorView>()) {
    out += to_string(tensor->shape);
    for (const std::byte b : tensor->bytes) out += static_cast<char>(b);
    return out;
  }
  std::vector<const PickleValue*> items;
  if (const auto* list = value.as<PickleValue::List>()) items = list->items;
  if (const auto* tuple = value.as<PickleValue::Tuple>()) items = tuple->items;
  if (const auto* dict = value.as<PickleValue::Dict>())
    for (const auto& [key, item] : dict->items) items.insert(items.end(), {key, item});
  for (const PickleValue* item : items) out += "\n" + described(*item);
  return out;
}

std::string content_of(const std::string& path) {
  return described(TorchFile::open(real_file_system(), path).root());
}

class PythonCheckpoint : public testing::Test {
 protected:
  FileSystem& fs_ = real_file_system();
  TestFolder folder_;
  std::unique_ptr<Backend> backend_ = open_device("cpu", {1});
  AutoModel model_ = from_pretrained(fs_, kCheckpoint, {single_label, {}, false});
  Session session_ = session_of(AdamWOptions{});
  TrainerState state_;
  RunState run_;

  Session session_of(const OptimizerOptions& optimizer) {
    Session::Options options;
    options.program.optimizer = optimizer;
    return {*backend_, *model_.model, options};
  }
  static StateValues states_of(const Session& session) {
    StateValues states;
    for (const OptimizerState& kept : session.parameters().optimizer_states())
      states[kept.name] = session.parameters().read_state(kept.name);
    return states;
  }
  /// What another run with the same optimizer has after it read what this one wrote.
  StateValues read_again(const OptimizerOptions& optimizer, const StateValues& states,
                         const OptimizerProgress& progress) {
    Session first = session_of(optimizer);
    for (const auto& [name, values] : states) first.parameters().write_state(name, values);
    write_python_state(fs_, folder_.path(), first.parameters(), progress, std::nullopt).check();
    Session next = session_of(optimizer);
    for (const OptimizerState& kept : next.parameters().optimizer_states())
      next.parameters().write_state(kept.name, std::vector<float>(static_cast<size_t>(kept.size), 9));
    const OptimizerProgress found =
        read_python_state(fs_, folder_.path(), next.parameters(), progress.applied);
    EXPECT_EQ(found.applied, progress.applied);
    EXPECT_EQ(found.learning_rate, progress.learning_rate);
    EXPECT_EQ(found.adamw.weight_decay, progress.adamw.weight_decay);
    EXPECT_EQ(found.sgd.momentum, progress.sgd.momentum);
    EXPECT_EQ(found.metric_schedule, progress.metric_schedule);
    return states_of(next);
  }
  /// Other numbers in every place.
  StateValues numbered(const OptimizerOptions& optimizer) {
    StateValues states;
    for (const OptimizerState& kept : session_of(optimizer).parameters().optimizer_states())
      for (int64_t i = 0; i < kept.size; ++i) states[kept.name].push_back(static_cast<float>(i) + 0.5f);
    return states;
  }
  /// "step exp_avg_sq_row[3] …": what the file holds of parameter 0.
  std::string kept_of_first() {
    const TorchFile file = TorchFile::open(fs_, folder_ / kOptimizerFile);
    const auto* state = file.root().as<PickleValue::Dict>()->find("state")->as<PickleValue::Dict>()->find(0);
    std::string text;
    for (const auto& [key, value] :
         state == nullptr ? decltype(PickleValue::Dict::items)() : state->as<PickleValue::Dict>()->items)
      text += *key->as<std::string>() +
              (value->as<TensorView>() == nullptr ? "" : to_string(value->as<TensorView>()->shape)) + " ";
    return text;
  }

  std::string error_reading(const std::string& folder, ErrorCode code) {
    return error_of([&] { read_checkpoint(fs_, folder, model_, session_, state_, run_); }, code);
  }
  /// The checkpoint's files in a folder of its own, one of them with another content.
  std::string with(const char* name, const std::string& content) {
    for (const std::string& file : fs_.list(kCheckpoint).value())
      fs_.write_atomic(folder_ / file, fs_.read(join_path(kCheckpoint, file)).value()).check();
    fs_.write_atomic(folder_ / name, content).check();
    return folder_.path();
  }
};

TEST_F(PythonCheckpoint, ItsStateIsWrittenAgainBitForBit) {
  const auto progress = read_checkpoint(fs_, kCheckpoint, model_, session_, state_, run_);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->applied, 6);
  EXPECT_EQ(progress->schedule_step, 6);
  EXPECT_EQ(progress->base_learning_rate, 1e-3);
  EXPECT_EQ(progress->adamw.weight_decay, 0.01);
  EXPECT_EQ(state_.global_step, 6);
  EXPECT_EQ(run_.skipped_updates, 0);
  write_python_state(fs_, folder_.path(), session_.parameters(), *progress, std::nullopt).check();
  for (const char* name : {kOptimizerFile, kSchedulerFile})
    EXPECT_EQ(content_of(folder_ / name), content_of(join_path(kCheckpoint, name))) << name;
}

TEST_F(PythonCheckpoint, TheScalerIsWrittenAgainAsItWas) {
  fs_.write_atomic(folder_ / kScalerFile, fs_.read(kPythonCheckpoint + kScalerFile).value()).check();
  const LossScaler::State scaler = read_python_scaler(fs_, folder_.path());
  EXPECT_EQ(scaler.scale, 4096);
  write_python_state(fs_, folder_ / "written", session_.parameters(), {}, scaler).check();
  EXPECT_EQ(content_of(folder_ / "written/scaler.pt"), content_of(kPythonCheckpoint + kScalerFile));
}

const OptimizerProgress kProgress{.applied = 6,
                                  .schedule_step = 6,
                                  .base_learning_rate = 1e-3,
                                  .learning_rate = 5e-4,
                                  .adamw = {.weight_decay = 0.25}};

TEST_F(PythonCheckpoint, EveryOptimizerIsWrittenAndReadBitForBit) {
  const SgdOptions sgd{.momentum = 0.9};
  OptimizerProgress progress = kProgress;
  progress.sgd = sgd;
  EXPECT_EQ(read_again(sgd, numbered(sgd), progress), numbered(sgd));
  EXPECT_EQ(kept_of_first(), "momentum_buffer[115, 16] ");
  const AdafactorOptions adafactor;
  progress.sgd = {};
  EXPECT_EQ(read_again(adafactor, numbered(adafactor), progress), numbered(adafactor));
  EXPECT_EQ(kept_of_first(), "step exp_avg_sq_row[115] exp_avg_sq_col[16] RMS ");
  EXPECT_EQ(read_again(SgdOptions{}, numbered(SgdOptions{}), progress),
            (StateValues{{"momentum_buffer", {0}}}));  // which nothing reads
  EXPECT_EQ(kept_of_first(), "");
}

TEST_F(PythonCheckpoint, AMomentumThatOneSideLacksBeginsAtZero) {
  write_python_state(fs_, folder_.path(), session_of(SgdOptions{}).parameters(), kProgress, std::nullopt)
      .check();
  const SgdOptions sgd{.momentum = 0.9};
  Session session = session_of(sgd);
  session.parameters().write_state("momentum_buffer", numbered(sgd).at("momentum_buffer"));
  read_python_state(fs_, folder_.path(), session.parameters(), 6);
  EXPECT_EQ(session.parameters().read_state("momentum_buffer"),
            std::vector<float>(static_cast<size_t>(session.parameters().layout().trainable)));
}

TEST_F(PythonCheckpoint, FactorsLieBehindOneAnother) {
  nn::Module model;
  model.add_parameter({.name = "bias", .shape = {2}, .decay = false});
  model.add_parameter({.name = "weight", .shape = {2, 3}});
  PickleBuilder make;
  const std::vector<float> row = {1, 2}, col = {3, 4, 5}, squares = {6, 7};
  const auto tensor = [&](const std::vector<float>& values) {
    return make.tensor({DType::f32, {std::ssize(values)}, std::as_bytes(std::span(values))});
  };
  const auto group = [&](int64_t number, const std::string& set) {
    return make.dict({{"params", make.list({make.number(number)})},
                      {"lr", make.real(0.1)},
                      {"weight_decay", make.number(0)},
                      {"clip_threshold", make.real(1)},
                      {"decay_rate", make.real(-0.8)},
                      {"beta1", make.none()},
                      {"scale_parameter", make.boolean(set == "scale_parameter")},
                      {"relative_step", make.boolean(set == "relative_step")}});
  };
  const auto weight = make.dict({{"step", make.number(3)},
                                 {"exp_avg_sq_row", tensor(row)},
                                 {"exp_avg_sq_col", tensor(col)},
                                 {"RMS", make.number(0)}});
  const auto root = [&](const std::string& set, int64_t steps) {
    const auto bias = make.dict({{"step", make.number(steps)}, {"exp_avg_sq", tensor(squares)}});
    const std::vector<std::pair<int64_t, PickleBuilder::Ref>> numbers = {{0, weight}, {1, bias}};
    return make.dict(
        {{"state", make.dict(numbers)}, {"param_groups", make.list({group(0, set), group(1, set)})}});
  };
  const auto read = [&](const std::string& set, int64_t steps = 3) {
    return python_optimizer_from(*root(set, steps), "optimizer.pt", model.parameters(), nn::layout_of(model));
  };
  const PythonOptimizer found = read("");
  EXPECT_EQ(found.optimizer, "adafactor");
  EXPECT_EQ(found.progress.applied, 3);
  std::vector<float> factors, room;
  for (const PythonOptimizer::Part& part : found.parts) {
    EXPECT_EQ(part.state, "exp_avg_sq_factors");
    EXPECT_EQ(part.offset, factors.size());
    for (const float factor : f32_of(*part.tensor, room)) factors.push_back(factor);
  }
  EXPECT_EQ(factors, (std::vector<float>{1, 2, 3, 4, 5, 6, 7}));
  for (const char* set : {"relative_step", "scale_parameter"})
    EXPECT_NE(error_of([&] { read(set); }, ErrorCode::kUnsupported).find("settings that Lathe has not"),
              std::string::npos);
  EXPECT_NE(error_of([&] { read("", 4); }, ErrorCode::kInvalidData)
                .find("bias: found 4 updates, the parameters before it have 3"),
            std::string::npos);
}

TEST_F(PythonCheckpoint, SettingsOfAdamWThatLatheHasNotAreRefused) {
  nn::Module model;
  model.add_parameter({.name = "bias", .shape = {1}, .decay = false});
  model.add_parameter({.name = "weight", .shape = {1, 1}});
  const auto read = [&](const std::string& set) {
    PickleBuilder make;
    const auto group = [&](int64_t number) {
      return make.dict({{"params", make.list({make.number(number)})},
                        {"lr", make.real(0.1)},
                        {"betas", make.tuple({make.real(0.9), make.real(0.999)})},
                        {"eps", make.real(1e-8)},
                        {"weight_decay", make.number(0)},
                        {"amsgrad", make.boolean(set == "amsgrad")},
                        {"maximize", make.boolean(set == "maximize")}});
    };
    const auto root = make.dict({{"state", make.dict(std::vector<std::pair<int64_t, PickleBuilder::Ref>>())},
                                 {"param_groups", make.list({group(0), group(1)})}});
    return python_optimizer_from(*root, "optimizer.pt", model.parameters(), nn::layout_of(model)).optimizer;
  };
  EXPECT_EQ(read(""), "adamw");
  for (const char* set : {"amsgrad", "maximize"})
    EXPECT_NE(error_of([&] { read(set); }, ErrorCode::kUnsupported).find("settings that Lathe has not"),
              std::string::npos)
        << set;
}

TEST_F(PythonCheckpoint, TheScheduleOfMetricsGoesOn) {
  MetricSchedule schedule("reduce_lr_on_plateau", 1e-3, {{"patience", 0}, {"factor", 0.5}});
  OptimizerProgress progress = kProgress;
  progress.metric_schedule = schedule.python_state();  // its best is an infinity
  EXPECT_EQ(read_again(AdamWOptions{}, numbered(AdamWOptions{}), progress), numbered(AdamWOptions{}));
  for (const double loss : {1.0, 2.0}) schedule.step(loss);
  progress.metric_schedule = schedule.python_state();
  read_again(AdamWOptions{}, numbered(AdamWOptions{}), progress);
  with(kSchedulerFile, fs_.read(folder_ / kSchedulerFile).value());
  read_checkpoint(fs_, folder_.path(), model_, session_, state_, run_);
  EXPECT_EQ(run_.metric_schedule, schedule.state());
}

TEST_F(PythonCheckpoint, AnotherOptimizerIsNamedAsItIs) {
  Session sgd = session_of(SgdOptions{});
  const auto error = [&](const std::string& folder, Session& session) {
    return error_of([&] { read_python_state(fs_, folder, session.parameters(), 6); },
                    ErrorCode::kInvalidData);
  };
  EXPECT_NE(error(kCheckpoint, sgd).find("written by the optimizer adamw, this run's is sgd"),
            std::string::npos);
  write_python_state(fs_, folder_.path(), sgd.parameters(), {}, std::nullopt).check();
  EXPECT_NE(error(folder_.path(), session_).find("written by the optimizer sgd, this run's is adamw"),
            std::string::npos);
}

TEST_F(PythonCheckpoint, TheSumOfLossesKnowsHowManyItHolds) {
  read_checkpoint(fs_, kCheckpoint, model_, session_, state_, run_);
  EXPECT_EQ(run_.loss_updates, 6);
  std::string text = fs_.read(join_path(kCheckpoint, "trainer_state.json")).value();
  for (size_t at; (at = text.find("\"loss\"")) != std::string::npos;) text.replace(at, 6, "\"other\"");
  read_checkpoint(fs_, with("trainer_state.json", text), model_, session_, state_, run_);
  EXPECT_EQ(run_.loss_updates, 0);
  EXPECT_EQ(run_.total_loss, 0);
}

/// A line of the log is the mean since the one before.  Updates that an overflow left out are no steps of the
/// optimizer.
TEST_F(PythonCheckpoint, AnFp16RunGoesOnWithItsLossesItsScaleAndItsSkippedUpdates) {
  with(kScalerFile, fs_.read(kPythonCheckpoint + kScalerFile).value());
  nlohmann::json state = nlohmann::json::parse(fs_.read(folder_ / "trainer_state.json").value());
  state["global_step"] = 8;
  state["log_history"] = {
      {{"loss", 3.0}, {"step", 2}}, {{"eval_loss", 9.0}, {"step", 2}}, {{"loss", 1.0}, {"step", 8}}};
  fs_.write_atomic(folder_ / "trainer_state.json", state.dump()).check();
  read_checkpoint(fs_, folder_.path(), model_, session_, state_, run_);
  EXPECT_EQ(run_.skipped_updates, 2);
  EXPECT_EQ(run_.total_loss, 2 * 3.0 + 6 * 1.0);
  EXPECT_EQ(run_.loss_updates, 8);
  const LossScaler::State scaler = read_python_scaler(fs_, kPythonCheckpoint);
  EXPECT_EQ(run_.loss_scaler.scale, scaler.scale);
  EXPECT_EQ(run_.loss_scaler.growth_tracker, scaler.growth_tracker);
}

/// What torch takes from optimizer.pt in place of its arguments.
TEST_F(PythonCheckpoint, HoldsTheSettingsOfTheRun) {
  const TokenizedDataset data = four_samples();
  TrainingArguments args;
  args.output_dir = folder_ / "out";
  args.save_steps = 3, args.max_steps = 4;
  args.learning_rate = 0.5, args.weight_decay = 0.25;
  args.adam_beta1 = 0.75, args.adam_beta2 = 0.875, args.adam_epsilon = 0.125;
  args.optim_args = "momentum=0.5";
  for (const char* optimizer : {"adamw_torch", "sgd"}) {
    args.optim = optimizer;
    Trainer trainer(*backend_, model_, args, &data, nullptr);
    trainer.train();
    const OptimizerProgress found = read_python_state(
        fs_, folder_ / "out/checkpoint-3", trainer.session().parameters(), trainer.state().global_step);
    EXPECT_EQ(found.applied, 3);
    EXPECT_EQ(found.schedule_step, 3);
    EXPECT_EQ(found.base_learning_rate, 0.5);
    EXPECT_EQ(found.learning_rate, 0.125);  // of the next update, the last of four
    EXPECT_EQ(found.adamw.weight_decay, 0.25);
    const bool adamw = optimizer == std::string("adamw_torch");
    const AdamWOptions wanted = adamw ? AdamWOptions{0.75, 0.875, 0.125} : AdamWOptions{};
    EXPECT_EQ(found.adamw.beta1, wanted.beta1);
    EXPECT_EQ(found.adamw.beta2, wanted.beta2);
    EXPECT_EQ(found.adamw.eps, wanted.eps);
    EXPECT_EQ(found.sgd.momentum, adamw ? 0 : 0.5);
    EXPECT_FALSE(fs_.exists(folder_ / "out/checkpoint-3/scaler.pt"));
  }
}

TEST_F(PythonCheckpoint, HoldsTheLossScaleOfAnFp16Run) {
  const TokenizedDataset data = four_samples();
  TrainingArguments args;
  args.output_dir = folder_ / "out";
  args.save_steps = 2, args.max_steps = 3;
  args.fp16 = true;
  Trainer trainer(*backend_, model_, args, &data, nullptr);
  trainer.train();
  const LossScaler::State found = read_python_scaler(fs_, folder_ / "out/checkpoint-2");
  EXPECT_EQ(found.scale, 65536);  // torch's first
  EXPECT_EQ(found.growth_tracker, 2);
}

TEST_F(PythonCheckpoint, StateOfAnotherModelIsAnError) {
  model_.model->set_trainable("bert.", false);
  Session session(*backend_, *model_.model, {});
  const std::string message = error_of(
      [&] { read_checkpoint(fs_, kCheckpoint, model_, session, state_, run_); }, ErrorCode::kInvalidData);
  EXPECT_NE(message.find("this model trains 1 and 1"), std::string::npos) << message;
}

TEST_F(PythonCheckpoint, AFileWhoseLastTensorIsDamagedLeavesTheStatesAsTheyAre) {
  const StateValues before = numbered(AdamWOptions{});
  for (const auto& [name, values] : before) session_.parameters().write_state(name, values);
  std::string content = fs_.read(join_path(kCheckpoint, kOptimizerFile)).value();
  content[content.rfind("version") - 100] ^= 1;  // in the record before
  with(kOptimizerFile, content);
  const std::string message = error_of(
      [&] { read_python_state(fs_, folder_.path(), session_.parameters(), 6); }, ErrorCode::kInvalidData);
  EXPECT_NE(message.find("CRC"), std::string::npos) << message;
  EXPECT_EQ(states_of(session_), before);
}

TEST_F(PythonCheckpoint, DamagedAndForeignFilesAreErrors) {
  const std::string whole = fs_.read(join_path(kCheckpoint, kOptimizerFile)).value();
  EXPECT_NE(error_reading(with(kOptimizerFile, whole.substr(0, whole.size() / 2)), ErrorCode::kInvalidData),
            "");
  PickleBuilder make;
  const auto expect = [&](PickleBuilder::Ref root, ErrorCode code, const char* part) {
    with(kOptimizerFile, "");
    write_torch_file(fs_, folder_ / kOptimizerFile, *root).check();
    const std::string message = error_reading(folder_.path(), code);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(make.list({}), ErrorCode::kInvalidData, "found list, expected a dict");
  expect(make.dict({{"param_groups", make.number(1)}}), ErrorCode::kInvalidData, "found int");
  expect(make.dict({{"param_groups", make.list({})}}), ErrorCode::kUnsupported, "found 0 groups");
  const auto numbers = [&](int64_t first, int64_t end) {
    std::vector<PickleBuilder::Ref> items;
    for (; first < end; ++first) items.push_back(make.number(first));
    return make.dict({{"params", make.list(items)}, {"momentum", make.real(0.9)}});
  };
  // 10 matrices, then biases and LayerNorms
  expect(make.dict({{"param_groups", make.list({numbers(0, 11), numbers(11, 25)})}}), ErrorCode::kUnsupported,
         "an optimizer other than AdamW");
  expect(make.dict({{"param_groups", make.list({numbers(0, 3), numbers(4, 25)})}}), ErrorCode::kUnsupported,
         "found 4 after 3");
  fs_.remove_all(folder_ / kOptimizerFile).check();
  EXPECT_NE(error_reading(folder_.path(), ErrorCode::kNotFound).find("optimizer.pt"), std::string::npos);
}

}  // namespace
}  // namespace lathe
