#include "lathe/settings/training_arguments.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/core/error.h"

namespace lathe {
namespace {

template <typename Change>
std::string error_of(Change&& change) {
  TrainingArguments args;
  change(args);
  try {
    validate(args);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    return e.what();
  }
  return "no error";
}

#define EXPECT_SAYS(text, ...)                                                    \
  EXPECT_NE(error_of([](auto& a) { __VA_ARGS__; }).find(text), std::string::npos) \
      << error_of([](auto& a) { __VA_ARGS__; })

TEST(Validate, DefaultsPass) {
  TrainingArguments args;
  const auto notices = validate(args);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("--output_dir is not given"), std::string::npos);
  EXPECT_EQ(*args.output_dir, "trainer_output");
  EXPECT_EQ(error_of([](auto&) {}), "no error");
}

TEST(Validate, TwiceIsOnce) {
  TrainingArguments args;
  args.output_dir = "out";
  args.eval_strategy = args.save_strategy = "steps";
  args.load_best_model_at_end = args.use_cpu = true;
  EXPECT_TRUE(validate(args).empty());
  const TrainingArguments once = args;
  EXPECT_TRUE(validate(args).empty());
  EXPECT_EQ(args.eval_steps, once.eval_steps);
  EXPECT_EQ(args.metric_for_best_model, once.metric_for_best_model);
  EXPECT_EQ(args.device, "cpu");
}

TEST(Validate, DerivesWhatOneFieldSaysAboutAnother) {
  TrainingArguments args;
  args.eval_strategy = "steps";
  args.save_strategy = "best";
  args.logging_steps = 20;
  args.load_best_model_at_end = true;
  validate(args);
  EXPECT_TRUE(args.do_eval);
  EXPECT_EQ(args.eval_steps, 20);
  EXPECT_EQ(args.metric_for_best_model, "loss");
  EXPECT_EQ(args.greater_is_better, false);

  args = {};
  args.metric_for_best_model = "eval_f1";
  validate(args);
  EXPECT_EQ(args.greater_is_better, true);
  EXPECT_FALSE(args.do_eval);
}

TEST(Validate, RefusesContradictions) {
  EXPECT_SAYS("--fp16 and --bf16: found both", a.fp16 = a.bf16 = true);
  EXPECT_SAYS("--fp16_full_eval and --bf16_full_eval", a.fp16_full_eval = a.bf16_full_eval = true);
  EXPECT_SAYS("found 1000000000 x 3 samples per update", a.per_device_train_batch_size = 1'000'000'000;
              a.gradient_accumulation_steps = 3);
  EXPECT_SAYS("--max_steps: found 9223372036854775807, expected at most 1000000000000000",
              a.max_steps = INT64_MAX);
  EXPECT_SAYS("expected --dataloader_num_workers > 0", a.dataloader_prefetch_factor = 2);
  EXPECT_SAYS("--use_cpu and --device cuda", a.use_cpu = true; a.device = "cuda");
  EXPECT_SAYS("--fp8 and --fp16: found both", a.fp8 = a.fp16 = true);
  EXPECT_SAYS("--fp8 and --fp16_full_eval: found both", a.fp8 = a.fp16_full_eval = true);
  EXPECT_SAYS("--fp8 and --int8: found both", a.fp8 = a.int8 = a.do_eval = true);
  EXPECT_EQ(error_of([](auto& a) { a.fp8 = a.bf16 = true; }), "no error");
  EXPECT_SAYS("--int8: found neither --do_eval nor --do_predict", a.int8 = a.do_train = true);
  EXPECT_EQ(error_of([](auto& a) { a.int8 = true, a.eval_strategy = "epoch"; }), "no error");
  EXPECT_SAYS("--resume and --resume_from_checkpoint", a.resume = "auto"; a.resume_from_checkpoint = "x");
}

TEST(Validate, WhatFollowsAMetricWantsEvaluations) {
  EXPECT_SAYS("--lr_scheduler_type greedy: found --eval_strategy no", a.lr_scheduler_type = "greedy");
  EXPECT_SAYS("--early_stopping_patience: found --eval_strategy no", a.early_stopping_patience = 2);
  EXPECT_SAYS("--save_strategy best: found --eval_strategy no", a.save_strategy = "best");
  EXPECT_SAYS("--lr_scheduler_kwargs: reduce_lr_on_plateau: 'factor' is 2, expected less than 1",
              a.eval_strategy = "epoch";
              a.lr_scheduler_type = "reduce_lr_on_plateau"; a.lr_scheduler_kwargs = {{"factor", 2}});
  TrainingArguments args;
  args.output_dir = "out";
  args.eval_strategy = "epoch";
  args.early_stopping_patience = 1;
  const auto notices = validate(args);
  EXPECT_EQ(args.metric_for_best_model, "loss");
  EXPECT_EQ(args.greater_is_better, false);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("without --load_best_model_at_end"), std::string::npos);
}

TEST(Validate, ReadsTheOptimizersSettings) {
  TrainingArguments args;
  args.output_dir = "out";
  args.optim = "sgd";
  args.weight_decay = 0.1;
  args.optim_args = "momentum=0.9, nesterov=true";
  EXPECT_TRUE(validate(args).empty());
  const auto sgd = std::get<SgdOptions>(optimizer_of(args));
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_EQ(sgd.weight_decay, 0.1);
  EXPECT_TRUE(sgd.nesterov);
  args.optim = "adafactor";
  EXPECT_EQ(validate(args).size(), 1u);
  EXPECT_EQ(std::get<AdafactorOptions>(optimizer_of(args)).weight_decay, 0.1);
  EXPECT_SAYS("--optim_args: found 'fast', expected name=value", a.optim_args = "fast");
  EXPECT_SAYS("nesterov: found momentum 0 and", a.optim = "sgd"; a.optim_args = "nesterov=1");
  EXPECT_SAYS("found 'beta1', expected momentum", a.optim = "sgd"; a.optim_args = "beta1=1");
  EXPECT_SAYS("--optim_args: momentum: found 'x', expected a number", a.optim = "sgd";
              a.optim_args = "momentum=x");
}

TEST(Validate, ReadsTheAcceleratorsSettings) {
  TrainingArguments args;
  args.output_dir = "out";
  args.accelerator_config = {{"split_batches", true}, {"dispatch_batches", nullptr}};
  EXPECT_TRUE(validate(args).empty());
  EXPECT_TRUE(accelerator_setting(args, "split_batches", false));
  EXPECT_TRUE(accelerator_setting(args, "even_batches", true));
  args.accelerator_config = {{"use_seedable_sampler", false}, {"non_blocking", true}};
  EXPECT_EQ(validate(args).size(), 2u);
  EXPECT_SAYS("found \"split\": true, expected split_batches", a.accelerator_config = {{"split", true}});
  EXPECT_SAYS("found \"even_batches\": 1, expected true or false",
              a.accelerator_config = {{"even_batches", 1}});
  EXPECT_SAYS("expected null: --gradient_accumulation_steps",
              a.accelerator_config = {{"gradient_accumulation_kwargs", {{"num_steps", 2}}}});
}

TEST(Validate, TheOldNamesOfActivationCheckpointingStandForTheNewOnes) {
  TrainingArguments args;
  EXPECT_EQ(recompute_every(args), 0);
  args.gradient_checkpointing = true;
  args.gradient_checkpointing_kwargs = {{"use_reentrant", false}};
  validate(args);
  EXPECT_EQ(args.activation_checkpointing, true);
  EXPECT_EQ(recompute_every(args), 1);

  args = {};
  args.activation_checkpointing = true;
  args.activation_checkpointing_kwargs = {{"every_n_layers", 3}, {"offload", false}};
  args.gradient_checkpointing = false;
  validate(args);
  EXPECT_EQ(args.gradient_checkpointing, true);
  EXPECT_EQ(args.gradient_checkpointing_kwargs, args.activation_checkpointing_kwargs);
  EXPECT_EQ(recompute_every(args), 3);
}

TEST(Validate, RefusesSettingsOfActivationCheckpointingThatMeanNothing) {
  const auto with = [](const nlohmann::json& kwargs) {
    return error_of([&](auto& a) { a.gradient_checkpointing_kwargs = kwargs; });
  };
  EXPECT_EQ(with({{"use_reentrant", true}, {"preserve_rng_state", true}, {"debug", false}}), "no error");
  EXPECT_NE(with({{"every_n_layers", 0}}).find("found \"every_n_layers\": 0"), std::string::npos);
  EXPECT_NE(with({{"every_n_layers", 1.5}}).find("at least 1"), std::string::npos);
  EXPECT_NE(with({{"use_reentrant", 1}}).find("use_reentrant"), std::string::npos);
  EXPECT_NE(with({{"offload", true}}).find("expected false: not there yet"), std::string::npos);
  EXPECT_NE(with({{"layers", 2}}).find("found \"layers\": 2, expected every_n_layers"), std::string::npos);
}

TEST(Validate, RefusesIntervalsThatAreNone) {
  EXPECT_SAYS("--logging_steps: found 0", a.logging_steps = 0);
  EXPECT_SAYS("--logging_steps: found 1.5, expected a whole number", a.logging_steps = 1.5);
  EXPECT_SAYS("no error", a.save_steps = 0);  // one checkpoint at the end
  EXPECT_SAYS("--save_steps: found 10.5", a.save_steps = 10.5);
  EXPECT_SAYS("--eval_steps: found 2.5", a.eval_strategy = "steps"; a.eval_steps = 2.5);
  EXPECT_SAYS("--warmup_steps: found 1.5", a.warmup_steps = 1.5);
  EXPECT_SAYS("--warmup_steps: found -1", a.warmup_steps = -1);
  EXPECT_SAYS("--eval_steps: found none", a.eval_strategy = "steps"; a.logging_strategy = "no";
              a.logging_steps = 0);
  EXPECT_SAYS("no error", a.logging_strategy = "epoch"; a.logging_steps = 0);
  EXPECT_SAYS("no error", a.save_strategy = "no"; a.save_steps = 0);
}

TEST(Validate, BestModelNeedsSavesThatFitTheEvaluations) {
  EXPECT_SAYS("found --eval_strategy no and --save_strategy steps", a.load_best_model_at_end = true);
  const auto with = [](double save, double eval) {
    return error_of([=](auto& a) {
      a.load_best_model_at_end = true;
      a.eval_strategy = "steps";
      a.save_steps = save;
      a.eval_steps = eval;
    });
  };
  EXPECT_EQ(with(100, 50), "no error");
  EXPECT_EQ(with(0, 50), "no error");
  EXPECT_EQ(with(0.3, 0.1), "no error");
  EXPECT_NE(with(100, 30).find("expected a multiple of --eval_steps 30"), std::string::npos);
  EXPECT_NE(with(0.25, 0.1).find("expected a multiple"), std::string::npos);
  EXPECT_NE(with(100, 0.1).find("both as steps or both as shares"), std::string::npos);
}

TEST(Validate, RefusesValuesOutOfRangeOrChoice) {
  EXPECT_SAYS("--per_device_train_batch_size: found 0, expected at least 1",
              a.per_device_train_batch_size = 0);
  EXPECT_SAYS("--adam_beta2: found 1.0, expected at least 0 and below 1", a.adam_beta2 = 1);
  EXPECT_SAYS("--learning_rate: found nan", a.learning_rate = NAN);
  EXPECT_SAYS("--seed: found -1", a.seed = -1);
  EXPECT_SAYS("--eval_strategy: found 'step', expected one of no, steps, epoch", a.eval_strategy = "step");
  EXPECT_SAYS("--optim: 'lomo' is not there yet; choose from adamw_torch_fused, adamw_torch, sgd, adafactor",
              a.optim = "lomo");
  EXPECT_SAYS("--optim: found 'adam', expected one of", a.optim = "adam");
  EXPECT_SAYS(
      "--ddp_backend: 'jaccl' is not there yet; choose from nccl, gloo, ring, mpi (between Macs: ring)",
      a.ddp_backend = "jaccl");
  EXPECT_SAYS("--report_to: 'wandb' is not there yet", a.report_to = {"none", "wandb"});
  EXPECT_SAYS(
      "--report_to: found 'html,tensorboard', expected one of none, all, tensorboard, html; several are "
      "parted by blanks",
      a.report_to = {"html,tensorboard"});
  EXPECT_SAYS("expected exactly one of min_lr and min_lr_rate", a.lr_scheduler_type = "cosine_with_min_lr");
}

TEST(Validate, WhatIsNotThereYetIsAcceptedAtItsDefaultOnly) {
  EXPECT_SAYS("--neftune_noise_alpha: found 5.0, expected its default None: not there yet",
              a.other["neftune_noise_alpha"] = 5.0);
  EXPECT_SAYS("--deepspeed: found {'a': 1}, expected its default None: not supported",
              a.other["deepspeed"] = {{"a", 1}});
  EXPECT_SAYS("no error", a.activation_checkpointing = false);
  EXPECT_SAYS("--hub_strategy", a.hub_strategy = "checkpoint");
}

TEST(Validate, WhatHasNoEffectIsANotice) {
  TrainingArguments args;
  args.output_dir = "out";
  args.other["torch_compile"] = true;
  args.dataloader_pin_memory = false;
  const auto notices = validate(args);
  ASSERT_EQ(notices.size(), 2u);
  EXPECT_EQ(notices[0],
            "--torch_compile changes nothing here: the native step is one compiled program already");
  EXPECT_EQ(notices[1], "--dataloader_pin_memory changes nothing here: the CPU reads batches where they lie");
}

TEST(Validate, AThresholdWithoutPatienceIsANotice) {
  TrainingArguments args;
  args.output_dir = "out";
  args.early_stopping_threshold = 0.5;
  const auto notices = validate(args);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("--early_stopping_threshold changes nothing"), std::string::npos) << notices[0];
  args.eval_strategy = "epoch", args.early_stopping_patience = 1, args.load_best_model_at_end = true;
  args.save_strategy = "epoch";
  EXPECT_TRUE(validate(args).empty());
}

TEST(Validate, GlueWantsATaskOrFiles) {
  TrainingArguments training;
  training.do_train = training.do_eval = true;
  GlueArguments args;
  const auto error = [&] {
    try {
      validate(args, training);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error().find("--model_name_or_path: missing"), std::string::npos);
  args.model_name_or_path = "bert";
  EXPECT_EQ(error(), "--do_train: found neither --task_name nor --train_file, expected one of them");
  args.train_file = "train.csv";
  EXPECT_EQ(error(), "--do_eval: found neither --task_name nor --validation_file, expected one of them");
  training.eval_strategy = "steps";  // which turned do_eval on
  EXPECT_EQ(error(),
            "--eval_strategy steps: found neither --task_name nor --validation_file, expected one of them");
  args.task_name = "MRPC";
  EXPECT_EQ(error(), "no error");
  EXPECT_EQ(args.task_name, "mrpc");
  args.task_name = "mrcp";
  EXPECT_NE(error().find("--task_name: found 'mrcp', expected one of cola, mnli"), std::string::npos);
}

TEST(Validate, NothingToDoIsSaid) {
  QaArguments args;
  args.model_name_or_path = "bert";
  const auto notices = validate(args, TrainingArguments());
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("nothing to do"), std::string::npos);
}

TEST(Validate, OfQuestionsThereIsNoLossAlone) {
  QaArguments args;
  args.model_name_or_path = "bert";
  args.dataset_name = "squad";
  TrainingArguments training;
  training.do_train = training.prediction_loss_only = true;
  EXPECT_NO_THROW(validate(args, training));
  for (bool TrainingArguments::*evaluates : {&TrainingArguments::do_eval, &TrainingArguments::do_predict}) {
    TrainingArguments evaluating = training;
    evaluating.*evaluates = true;
    EXPECT_THROW(validate(args, evaluating), Error);
  }
}

TEST(Steps, WarmupAndIntervalsAsStepsOrShares) {
  TrainingArguments args;
  EXPECT_EQ(warmup_steps(args, 345), 0);
  args.warmup_ratio = 0.1;
  EXPECT_EQ(warmup_steps(args, 345), 35);  // ceil(34.5)
  args.warmup_steps = 0.2;
  EXPECT_EQ(warmup_steps(args, 345), 69);
  args.warmup_steps = 10;
  EXPECT_EQ(warmup_steps(args, 345), 10);
  args.warmup_steps = 0;
  args.warmup_ratio = 1;
  EXPECT_EQ(warmup_steps(args, 345), 345);
  EXPECT_EQ(interval_steps(500, 345), 500);
  EXPECT_EQ(interval_steps(0.25, 345), 87);  // ceil(86.25)
  EXPECT_GT(interval_steps(1e300, 345), 345);
  args.warmup_steps = HUGE_VAL;
  EXPECT_GT(warmup_steps(args, 345), 345);
}

TEST(Precision, Fp16OnTheCpuIsReallyThat) {
  TrainingArguments args;
  EXPECT_TRUE(precision_notices(args, "cpu", true).empty());
  args.fp16 = true;
  EXPECT_EQ(precision_notices(args, "cpu", true).size(), 1u);
  EXPECT_TRUE(precision_notices(args, "cuda", true).empty());
  args.fp16 = false;
  args.tf32 = true;
  EXPECT_TRUE(precision_notices(args, "cuda", true).empty());
  EXPECT_EQ(precision_notices(args, "cpu", true).size(), 1u);
}

TEST(Precision, ABf16ThatIsOnlyEmulatedIsTold) {
  TrainingArguments args;
  EXPECT_TRUE(precision_notices(args, "cpu", false).empty());
  for (bool TrainingArguments::*flag : {&TrainingArguments::bf16, &TrainingArguments::bf16_full_eval}) {
    args.*flag = true;
    EXPECT_EQ(precision_notices(args, "cpu", false).size(), 1u);
    EXPECT_TRUE(precision_notices(args, "cpu", true).empty());
    EXPECT_TRUE(precision_notices(args, "cuda", false).empty());
    args.*flag = false;
  }
}

TEST(TrainingArguments, AHeadThatIsTrainedAloneHasItsOwnRate) {
  TrainingArguments args;
  EXPECT_FALSE(derive_head_rate(args, {}));  // the whole model keeps transformers' rate
  EXPECT_EQ(args.learning_rate, 5e-5);
  args.freeze_base_model = true;
  EXPECT_FALSE(derive_head_rate(args, {"learning_rate"}));
  EXPECT_EQ(args.learning_rate, 5e-5);
  EXPECT_EQ(
      derive_head_rate(args, {}),
      "--freeze_base_model: the head learns with a learning rate of 0.02, as --learning_rate is not given");
  EXPECT_EQ(args.learning_rate, kHeadOnlyRate);

  args.head_learning_rate = 2e-3;
  EXPECT_FALSE(derive_head_rate(args, {"head_learning_rate"}));
  const auto notices = validate_for_trainer(args);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(args.learning_rate, 2e-3);
  EXPECT_TRUE(validate_for_trainer(args).empty());  // calling it twice changes nothing

  args.freeze_base_model = false;
  args.zero_stage = 1;
  EXPECT_THROW(validate_for_trainer(args), Error);
}

}  // namespace
}  // namespace lathe
