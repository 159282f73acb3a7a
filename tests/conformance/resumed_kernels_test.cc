// Kernels that have to prove themselves: a run that goes on takes those that it began with, whatever verdicts
// say by then.
#include <gtest/gtest.h>

#include "lathe/backends/register.h"
#include "lathe/core/test_folder.h"
#include "lathe/ops/fused.h"
#include "lathe/program/forwarding_backend_testing.h"
#include "lathe/program/kernel_choices.h"
#include "lathe/train/trainer.h"
#include "tests/conformance/made_batch.h"

namespace lathe::resumed_kernels_test {
namespace {

const OpDef& kOnTrial = op::dropout_add_layer_norm;

/// The cpu device, which takes its fused op where a verdict is good.
class OnTrial : public ForwardingBackend {
 public:
  explicit OnTrial(bool good) : ForwardingBackend(open_device("cpu", {2})), choices_(verdicts(good), "") {
    choices_.offer(kOnTrial.name);
  }
  std::vector<const Impl*> implementations(const OpDef& op) const override {
    if (&op == &kOnTrial && !choices_.use(kOnTrial.name)) return {};
    return real_->implementations(op);
  }
  std::string tuning() const override { return choices_.text(); }
  void adopt_tuning(const std::string& text) override { choices_.adopt(text); }

 private:
  static KernelVerdicts verdicts(bool good) {
    KernelVerdicts all;
    all.set(kOnTrial.name, {true, good ? 1.0 : 2.0, 1.5});
    return all;
  }
  KernelChoices choices_;
};

/// The losses of six updates, whose weights are saved after three.
std::vector<double> losses(bool good, const std::string& folder, const std::string& resume_from = "") {
  ModelConfig config;
  config.vocab_size = 40, config.hidden_size = 32, config.num_hidden_layers = 2;
  config.num_attention_heads = 4, config.intermediate_size = 64, config.max_position_embeddings = 32;
  AutoModel model = from_config(config, {single_label, {"a", "b"}}, std::nullopt);
  TrainingArguments args;
  args.output_dir = folder;
  args.bf16 = true;  // whose sums a fused op rounds once
  args.learning_rate = 1e-2;
  args.max_steps = 6, args.save_steps = 3, args.save_strategy = "steps";
  args.logging_steps = 1;
  const TokenizedDataset train = made_samples(40);
  OnTrial device(good);
  Trainer trainer(device, model, args, &train, nullptr);
  trainer.train(resume_from);
  std::vector<double> all;
  for (const auto& entry : trainer.state().log_history)
    if (entry.contains("loss")) all.push_back(entry["loss"]);
  return all;
}

TEST(ResumedKernels, AreThoseOfTheRunThatGoesOn) {
  const TestFolder root;
  for (const bool good : {true, false}) {
    const std::string folder = root / (good ? "used" : "unused");
    const std::vector<double> wanted = losses(good, folder);
    EXPECT_NE(losses(!good, root / "other"), wanted) << "nothing depends on the kernel";
    EXPECT_EQ(losses(!good, folder, folder + "/checkpoint-3"), wanted);
  }
}

}  // namespace
}  // namespace lathe::resumed_kernels_test
