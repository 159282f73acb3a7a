#include "lathe/models/pretrained.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/models/make_model.h"
#include "lathe/models/model_config.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

/// Weights in memory.
class Weights : public Checkpoint {
 public:
  void put(const std::string& name, const Shape& shape, float value) {
    std::vector<float>& values = values_[name];
    values.assign(static_cast<size_t>(elements(shape)), value);
    TensorView view;
    view.dtype = DType::f32;
    view.shape = shape;
    view.bytes = std::as_bytes(std::span(values));
    views_[name] = view;
    names_.clear();
    for (const auto& entry : views_) names_.push_back(entry.first);
  }
  void erase(const std::string& name) {
    views_.erase(name);
    std::erase(names_, name);
  }
  const std::vector<std::string>& names() const override { return names_; }
  const TensorView* find(std::string_view name) const override {
    const auto found = views_.find(std::string(name));
    return found == views_.end() ? nullptr : &found->second;
  }
  std::string file_of(std::string_view) const override { return "weights"; }

 private:
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, TensorView> views_;
  std::vector<std::string> names_;
};

struct Loaded {
  std::map<std::string, float> firsts;
  LoadReport report;
};

Loaded load(const TaskModel& model, const Weights& weights) {
  Loaded out;
  out.report = load_parameters(model, weights, [&](int index, const TensorView& view) {
    std::vector<float> room;
    out.firsts[model.parameters()[static_cast<size_t>(index)].name] = f32_of(view, room)[0];
  });
  return out;
}

TEST(LoadParameters, TakesOldNamesOfWhatIsTiedInAHeadOverTheVocabulary) {
  for (const std::string type : {"bert", "roberta", "distilbert", "modernbert"}) {
    SCOPED_TRACE(type);
    const auto model = make_model(parse_model_config(nlohmann::json{{"model_type", type},
                                                                    {"vocab_size", 10},
                                                                    {"hidden_size", 8},
                                                                    {"dim", 8},
                                                                    {"hidden_dim", 16},
                                                                    {"n_heads", 2},
                                                                    {"n_layers", 1},
                                                                    {"num_hidden_layers", 1},
                                                                    {"num_attention_heads", 2},
                                                                    {"intermediate_size", 16},
                                                                    {"pad_token_id", 0}},
                                                     "config.json"),
                                  masked_lm(0));
    Weights weights;
    float value = 1;
    for (const nn::Parameter& p : model->parameters()) weights.put(p.name, p.shape, value++);
    EXPECT_TRUE(load(*model, weights).report.missing.empty());
    for (const TaskModel::Tie& tie : model->ties()) {
      SCOPED_TRACE(tie.name);
      const Shape shape = model->parameters()[static_cast<size_t>(model->find(tie.source))].shape;
      const float source = load(*model, weights).firsts.at(tie.source);
      weights.put(tie.name, shape, source);  // both, of the same values
      const Loaded both = load(*model, weights);
      EXPECT_TRUE(both.report.missing.empty());
      EXPECT_TRUE(both.report.unexpected.empty());
      weights.put(tie.name, shape, source + 1);  // of others
      try {
        load(*model, weights);
        ADD_FAILURE() << "was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
        EXPECT_EQ(std::string(error.what()),
                  "weights: " + tie.name + " has other values than " + tie.source +
                      ", which Lathe trains as one tensor; leave out the first to take the second for both");
      }
      weights.erase(tie.source);  // only the tied one
      EXPECT_EQ(load(*model, weights).firsts.at(tie.source), source + 1);
      weights.erase(tie.name);
      weights.put(tie.source, shape, source);
    }
  }
}

}  // namespace
}  // namespace lathe
