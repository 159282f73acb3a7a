#include "lathe/api/hf.h"

#include <gtest/gtest.h>

#include "lathe/core/source_folder_testing.h"
#include "lathe/core/test_folder.h"

namespace lathe {
namespace {

TEST(HfTrainer, KeepsOutOfTheFolderThatAnotherOfThisProcessTrainsInto) {
  const TestFolder folder;
  TokenizedDataset data{.input_ids = {2, 5, 3}, .type_ids = {0, 0, 0}, .begins = {0, 3}};
  data.tensors.ints("labels") = {1};
  AutoModel model = from_pretrained(real_file_system(), source_path("tests/golden/tiny_bert/classification"),
                                    {single_label, {}, false});
  TrainingArguments args;
  args.output_dir = folder / "out";
  args.use_cpu = true;
  args.threads = 1;
  args.max_steps = 2;
  args.save_strategy = "steps";
  args.save_steps = 1;
  hf::Trainer second(model, args, data, data);
  std::string refused;
  TrainerHooks hooks;
  hooks.on_step = [&](int64_t, int64_t, std::optional<double>) {
    try {
      second.train();
    } catch (const Error& error) {
      refused = error.what();
    }
  };
  hf::Trainer(model, args, data, data, std::move(hooks)).train();
  EXPECT_NE(refused.find("trains into " + *args.output_dir), std::string::npos) << refused;
  EXPECT_EQ(second.train().global_step, 2);  // its turn
}

}  // namespace
}  // namespace lathe
