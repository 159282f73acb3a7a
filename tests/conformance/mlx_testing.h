#pragma once
// Small trainings for the tests of the device on MLX.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/engine/session.h"
#include "lathe/models/make_model.h"
#include "tests/device_under_test.h"

namespace lathe::mlx_testing {

inline ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 600;  // above 512 rows gradients are added up by the scan
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.intermediate_size = 64;
  config.max_position_embeddings = 128;
  return config;
}

/// For many steps and long rows.
inline ModelConfig tiny_config() {
  ModelConfig config = small_config();
  config.hidden_size = 16;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.max_position_embeddings = 1024;
  return config;
}

/// Rows of these lengths, packed; tokens filled up to `tokens`.
inline PackedBatch batch_of(const std::vector<int>& lengths, int tokens) {
  PackedBatch batch;
  batch.rows = static_cast<int>(lengths.size());
  batch.tokens = tokens;
  batch.cu_seqlens = {0};
  for (size_t row = 0; row < lengths.size(); ++row) {
    batch.cls_index.push_back(batch.cu_seqlens.back());
    batch.tensors.ints("labels").push_back(static_cast<int32_t>(row % 2));
    for (int t = 0; t < lengths[row]; ++t) {
      batch.input_ids.push_back(static_cast<int32_t>((row * 31 + static_cast<size_t>(t) * 7) % 600));
      batch.position_ids.push_back(t);
      batch.sample_ids.push_back(static_cast<int32_t>(row));
    }
    batch.cu_seqlens.push_back(batch.cu_seqlens.back() + lengths[row]);
  }
  for (auto* part : {&batch.input_ids, &batch.position_ids, &batch.sample_ids})
    part->resize(static_cast<size_t>(tokens), 0);
  batch.token_type_ids.assign(static_cast<size_t>(tokens), 0);
  return batch;
}

struct Training {
  explicit Training(Backend& backend, DType dtype = DType::f32, const ModelConfig& config = small_config(),
                    int64_t recompute_every = 0, int64_t classes = 2)
      : model(make_model(config, single_label(classes))) {
    Session::Options options;
    options.program.dtype = dtype;
    options.program.recompute_every = recompute_every;
    session = std::make_unique<Session>(backend, *model, options);
    for (size_t i = 0; i < model->parameters().size(); ++i) {
      std::vector<float> values(static_cast<size_t>(elements(model->parameters()[i].shape)));
      for (size_t k = 0; k < values.size(); ++k)
        values[k] = 0.02f * std::sin(static_cast<float>(k * 37 % 1009 + i));
      session->parameters().write(static_cast<int>(i), values);
    }
  }
  Session::Pending step(const PackedBatch& batch) {
    StepScalars scalars;
    scalars.learning_rate = 1e-3;
    scalars.update_step = scalars.adam_step = ++steps;
    return session->step(batch, scalars);
  }
  std::unique_ptr<TaskModel> model;
  std::unique_ptr<Session> session;
  int64_t steps = 0;
};

/// Sets a variable while it lives.
struct Variable {
  const char* name;
  Variable(const char* n, const char* value) : name(n) { setenv(n, value, 1); }
  ~Variable() { unsetenv(name); }
};

class Mlx : public testing::Test {
 protected:
  void SetUp() override { LATHE_NEEDS_DEVICE(kMlxDevice); }
};

/// What a first step throws.
inline Error error_of_a_step(Backend& mlx) {
  Training training(mlx);
  try {
    training.step(batch_of({5, 9}, 64));
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "it ran";
  return {ErrorCode::kInternal, ""};
}

}  // namespace lathe::mlx_testing
