#include "lathe/settings/training_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/settings/argument_table.h"
#include "lathe/settings/lr_schedule.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

void check_contradictions(const TrainingArguments& args) {
  if (args.fp16 && args.bf16) fail(ErrorCode::kUsage, "--fp16 and --bf16: found both, expected at most one");
  if (args.fp8 && (args.fp16 || args.fp16_full_eval))
    fail(ErrorCode::kUsage, "--fp8 and {}: found both, expected at most one: all but products of fp8 is bf16",
         args.fp16 ? "--fp16" : "--fp16_full_eval");
  if (args.fp8 && args.int8) fail(ErrorCode::kUsage, "--fp8 and --int8: found both, expected at most one");
  if (args.fp16_full_eval && args.bf16_full_eval) {
    fail(ErrorCode::kUsage, "--fp16_full_eval and --bf16_full_eval: found both, expected at most one");
  }
  if (args.dataloader_prefetch_factor && args.dataloader_num_workers == 0) {
    fail(ErrorCode::kUsage,
         "--dataloader_prefetch_factor: found without workers, expected --dataloader_num_workers > 0");
  }
  if (args.use_cpu && args.device != "auto" && args.device != "cpu") {
    fail(ErrorCode::kUsage, "--use_cpu and --device {}: found both, expected one of them", args.device);
  }
  constexpr int64_t kMostSamples = INT32_MAX;
  if (args.per_device_train_batch_size * args.gradient_accumulation_steps > kMostSamples)
    fail(ErrorCode::kUsage,
         "--per_device_train_batch_size and --gradient_accumulation_steps: found {} x {} samples per update, "
         "expected at most {}",
         args.per_device_train_batch_size, args.gradient_accumulation_steps, kMostSamples);
  if (args.resume && args.resume_from_checkpoint) {
    fail(ErrorCode::kUsage, "--resume and --resume_from_checkpoint: found both, expected one of them");
  }
}

void check_interval(std::string_view flag, std::string_view strategy_flag, const std::string& strategy,
                    double steps) {
  if (strategy != "steps") return;
  if (steps == 0 && flag != "save_steps")  // for it, that is one checkpoint at the end
    fail(ErrorCode::kUsage, "--{}: found 0, expected more than 0 with --{} steps", flag, strategy_flag);
  if (steps > 1 && steps != std::floor(steps)) {
    fail(ErrorCode::kUsage, "--{}: found {}, expected a whole number (or a share of the run, below 1)", flag,
         steps);
  }
}

void check_best_model(const TrainingArguments& args) {
  if (!args.load_best_model_at_end || args.save_strategy == "best") return;
  if (args.eval_strategy != args.save_strategy) {
    fail(ErrorCode::kUsage,
         "--load_best_model_at_end: found --eval_strategy {} and --save_strategy {}, expected the same for "
         "both "
         "(or "
         "--save_strategy best)",
         args.eval_strategy, args.save_strategy);
  }
  if (args.eval_strategy != "steps" || args.save_steps == 0) return;
  const double eval = *args.eval_steps, save = args.save_steps;
  if ((eval < 1) != (save < 1)) {
    fail(
        ErrorCode::kUsage,
        "--load_best_model_at_end: found --save_steps {} and --eval_steps {}, expected both as steps or both "
        "as shares",
        save, eval);
  }
  // Shares are compared as whole millionths, so that 0.3 is a multiple of 0.1.
  const double unit = eval < 1 ? 1e6 : 1;
  if (std::fmod(std::round(save * unit), std::round(eval * unit)) != 0) {
    fail(ErrorCode::kUsage,
         "--load_best_model_at_end: found --save_steps {}, expected a multiple of --eval_steps {}", save,
         eval);
  }
}

void check_int8(const TrainingArguments& args) {
  if (!args.int8) return;
  if (!args.do_eval && !args.do_predict)
    fail(ErrorCode::kUsage,
         "--int8: found neither --do_eval nor --do_predict, expected one of them: training is never in "
         "integers");
}

void derive_output(TrainingArguments& args, std::vector<std::string>& notices) {
  if (!args.output_dir || args.output_dir->empty()) {
    args.output_dir = "trainer_output";
    notices.push_back("--output_dir is not given: writing to trainer_output");
  }
  args.output_dir = expand_home(*args.output_dir);
  if (args.logging_dir) args.logging_dir = expand_home(*args.logging_dir);
  if (args.use_cpu) args.device = "cpu";
}

void derive_evaluation(TrainingArguments& args) {
  if (args.eval_strategy != "no") args.do_eval = true;
  if (args.eval_strategy == "steps" && args.eval_steps.value_or(0) == 0) {
    if (args.logging_steps == 0)
      fail(ErrorCode::kUsage, "--eval_steps: found none, expected one with --eval_strategy steps");
    args.eval_steps = args.logging_steps;
  }
  const bool by_metric = args.load_best_model_at_end || args.early_stopping_patience ||
                         args.save_strategy == "best" || MetricSchedule::is(args.lr_scheduler_type);
  if (by_metric && !args.metric_for_best_model) args.metric_for_best_model = "loss";
  if (args.metric_for_best_model && !args.greater_is_better) {
    args.greater_is_better = !args.metric_for_best_model->ends_with("loss");
  }
}

/// Settings that follow a metric need evaluations.
void check_metric_followers(const TrainingArguments& args, std::vector<std::string>& notices) {
  const auto need = [&](bool wanted, const std::string& flag) {
    if (wanted && args.eval_strategy == "no")
      fail(ErrorCode::kUsage, "{}: found --eval_strategy no, expected steps or epoch: it follows a metric",
           flag);
  };
  need(MetricSchedule::is(args.lr_scheduler_type), "--lr_scheduler_type " + args.lr_scheduler_type);
  need(args.early_stopping_patience.has_value(), "--early_stopping_patience");
  need(args.save_strategy == "best", "--save_strategy best");
  if (args.early_stopping_patience && !args.load_best_model_at_end)
    notices.push_back(
        "--early_stopping_patience without --load_best_model_at_end: the run ends with its last weights, not "
        "the best");
  if (args.early_stopping_threshold != 0 && !args.early_stopping_patience)
    notices.push_back("--early_stopping_threshold changes nothing without --early_stopping_patience");
}

/// Built once for its checks: a setting that is missing or misspelt must not wait for the data.
void check_schedule(const TrainingArguments& args) {
  if (MetricSchedule::is(args.lr_scheduler_type))
    MetricSchedule(args.lr_scheduler_type, args.learning_rate, args.lr_scheduler_kwargs);
  else
    LrSchedule(args.lr_scheduler_type, 0, 1, args.learning_rate, args.lr_scheduler_kwargs);
}

/// Source: accelerate's AcceleratorConfig as transformers 5.23 reads it.
void check_accelerator_config(const TrainingArguments& args, std::vector<std::string>& notices) {
  if (args.accelerator_config.is_null()) return;
  for (const auto& [key, value] : args.accelerator_config.items()) {
    const std::string found = fmt::format("--accelerator_config: found \"{}\": {}", key, value.dump());
    const bool flag = key == "split_batches" || key == "even_batches" || key == "use_seedable_sampler" ||
                      key == "non_blocking" || key == "dispatch_batches";
    if (!flag && key != "gradient_accumulation_kwargs" && key != "use_configured_state")
      fail(ErrorCode::kUsage, "{}, expected split_batches, even_batches or use_seedable_sampler", found);
    if (flag ? !value.is_boolean() && !(key == "dispatch_batches" && value.is_null())
             : !value.is_null() && value != false)
      fail(ErrorCode::kUsage, "{}, expected {}", found,
           flag ? "true or false" : "null: --gradient_accumulation_steps is there");
    if (key == "use_seedable_sampler" && value == false)
      notices.push_back(found + " changes nothing here: the order always follows from --data_seed and epoch");
    if ((key == "non_blocking" || key == "dispatch_batches") && value == true)
      notices.push_back(found + " changes nothing here: every process reads its own share ahead");
  }
}

/// The old names count where the new ones are not given, and then say the same.
void derive_checkpointing(TrainingArguments& args) {
  if (!args.activation_checkpointing) args.activation_checkpointing = args.gradient_checkpointing;
  if (args.activation_checkpointing_kwargs.is_null())
    args.activation_checkpointing_kwargs = args.gradient_checkpointing_kwargs;
  args.gradient_checkpointing = args.activation_checkpointing;
  args.gradient_checkpointing_kwargs = args.activation_checkpointing_kwargs;
  if (args.activation_checkpointing_kwargs.is_null()) return;
  // What else transformers hands to torch.utils.checkpoint says how PyTorch does it, not what comes out.
  for (const auto& [key, value] : args.activation_checkpointing_kwargs.items()) {
    const std::string found =
        fmt::format("--activation_checkpointing_kwargs: found \"{}\": {}", key, value.dump());
    const bool flag = key == "use_reentrant" || key == "preserve_rng_state" || key == "debug";
    if (key == "every_n_layers" ? !value.is_number_integer() || value < 1
                                : (flag ? !value.is_boolean() : key != "offload"))
      fail(ErrorCode::kUsage, "{}, expected every_n_layers (at least 1), use_reentrant or preserve_rng_state",
           found);
    if (key == "offload" && value != false)
      fail(ErrorCode::kUsage, "{}, expected false: not there yet", found);
  }
}

/// A frozen base leaves the head as all that is trained: its rate is then the rate of the run.
void derive_rates(TrainingArguments& args, std::vector<std::string>& notices) {
  if (!args.head_learning_rate) return;
  if (args.zero_stage == 1 && !args.freeze_base_model)
    fail(ErrorCode::kUsage,
         "--head_learning_rate and --zero_stage 1: found both, expected one of them: shards have one "
         "learning rate");
  if (!args.freeze_base_model || args.learning_rate == *args.head_learning_rate) return;
  args.learning_rate = *args.head_learning_rate;
  notices.push_back(fmt::format("--freeze_base_model: only the head is trained, by --head_learning_rate {}",
                                python_repr(args.learning_rate)));
}

}  // namespace

std::optional<std::string> derive_head_rate(TrainingArguments& args,
                                            const std::set<std::string_view>& given) {
  if (!args.freeze_base_model || given.contains("learning_rate") || given.contains("head_learning_rate"))
    return {};
  args.learning_rate = kHeadOnlyRate;
  return fmt::format(
      "--freeze_base_model: the head learns with a learning rate of {}, as --learning_rate is not given",
      python_repr(kHeadOnlyRate));
}

int64_t recompute_every(const TrainingArguments& args) {
  if (!args.activation_checkpointing.value_or(false)) return 0;
  const nlohmann::json& kwargs = args.activation_checkpointing_kwargs;
  return kwargs.is_object() ? kwargs.value("every_n_layers", int64_t{1}) : 1;
}

std::vector<std::string> validate(TrainingArguments& args) {
  std::vector<std::string> notices = validate_for_trainer(args);
  check_int8(args);
  derive_output(args, notices);
  return notices;
}

std::vector<std::string> validate_for_trainer(TrainingArguments& args) {
  std::vector<std::string> notices = check_fields(bind(args));
  check_contradictions(args);
  derive_rates(args, notices);
  derive_evaluation(args);
  derive_checkpointing(args);
  check_interval("logging_steps", "logging_strategy", args.logging_strategy, args.logging_steps);
  check_interval("eval_steps", "eval_strategy", args.eval_strategy, args.eval_steps.value_or(1));
  check_interval("save_steps", "save_strategy", args.save_strategy, args.save_steps);
  check_best_model(args);
  if (args.warmup_steps > 1 && args.warmup_steps != std::floor(args.warmup_steps)) {
    fail(ErrorCode::kUsage,
         "--warmup_steps: found {}, expected a whole number (or a share of the run, below 1)",
         args.warmup_steps);
  }
  if (args.warmup_steps > 0 && args.warmup_ratio > 0) {
    notices.push_back("--warmup_steps and --warmup_ratio are both given: the steps count");
  }
  check_schedule(args);
  check_metric_followers(args, notices);
  check_accelerator_config(args, notices);
  if (const OptimizerOptions optimizer = optimizer_of(args);
      args.optim_args && !std::holds_alternative<SgdOptions>(optimizer))
    notices.push_back("--optim_args changes nothing here: " + args.optim + " takes none");
  return notices;
}

bool accelerator_setting(const TrainingArguments& args, const std::string& name, bool otherwise) {
  const nlohmann::json& config = args.accelerator_config;
  return config.is_object() ? config.value(name, otherwise) : otherwise;
}

std::vector<std::string> precision_notices(const TrainingArguments& args, std::string_view device,
                                           bool native_bf16) {
  if (args.tf32.value_or(false) && device != "cuda")
    return {fmt::format("--tf32: has no effect on device {}; it concerns NVIDIA GPUs", device)};
  if (args.fp16 && device == "cpu") {
    return {
        "--fp16: computes in float16 on the CPU, where Hugging Face leaves the flag aside and trains in "
        "fp32"};
  }
  if ((args.bf16 || args.bf16_full_eval) && device == "cpu" && !native_bf16)
    return {fmt::format("--{}: this CPU only emulates bf16 and is no faster with it; leave it out",
                        args.bf16 ? "bf16" : "bf16_full_eval")};
  return {};
}

DType training_dtype(const TrainingArguments& args) {
  return args.bf16 || args.fp8 ? DType::bf16 : args.fp16 ? DType::f16 : DType::f32;
}

nn::Quantization training_quantization(const TrainingArguments& args) {
  return args.fp8 ? nn::Quantization::kFp8 : nn::Quantization::kNone;
}

nn::Quantization evaluation_quantization(const TrainingArguments& args) {
  return args.int8 ? nn::Quantization::kInt8 : training_quantization(args);
}

std::string_view name_of(nn::Quantization quantization) {
  return quantization == nn::Quantization::kInt8  ? "int8"
         : quantization == nn::Quantization::kFp8 ? "fp8"
                                                  : "";
}

std::string_view precision_name(const TrainingArguments& args) {
  if (args.bf16_full_eval || args.fp16_full_eval) return args.bf16_full_eval ? "bf16" : "fp16";
  return args.bf16 || args.fp8 ? "bf16" : args.fp16 ? "fp16" : "fp32";
}

// More steps than any run has, and still exact as a double.
constexpr double kManySteps = 1e15;

int64_t warmup_steps(const TrainingArguments& args, int64_t training_steps) {
  if (args.warmup_steps >= 1) return static_cast<int64_t>(std::min(args.warmup_steps, kManySteps));
  const double share = args.warmup_steps > 0 ? args.warmup_steps : args.warmup_ratio;
  return static_cast<int64_t>(std::ceil(static_cast<double>(training_steps) * share));
}

int64_t interval_steps(double steps, int64_t training_steps) {
  const double whole = steps < 1 ? std::ceil(static_cast<double>(training_steps) * steps) : steps;
  return static_cast<int64_t>(std::min(whole, kManySteps));
}

}  // namespace lathe
