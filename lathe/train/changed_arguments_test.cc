#include "lathe/train/changed_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/core/test_folder.h"
#include "lathe/settings/argument_table.h"
#include "lathe/train/python/saved_arguments.h"

namespace lathe {
namespace {

class ChangedArguments : public testing::Test {
 protected:
  /// Of a run that was to make 10 updates and has made 5.
  std::vector<std::string> lines(const TrainingArguments& here, int64_t max_steps = 10, bool over = false) {
    write_arguments(real_file_system(), folder_.path(), there_, "cpu").check();
    TrainerState state;
    state.global_step = 5;
    state.max_steps = 10;
    return changed_arguments(real_file_system(), folder_.path(), here,
                             {state, max_steps, over, &metric_schedule_});
  }

  const TestFolder folder_;
  TrainingArguments there_;
  nlohmann::json metric_schedule_;
};

TEST_F(ChangedArguments, AreSaidEachWithWhatTheyDo) {
  EXPECT_TRUE(lines(there_).empty());
  TrainingArguments here;
  here.learning_rate = 1e-3, here.num_train_epochs = 6, here.bf16_full_eval = true;
  const std::vector<std::string> wanted = {
      "num_train_epochs 3.0 there and 6.0 here (trains to step 20 instead of 10, and the learning rate's "
      "schedule "
      "ends there, too; updates made stay)",
      "learning_rate 5e-05 there and 0.001 here (counts from the next update on; those made stay as they "
      "are)",
      "bf16_full_eval False there and True here (counts in the evaluations to come, changes no weight)"};
  EXPECT_EQ(lines(here, 20), wanted);
}

TEST_F(ChangedArguments, ChangeNothingWhereNoUpdateIsLeft) {
  TrainingArguments here;
  here.learning_rate = 1e-3, here.bf16_full_eval = true;
  const std::vector<std::string> wanted = {
      "learning_rate 5e-05 there and 0.001 here (changes nothing: there is no update left to make)",
      "bf16_full_eval False there and True here (counts in the evaluations to come, changes no weight)"};
  EXPECT_EQ(lines(here, 10, true), wanted);
}

TEST_F(ChangedArguments, TheRateOfAScheduleThatFollowsAMetricIsItsOwn) {
  there_.lr_scheduler_type = "reduce_lr_on_plateau";
  TrainingArguments here = there_;
  here.learning_rate = 1e-3, here.head_learning_rate = 1e-2;
  const auto count_that_change_nothing = [&] {
    return std::ranges::count_if(lines(here), [](const std::string& line) {
      return line.find("changes nothing now: the schedule goes on with the rate") != line.npos;
    });
  };
  EXPECT_EQ(count_that_change_nothing(), 0) << "the schedule before was another one";
  metric_schedule_ = {{"rate", 1e-4}};
  EXPECT_EQ(count_that_change_nothing(), 1) << "only the base had such a schedule";
  metric_schedule_["head"] = {{"rate", 1e-3}};
  EXPECT_EQ(count_that_change_nothing(), 2);
}

TEST_F(ChangedArguments, ThatDecideOnNumbersAreAllCompared) {
  there_.num_train_epochs = 1;
  TrainingArguments here = there_;
  here.warmup_ratio = 0.1, here.metric_for_best_model = "f1", here.fp8 = true;
  EXPECT_EQ(lines(here).size(), 3u);
  here = there_;
  here.logging_steps = 7, here.threads = 3, here.output_dir = "elsewhere";
  EXPECT_TRUE(lines(here).empty());
}

}  // namespace
}  // namespace lathe
