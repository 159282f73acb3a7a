// An AutoModel whose TaskModel is a program's own.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "lathe/backends/register.h"
#include "lathe/engine/session.h"
#include "lathe/nn/layers.h"
#include "lathe/train/auto_model.h"

namespace lathe {
namespace {

/// The mean of words, and a classifier; weights start as wide as it says.
class WordMean : public TaskModel {
 public:
  explicit WordMean(double range)
      : TaskModel(single_label(50)),
        range_(range),
        words_(*this, "words", 200, 64),
        classifier_(*this, "classifier", 64, 50, {true, nn::Init::kNormal, 3.0}) {}
  Value base_output() override { return words_(trace().inputs->token("input_ids")); }
  HeadOutput head(Value base) override { return classifier_(base); }
  std::string base_prefix() const override { return "words"; }
  double base_dropout() const override { return 0; }
  int64_t hidden_size() const override { return 64; }
  int64_t vocab_size() const override { return 200; }
  int64_t max_positions() const override { return 32; }
  int64_t type_vocab_size() const override { return 0; }
  double initializer_range() const override { return range_; }

 private:
  double range_;
  nn::Embedding words_;
  nn::Linear classifier_;
};

double deviation(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

AutoModel own_model() {
  AutoModel model;
  model.labels.assign(50, "label");
  model.model = std::make_unique<WordMean>(0.5);
  return model;
}

/// The standard deviation of n draws differs from theirs by more than 5 / sqrt(2 n) once in two million.
TEST(OwnModel, NewWeightsAreAsWideAsTheModelAndTheirParameterSay) {
  const auto device = open_device("cpu", {1});
  const AutoModel model = own_model();
  Session session(*device, *model.model, {});
  initialize(session.parameters(), model, 1);
  for (const auto& [name, wanted] : {std::pair{"words.weight", 0.5}, {"classifier.weight", 3.0}}) {
    const std::vector<float> values = session.parameters().read(model.model->find(name));
    const double bound = 5 * wanted / std::sqrt(2 * static_cast<double>(values.size()));
    EXPECT_NEAR(deviation(values), wanted, bound) << name;
  }
}

TEST(OwnModel, HasNoTwinByItsConfiguration) {
  try {
    twin_of(own_model());
    ADD_FAILURE() << "a twin of another class";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("twin_of"), std::string::npos) << error.what();
  }
}

TEST(OwnModel, AParameterThatItHasNotIsAnError) {
  const auto device = open_device("cpu", {1});
  const AutoModel model = own_model();
  Session session(*device, *model.model, {});
  for (const int index : {-1, 3}) {
    for (const auto& call :
         {std::function<void()>([&] { session.parameters().read(index); }),
          std::function<void()>([&] { session.parameters().write(index, std::vector<float>()); })}) {
      try {
        call();
        ADD_FAILURE() << index;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_NE(std::string(error.what()).find(std::to_string(index)), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace lathe
