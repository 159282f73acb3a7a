// What a step exchanges between the processes that train together, and when.
#include <gtest/gtest.h>

#include <algorithm>

#include "lathe/engine/programs.h"
#include "lathe/ops/all_reduce.h"
#include "lathe/ops/gather_ranks.h"
#include "lathe/ops/linear.h"
#include "lathe/ops/optimizers/flat.h"
#include "lathe/ops/optimizers/optimizer.h"
#include "lathe/ops/rows.h"
#include "lathe/program/hoist.h"
#include "lathe/train/auto_model.h"

namespace lathe::exchanged_gradients_test {
namespace {

constexpr int64_t kWidth = 32, kTokens = 96, kRows = 3;

std::unique_ptr<Program> step_program(int64_t words, int layers, int ranks, int64_t bucket_bytes,
                                      DType wire = DType::f32) {
  ModelConfig c;
  c.vocab_size = words, c.hidden_size = kWidth, c.num_hidden_layers = layers, c.num_attention_heads = 4;
  c.intermediate_size = 4 * kWidth, c.max_position_embeddings = 32;
  const AutoModel m = from_config(c, {single_label, {"a", "b", "c"}}, std::nullopt);
  ProgramOptions o;
  o.dtype = DType::bf16;
  o.optimizer = AdamWOptions{};
  o.rounded_gradients = true;
  o.ranks = ranks, o.bucket_bytes = bucket_bytes, o.gradient_wire = wire;
  auto program = build_program(*m.model, ProgramKind::kStep, {kTokens, kRows}, o);
  hoist(*program, op::all_reduce);
  hoist(*program, op::gather_ranks);
  return program;
}

std::vector<Type> types_of(const Program& program, const OpDef& op) {
  std::vector<Type> types;
  for (const Node& node : program.nodes())
    if (node.op == &op) types.push_back(program.type(node.out[0]));
  return types;
}

/// A sum that waited for the end of the backward pass would be waited for in turn.
TEST(ExchangedGradients, AreSummedWhileThoseOfLayersBelowAreComputed) {
  const auto program = step_program(1000, 2, 2, 10000);
  std::vector<int> products_before;  // gradients of weights computed before each sum
  int products = 0;
  for (const Node& node : program->nodes()) {
    products += node.op == &op::linear_bwd_weight;
    if (node.op == &op::all_reduce) products_before.push_back(products);
  }
  ASSERT_GE(products_before.size(), 4);
  EXPECT_EQ(products_before[0], 0);  // the loss is there before any gradient
  EXPECT_LE(products_before[1], 4);  // classifier, pooler and, of the last layer, the output and its input
  EXPECT_LE(products_before[2], 8);
}

/// A table is still to be summed from the rows of words: they go before what is complete about then.
TEST(ExchangedGradients, OfTheFirstLayerStandBehindTheRowsOfWords) {
  const auto program = step_program(1000, 2, 2, 10000);
  const auto& nodes = program->nodes();
  const auto rows =
      std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == &op::gather_ranks; });
  ASSERT_NE(rows, nodes.end());
  const auto rounded = [&](const Node& n) {
    return n.op == &op::all_reduce && program->type(n.out[0]).dtype == DType::bf16;
  };
  EXPECT_EQ(std::count_if(rows, nodes.end(), rounded), 1);
  EXPECT_GE(std::count_if(nodes.begin(), rows, rounded), 2);
}

/// What is complete last is waited for.
TEST(ExchangedGradients, OfTheFirstLayerAreOfASmallBucket) {
  const auto program = step_program(1000, 6, 2, 160 * 1024);
  std::vector<int64_t> sizes;  // of rounded ones, in the order in which they are summed
  for (const Type& type : types_of(*program, op::all_reduce))
    if (type.dtype == DType::bf16) sizes.push_back(static_cast<int64_t>(bytes_of(type)));
  ASSERT_GE(sizes.size(), 3);
  EXPECT_LE(sizes.back(), *std::max_element(sizes.begin(), sizes.end()) / 4);
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 160 * 1024);
}

TEST(ExchangedGradients, OfWordsAreTheRowsOfAllRanksWhereLessTravelsSo) {
  const int64_t words = 1000;
  const auto program = step_program(words, 1, 3, 10000);
  EXPECT_EQ(types_of(*program, op::gather_ranks), (std::vector<Type>{{DType::f32, {3 * kTokens, kWidth}}}));
  EXPECT_EQ(program->type(program->find("all_input_ids")), (Type{DType::i32, {3 * kTokens}}));
  const auto tables = types_of(*program, op::scatter_add_rows);
  EXPECT_EQ(std::count(tables.begin(), tables.end(), Type{DType::f32, {words, kWidth}}), 1);
  int64_t summed = 0;
  for (const Type& type : types_of(*program, op::all_reduce)) summed += elements(type);
  const int64_t parameters = elements(program->type(program->find("parameters")));
  EXPECT_EQ(summed, parameters - words * kWidth + 2);  // loss and stop
}

TEST(ExchangedGradients, OfAFewWordsAreSummedAsATable) {
  // Each rank gets two thirds of 288 rows of the others, or sends and gets two thirds of the table.
  EXPECT_TRUE(types_of(*step_program(144, 1, 3, 10000), op::gather_ranks).empty());
  EXPECT_FALSE(types_of(*step_program(145, 1, 3, 10000), op::gather_ranks).empty());
  // Rows travel in f32, a table then in half the bytes.
  EXPECT_TRUE(types_of(*step_program(288, 1, 3, 10000, DType::bf16), op::gather_ranks).empty());
  EXPECT_FALSE(types_of(*step_program(289, 1, 3, 10000, DType::bf16), op::gather_ranks).empty());
}

/// If one rank has an infinite loss, all ranks leave the update out together.
TEST(ExchangedGradients, AreAppliedWhereTheLossOfAllRanksIsFinite) {
  const auto program = step_program(1000, 1, 2, 10000);
  const auto& nodes = program->nodes();
  const auto maker_of = [&](int id) -> const Node& {
    return nodes.at(static_cast<size_t>(program->values()[static_cast<size_t>(id)].producer));
  };
  const auto update =
      std::find_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == &op::adamw; });
  ASSERT_NE(update, nodes.end());
  const Node& loss = maker_of(update->in[5]);
  ASSERT_EQ(loss.op, &op::slice);
  EXPECT_EQ(maker_of(loss.in[0]).op, &op::all_reduce);
}

TEST(ExchangedGradients, AreNoneOfOneProcess) {
  const auto program = step_program(1000, 1, 1, 10000);
  EXPECT_TRUE(types_of(*program, op::gather_ranks).empty());
  EXPECT_TRUE(types_of(*program, op::all_reduce).empty());
}

}  // namespace
}  // namespace lathe::exchanged_gradients_test
