// Where the parameters of a model lie: the trained ones in the order in which all Lathes have put them, which
// checkpoints of the first format, the parts of ranks and sums of gradients follow.
#include <gtest/gtest.h>

#include <set>

#include "lathe/models/family.h"
#include "lathe/train/auto_model.h"

namespace lathe::layout_test {
namespace {

/// The order of the first Lathe: those with weight decay, then the rest, each as declared.
struct FlatLayout {
  std::vector<int64_t> offset;
  int64_t trainable = 0, decayed = 0;
};
FlatLayout flat_layout(const std::vector<nn::Parameter>& parameters) {
  FlatLayout layout;
  layout.offset.resize(parameters.size());
  for (const bool decay : {true, false}) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].trainable || parameters[i].decay != decay) continue;
      layout.offset[i] = layout.trainable;
      layout.trainable += elements(parameters[i].shape);
    }
    if (decay) layout.decayed = layout.trainable;
  }
  return layout;
}

void freeze_all(TaskModel& model) { model.set_trainable("", false); }
void freeze_base(TaskModel& model) { model.set_trainable(model.base_prefix(), false); }
void freeze_head(TaskModel& model) {
  freeze_all(model);
  model.set_trainable(model.base_prefix(), true);
}
void freeze_tables(TaskModel& model) { model.set_trainable(model.base_prefix() + "embeddings.", false); }
void freeze_every_third_block(TaskModel& model) {
  for (size_t b = 0; b < model.blocks().size(); b += 3)
    for (const int index : model.blocks()[b].parameters)
      model.set_trainable(model.parameters()[static_cast<size_t>(index)].name, false);
}

void expect_places(const TaskModel& model) {
  const std::vector<nn::Parameter>& all = model.parameters();
  const nn::Layout layout = nn::layout_of(model);
  const FlatLayout flat = flat_layout(all);
  EXPECT_EQ(layout.trainable, flat.trainable);
  EXPECT_EQ(layout.decayed, flat.decayed);
  ASSERT_EQ(layout.parameters.size(), all.size());
  ASSERT_EQ(layout.blocks.size(), model.blocks().size());
  std::set<std::string> frozen;
  for (size_t b = 0; b < model.blocks().size(); ++b) {
    const nn::Parameter& first = model.first_of(model.blocks()[b]);
    int64_t into = 0;
    for (const int index : model.blocks()[b].parameters) {
      const auto i = static_cast<size_t>(index);
      const nn::Layout::Place& at = layout.parameters[i];
      EXPECT_EQ(at.dtype, DType::f32);
      EXPECT_EQ(at.state, first.trainable ? "parameters" : "frozen." + first.name) << all[i].name;
      EXPECT_EQ(at.offset, first.trainable ? flat.offset[i] : into) << all[i].name;
      into += elements(all[i].shape);
    }
    EXPECT_EQ(layout.blocks[b], layout.parameters[static_cast<size_t>(model.blocks()[b].parameters[0])]);
    EXPECT_TRUE(first.trainable || frozen.insert(layout.blocks[b].state).second) << first.name;
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_NE(layout.parameters[i].state, "") << all[i].name;
}

TEST(Layout, HasTheTrainedParametersOfEveryModelWhereTheyHaveAlwaysBeen) {
  int models = 0;
  for (const Family* family : families())
    for (const MakeTask task : {single_label, question_answering, token_labels, masked_lm, causal_lm}) {
      if (family->decoder != nullptr ? task != single_label && task != causal_lm : task == causal_lm)
        continue;
      ModelConfig c;
      c.model_type = family->model_type;
      c.vocab_size = 40, c.hidden_size = 16, c.num_hidden_layers = 3, c.num_attention_heads = 2;
      c.intermediate_size = 32, c.max_position_embeddings = 32, c.embedding_size = 8;
      c.modern.local = {false, true, true};
      if (family->decoder != nullptr) {
        c.decoder.kv_heads = 1, c.decoder.head_width = 6, c.decoder.window = 4;
        c.decoder.local = {false, true, true};
      }
      if (task == masked_lm && family->masked_lm == nullptr && !family->modern) continue;
      for (const auto freeze : {+[](TaskModel&) {}, freeze_all, freeze_base, freeze_head, freeze_tables,
                                freeze_every_third_block}) {
        AutoModel model = from_config(c, {task, {"a", "b"}}, std::nullopt);
        freeze(*model.model);
        SCOPED_TRACE(c.model_type + ", head " +
                     std::to_string(static_cast<int>(model.model->task().head().kind)));
        expect_places(*model.model);
        ++models;
      }
    }
  EXPECT_GE(models, 6 * 3 * 7 + 6 * 2 * 5);
}

TEST(Layout, OfBlocksMayHaveOthersBetweenTheirParameters) {
  nn::Module module;
  const int a = module.declare({.name = "a", .shape = {2, 3}}),
            b = module.declare({.name = "b", .shape = {4, 3}}),
            c = module.declare({.name = "c", .shape = {5, 3}});
  module.add_block({a, c});
  module.add_block({b});
  const nn::Layout layout = nn::layout_of(module);
  EXPECT_EQ(layout.parameters[static_cast<size_t>(a)].offset, 0);
  EXPECT_EQ(layout.parameters[static_cast<size_t>(c)].offset, 6);
  EXPECT_EQ(layout.parameters[static_cast<size_t>(b)].offset, 21);
}

}  // namespace
}  // namespace lathe::layout_test
