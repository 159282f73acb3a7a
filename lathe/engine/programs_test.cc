#include "lathe/engine/programs.h"

#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "lathe/models/make_model.h"
#include "lathe/tasks/tasks.h"

namespace lathe {
namespace {

std::unique_ptr<TaskModel> tiny_model() {
  ModelConfig config;
  config.vocab_size = 40, config.hidden_size = 16, config.num_hidden_layers = 8;
  config.num_attention_heads = 2, config.intermediate_size = 32, config.max_position_embeddings = 32;
  return make_model(config, single_label(2));
}

std::string traced(TaskModel& model, int64_t rows) {
  return build_program(model, ProgramKind::kStep, {8 * rows, rows}, {})->dump();
}

TEST(Programs, ThreadsTraceOneModelInTurns) {
  const auto model = tiny_model();
  constexpr int64_t kThreads = 3, kPrograms = 32;
  std::latch start(kThreads);
  const auto trace_all = [&] {
    start.arrive_and_wait();
    std::vector<std::string> programs;
    for (int64_t rows = 1; rows <= kPrograms; ++rows) programs.push_back(traced(*model, rows));
    return programs;
  };
  std::vector<std::future<std::vector<std::string>>> threads;
  for (int64_t i = 0; i < kThreads; ++i) threads.push_back(std::async(std::launch::async, trace_all));
  for (auto& thread : threads) {
    const std::vector<std::string> found = thread.get();
    for (int64_t rows = 1; rows <= kPrograms; ++rows)
      EXPECT_EQ(found[static_cast<size_t>(rows - 1)], traced(*model, rows)) << rows;
  }
}

TEST(Programs, AnErrorEndsTheTrace) {
  const auto model = tiny_model();
  ProgramOptions wrong;
  wrong.base_given = true;  // of a base that is trained
  EXPECT_THROW(build_program(*model, ProgramKind::kStep, {8, 1}, wrong), Error);
  EXPECT_THROW(static_cast<void>(model->trace()), Error);
}

}  // namespace
}  // namespace lathe
