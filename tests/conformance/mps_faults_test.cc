// What users of other libraries suffer from on Apple's GPUs, and must not here (docs/apple.md names each with
// its test).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "lathe/engine/session.h"
#include "lathe/models/make_model.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/functional.h"
#include "lathe/program/memory_plan.h"
#include "lathe/tasks/tasks.h"
#include "tests/device_under_test.h"

namespace lathe::mps_faults_test {
namespace {

class MpsFaults : public testing::Test {
 protected:
  void SetUp() override {
    LATHE_NEEDS_DEVICE(kMlxDevice);
    mlx_ = open_device(kMlxDevice);
  }

  /// The outputs of one run, all f32.
  std::vector<std::vector<float>> run(const Program& program,
                                      const std::vector<std::span<const std::byte>>& inputs,
                                      const Bindings& bindings = {}) {
    const Selection selection = select(program, *mlx_);
    const auto compiled =
        mlx_->compile(program, selection, plan_memory(program, selection, 64), bindings).value();
    Event event;
    compiled->run({inputs}, &event).check();
    std::vector<std::vector<float>> outputs;
    for (size_t o = 0; o < program.outputs().size(); ++o) {
      outputs.emplace_back(static_cast<size_t>(elements(program.type(program.outputs()[o].second))));
      compiled->read(event, o, std::as_writable_bytes(std::span(outputs.back()))).check();
    }
    return outputs;
  }

  std::unique_ptr<Backend> mlx_;
};

std::vector<float> counted(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

/// Elements begin … begin + count − 1 of counted(), times `factor`.
std::vector<float> part(int begin, int count, float factor) {
  std::vector<float> x;
  for (int i = 0; i < count; ++i) x.push_back(factor * static_cast<float>(begin + i + 1));
  return x;
}

TEST_F(MpsFaults, ViewsAreReadAndComputedWhereTheyLie) {
  Program program;
  const Value x = program.input("x", {DType::f32, {60}});
  const Value part_of_part = slice(slice(x, 7, {40}), 5, {4, 6});
  program.output("view", part_of_part);
  program.output("of view", scale(part_of_part, 2));
  program.output("overlapping", add(slice(x, 0, {50}), slice(x, 10, {50})));
  const std::vector<float> values = counted(60);
  const auto out = run(program, {std::as_bytes(std::span(values))});
  EXPECT_EQ(out[0], part(12, 24, 1));
  EXPECT_EQ(out[1], part(12, 24, 2));
  std::vector<float> sums;
  for (int i = 0; i < 50; ++i) sums.push_back(static_cast<float>(i + 1 + i + 11));
  EXPECT_EQ(out[2], sums);
}

TEST_F(MpsFaults, APartOfAStateIsReadBeyondItsStart) {
  Program program;
  const Value state = program.state("w", {DType::f32, {100}});
  program.output("row", scale(slice(state, 64, {36}), 3));
  Bindings bindings;
  bindings.states["w"] = mlx_->allocate(400).value();
  const std::vector<float> values = counted(100);
  mlx_->copy_in(bindings.states["w"], 0, std::as_bytes(std::span(values))).check();
  EXPECT_EQ(run(program, {}, bindings)[0], part(64, 36, 3));
}

TEST_F(MpsFaults, ADimensionBeyondThirtyTwoBitsIsRefusedAndNotWrapped) {
  Program program;
  program.output("y", scale(program.input("x", {DType::f32, {(int64_t{1} << 32) + 8}}), 2));
  const std::vector<float> few = counted(8);
  try {
    run(program, {std::as_bytes(std::span(few))});
    FAIL() << "a tensor of 2^32 + 8 elements was taken for one of 8";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("4294967304"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("below 2^31"), std::string::npos) << error.what();
  }
}

using Bounds = std::array<int32_t, 4>;  // of three rows
constexpr Bounds kTokens{0, 3, 8, 10}, kEach{0, 1, 2, 3};

std::span<float> row_of(std::vector<float>& x, const Bounds& bounds, size_t row) {
  const size_t width = x.size() / static_cast<size_t>(bounds.back());
  const auto begin = static_cast<size_t>(bounds[row]), end = static_cast<size_t>(bounds[row + 1]);
  return std::span(x).subspan(begin * width, (end - begin) * width);
}

/// Rows with an element that is not finite.
std::vector<size_t> broken_rows(std::vector<float> x, const Bounds& bounds) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < 3; ++row)
    if (!std::ranges::all_of(row_of(x, bounds, row), [](float value) { return std::isfinite(value); }))
      rows.push_back(row);
  return rows;
}

TEST_F(MpsFaults, ATextThatOverflowsLeavesTheOthersOfItsBatchAlone) {
  const std::vector<int32_t> ids{0, 1, 2}, rng{1, 2};
  Program program;
  const Value qkv = program.input("qkv", {DType::f32, {10, 3 * 8}});
  const Value cu = program.input("cu", {DType::i32, {4}}), row_ids = program.input("ids", {DType::i32, {3}});
  const Value seed = program.input("rng", {DType::i32, {2}});
  program.output("attention", program.emit(op::attention, {qkv, cu, row_ids, seed}, op::attention.attrs)[0]);
  program.output("mean", segment_mean(qkv, cu));
  for (size_t row = 0; row < 3; ++row) {
    std::vector<float> values(10 * 3 * 8, 0.5f);
    std::ranges::fill(row_of(values, kTokens, row), INFINITY);
    const auto out = run(program, {std::as_bytes(std::span(values)), std::as_bytes(std::span(kTokens)),
                                   std::as_bytes(std::span(ids)), std::as_bytes(std::span(rng))});
    EXPECT_EQ(broken_rows(out[0], kTokens), std::vector{row}) << "attention";
    EXPECT_EQ(broken_rows(out[1], kEach), std::vector{row}) << "mean";
  }
}

ModelConfig config_of(int layers) {
  ModelConfig config;
  config.vocab_size = 50, config.hidden_size = 16, config.num_hidden_layers = layers;
  config.num_attention_heads = 2, config.intermediate_size = 32, config.max_position_embeddings = 64;
  return config;
}

PackedBatch batch_of(int tokens) {
  PackedBatch batch;
  batch.rows = 1, batch.tokens = tokens;
  batch.cu_seqlens = {0, tokens}, batch.cls_index = {0}, batch.tensors.ints("labels") = {1};
  batch.input_ids.assign(static_cast<size_t>(tokens), 7);
  batch.token_type_ids.assign(static_cast<size_t>(tokens), 0);
  batch.sample_ids.assign(static_cast<size_t>(tokens), 0);
  batch.position_ids.resize(static_cast<size_t>(tokens));
  std::iota(batch.position_ids.begin(), batch.position_ids.end(), 0);
  return batch;
}

int64_t launches_of(Backend& backend, int layers) {
  const auto model = make_model(config_of(layers), single_label(2));
  Session session(backend, *model, {});
  int64_t count = 0;
  for (const auto& [kind, n] : session.plan_step(batch_of(32), {}).launches) count += n;
  return count;
}

/// A layer takes as many launches however many there are, but for those that MLX joins with their
/// neighbours', and fewer than 100.
TEST_F(MpsFaults, LaunchesGrowByTheLayerAlone) {
  const int64_t two = launches_of(*mlx_, 2), six = launches_of(*mlx_, 6), ten = launches_of(*mlx_, 10);
  EXPECT_NEAR(static_cast<double>(ten - six), static_cast<double>(six - two),
              0.05 * static_cast<double>(six - two));
  EXPECT_LT(ten - six, 4 * 100);
}

}  // namespace
}  // namespace lathe::mps_faults_test
