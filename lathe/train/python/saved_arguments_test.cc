#include "lathe/train/python/saved_arguments.h"

#include <gtest/gtest.h>

#include <map>

#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"
#include "lathe/io/torch/pickle_json.h"
#include "lathe/io/torch/torch_file.h"

namespace lathe {
namespace {

using nlohmann::json;

class SavedArguments : public ::testing::Test {
 protected:
  /// The attributes in the training_args.bin that is written for a device.
  const PickleValue::Dict& attributes(const std::string& device) {
    write_arguments(fs_, folder_.path(), args_, device).check();
    return open(folder_ / "training_args.bin");
  }

  const PickleValue::Dict& open(const std::string& path) {
    file_.emplace(TorchFile::open(fs_, path, true));
    const auto* object = file_->root().as<PickleValue::Object>();
    EXPECT_EQ(object->type, "transformers.training_args.TrainingArguments");
    return *object->state->as<PickleValue::Dict>();
  }

  json value(const std::string& device, std::string_view name) {
    return json_of(*attributes(device).find(name));
  }

  FileSystem& fs_ = real_file_system();
  TestFolder folder_;
  TrainingArguments args_;
  std::optional<TorchFile> file_;
};

/// What an attribute is: its kind, and of an object the class and the kinds of its attributes.
std::string structure(const PickleValue& value) {
  const auto* object = value.as<PickleValue::Object>();
  if (object == nullptr) return value.kind();
  std::string text = object->type;
  if (object->state == nullptr) return text;
  for (const auto& [key, item] : object->state->as<PickleValue::Dict>()->items)
    text += " " + *key->as<std::string>() + ":" + structure(*item);
  return text;
}

TEST_F(SavedArguments, HaveWhatThoseOfTransformersHave) {
  std::map<std::string, std::string> theirs;
  for (const auto& [key, item] :
       open(source_path("tests/golden/python_checkpoint/checkpoint-6/training_args.bin")).items)
    theirs[*key->as<std::string>()] = structure(*item);
  args_.use_cpu = true, args_.output_dir = "out";
  const PickleValue::Dict& ours = attributes("cpu");
  for (const auto& [name, wanted] : theirs) {
    const PickleValue* item = ours.find(name);
    ASSERT_NE(item, nullptr) << name;
    EXPECT_EQ(structure(*item), wanted) << name;
  }
}

TEST_F(SavedArguments, AreForTheDeviceOfTheRun) {
  EXPECT_EQ(value("cpu", "_setup_devices"), "cpu");
  EXPECT_EQ(value("cpu", "_n_gpu"), 0);
  EXPECT_EQ(value("mps", "_setup_devices"), "mps");
  EXPECT_EQ(value("mlx", "_setup_devices"), "cpu");  // torch knows no such device
  EXPECT_EQ(value("cuda", "_n_gpu"), 1);
  const PickleValue::Dict& all = attributes("cuda");
  const auto* state =
      all.find("distributed_state")->as<PickleValue::Object>()->state->as<PickleValue::Dict>();
  for (const PickleValue* device : {all.find("_setup_devices"), state->find("device")})
    EXPECT_EQ(json_of(*device->as<PickleValue::Object>()->arguments), json({"cuda", 0}));
}

TEST_F(SavedArguments, AreSettingsThatPythonKnows) {
  EXPECT_EQ(value("cpu", "mixed_precision"), "no");
  EXPECT_EQ(value("cpu", "report_to"), json::array());  // none
  EXPECT_EQ(value("cpu", "logging_nan_inf_filter"), false);
  args_.bf16 = true, args_.report_to = {"html"}, args_.logging_nan_inf_filter = true;
  EXPECT_EQ(value("cpu", "mixed_precision"), "bf16");
  EXPECT_EQ(value("cpu", "report_to"), json::array());
  EXPECT_EQ(value("cpu", "logging_nan_inf_filter"), true);
  args_.bf16 = false, args_.fp16 = true;
  EXPECT_EQ(value("cpu", "mixed_precision"), "fp16");
  for (const char* name : {"all", "tensorboard"}) {
    args_.report_to = {name};
    EXPECT_EQ(value("cpu", "report_to"), json::array({"tensorboard"}));
  }
}

TEST_F(SavedArguments, AreReadBackFromEitherFile) {
  args_.learning_rate = 3e-4, args_.lr_scheduler_type = "cosine";
  attributes("cpu");
  for (const char* file : {"training_args.json", "training_args.bin"}) {
    EXPECT_TRUE(argument_differences(fs_, folder_.path(), args_).empty()) << file;
    TrainingArguments other = args_;
    other.learning_rate = 1e-4;
    const auto found = argument_differences(fs_, folder_.path(), other);
    ASSERT_EQ(found.size(), 1u) << file;
    EXPECT_EQ(found[0].name + " " + found[0].there + " " + found[0].here, "learning_rate 0.0003 0.0001")
        << file;
    std::filesystem::remove(folder_ / file);
  }
}

}  // namespace
}  // namespace lathe
