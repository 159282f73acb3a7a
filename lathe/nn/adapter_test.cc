#include "lathe/nn/adapter.h"

#include <gtest/gtest.h>

#include "lathe/nn/layers.h"

namespace lathe::nn {
namespace {

using Names = std::vector<std::string>;

/// A base whose query and key are one product, and a head.
struct Small : Module {
  Linear both{*this, Names{"base.query", "base.key"}, 8, 4}, dense{*this, "base.dense", 4, 8},
      classifier{*this, "pre_classifier", 8, 2};
};

AdapterOptions options(Names targets, Names saved = {}) {
  return {.rank = 2, .targets = std::move(targets), .modules_to_save = std::move(saved)};
}

/// Source: peft 0.21, LoraLayer.update_layer.
TEST(Adapter, IsScaledByItsRankOrTheRootOfIt) {
  EXPECT_EQ((AdapterOptions{.rank = 16, .alpha = 8}.scale()), 0.5);
  EXPECT_EQ((AdapterOptions{.rank = 16, .alpha = 8, .rslora = true}.scale()), 2);
}

TEST(Adapter, IsOfLayersByTheirLastNamesButNotOfWhatIsTrainedWhole) {
  const Small module;
  EXPECT_EQ(linear_layers(module), (Names{"base.query", "base.key", "base.dense", "pre_classifier"}));
  EXPECT_EQ(adapted_layers(module, options({"key", "base.dense"})), (Names{"base.key", "base.dense"}));
  EXPECT_EQ(adapted_layers(module, options({"ense", "y"})), Names());
  EXPECT_EQ(adapted_layers(module, options({"pre_classifier"})), Names{"pre_classifier"});
  EXPECT_EQ(adapted_layers(module, options({"pre_classifier"}, {"classifier"})), Names());
}

TEST(Adapter, TrainsNothingButItselfAndWhatIsTrainedWhole) {
  Small module;
  adapt(module, options({"key"}, {"classifier"}));
  Names trained;
  for (const Parameter& p : module.parameters())
    if (p.trainable) trained.push_back(p.name + " " + to_string(p.shape));
  EXPECT_EQ(trained, (Names{"base.key.lora_A.weight [2, 8]", "base.key.lora_B.weight [4, 2]",
                            "pre_classifier.weight [2, 8]", "pre_classifier.bias [2]"}));
}

}  // namespace
}  // namespace lathe::nn
