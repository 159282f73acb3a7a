#include "lathe/train/python_checkpoint.h"

#include <gtest/gtest.h>

#include <bit>

#include "lathe/backends/register.h"
#include "lathe/io/pickle_writer.h"
#include "lathe/io/test_folder.h"
#include "lathe/io/testdata.h"
#include "lathe/io/torch_file.h"
#include "lathe/train/checkpoint.h"

namespace lathe {
namespace {

const std::string kGolden = LATHE_SOURCE_DIR "/tests/golden/python_checkpoint/";
const std::string kCheckpoint = kGolden + "checkpoint-6";

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
  AutoModel model_ = from_pretrained(fs_, kCheckpoint, {Problem::kSingleLabel, {}, false});
  Session session_{*backend_, *model_.model, {}};
  TrainerState state_;
  RunState run_;

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
  write_python_state(fs_, folder_.path(), session_, session_.gather_states(), *progress, std::nullopt)
      .check();
  for (const char* name : {kOptimizerFile, kSchedulerFile})
    EXPECT_EQ(content_of(folder_ / name), content_of(join_path(kCheckpoint, name))) << name;
}

TEST_F(PythonCheckpoint, TheScalerIsWrittenAgainAsItWas) {
  fs_.write_atomic(folder_ / kScalerFile, fs_.read(kGolden + kScalerFile).value()).check();
  const LossScaler::State scaler = read_python_scaler(fs_, folder_.path());
  EXPECT_EQ(scaler.scale, 4096);
  write_python_state(fs_, folder_ / "written", session_, session_.gather_states(), {}, scaler).check();
  EXPECT_EQ(content_of(folder_ / "written/scaler.pt"), content_of(kGolden + kScalerFile));
}

TEST_F(PythonCheckpoint, StateOfAnotherModelIsAnError) {
  model_.model->set_trainable("bert.", false);
  Session session(*backend_, *model_.model, {});
  const std::string message = error_of(
      [&] { read_checkpoint(fs_, kCheckpoint, model_, session, state_, run_); }, ErrorCode::kInvalidData);
  EXPECT_NE(message.find("this model trains 1 and 1"), std::string::npos) << message;
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
  expect(make.list({}), ErrorCode::kInvalidData, "found list, wants a dict");
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
         "found 4 behind 3");
  fs_.remove_all(folder_ / kOptimizerFile).check();
  EXPECT_NE(error_reading(folder_.path(), ErrorCode::kNotFound).find("optimizer.pt"), std::string::npos);
}

}  // namespace
}  // namespace lathe
