#include "lathe/train/trainer_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/ops/linear_fp8.h"
#include "lathe/ops/linear_int8.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/sgd.h"

namespace lathe {
namespace {

std::vector<std::string> names_of(const std::vector<Task::Target>& targets) {
  std::vector<std::string> names;
  for (const Task::Target& target : targets) names.push_back(target.name);
  return names;
}

}  // namespace

void check_fp8(const Backend& backend) {
  if (!backend.implementations(op::linear_fp8).empty()) return;
  fail(ErrorCode::kUnsupported,
       "fp8: device {} ({}) has no products of it, expected --device cuda with a GPU of compute capability "
       "9.0 "
       "(H100, "
       "H200); --bf16 runs here",
       backend.info().kind, backend.info().name);
}

void check_trainer_arguments(TrainingArguments& args, const Backend& backend, const Task& task, bool trains,
                             bool evaluates) {
  validate_for_trainer(args);
  const std::string& kind = backend.info().kind;
  const auto lacks = [&](const OpDef& op) { return backend.implementations(op).empty(); };
  if (!evaluates && args.eval_strategy != "no")
    fail(ErrorCode::kUsage,
         "--eval_strategy {}: found no evaluation data, expected some, or --eval_strategy no",
         args.eval_strategy);
  if (!evaluates && trains && args.eval_on_start)
    fail(ErrorCode::kUsage,
         "--eval_on_start: found no evaluation data, expected some; scripts take it with --do_eval");
  if (args.int8 && lacks(op::linear_int8))
    fail(ErrorCode::kUnsupported, "--int8: device {} has no products of integers; --device cpu has", kind);
  if (args.fp8) check_fp8(backend);
  if ((args.optim == "sgd" && lacks(op::sgd)) || (args.optim == "adafactor" && lacks(op::adafactor)))
    fail(ErrorCode::kUnsupported,
         "--optim {}: not there on device {} yet; --device cpu has it, and --optim adamw_torch runs here",
         args.optim, kind);
  if (args.zero_stage == 1 && args.optim == "adafactor")
    fail(ErrorCode::kUsage,
         "--zero_stage: found 1 with --optim adafactor, whose state is of whole matrices, expected 0 or "
         "adamw_torch");
  if (args.label_smoothing_factor != 0 && !task.smooths())
    fail(ErrorCode::kUsage,
         "--label_smoothing_factor: found {}, expected 0 for this head: it smooths the labels of one class "
         "out "
         "of several",
         args.label_smoothing_factor);
  if (args.label_smoothing_factor != 0 && args.hf_compat_loss_scale &&
      task.targets()[0].extent == Extent::kToken)
    fail(ErrorCode::kUsage,
         "--hf_compat_loss_scale: found with --label_smoothing_factor {}, expected one of them only: for "
         "labels "
         "of tokens Lathe does not count the items of an update",
         args.label_smoothing_factor);
  const std::vector<std::string> inputs = names_of(task.targets());
  if (args.label_names)
    for (const std::string& name : *args.label_names)
      if (std::find(inputs.begin(), inputs.end(), name) == inputs.end())
        fail(ErrorCode::kUsage, "--label_names: found '{}', which this head does not read; it reads {}", name,
             fmt::join(inputs, ", "));
  const int64_t ranks = backend.group() == nullptr ? 1 : backend.group()->size();
  if (ranks == 1) return;
  if (!accelerator_setting(args, "even_batches", true))
    fail(ErrorCode::kUsage,
         "--accelerator_config: found \"even_batches\": false with {} processes, expected true: each has a "
         "share of every update",
         ranks);
  if (!accelerator_setting(args, "split_batches", false)) return;
  for (int64_t* size : {&args.per_device_train_batch_size, &args.per_device_eval_batch_size}) {
    if (*size % ranks != 0)
      fail(
          ErrorCode::kUsage,
          "--accelerator_config: split_batches: found a batch of {}, expected a multiple of the {} processes",
          *size, ranks);
    *size /= ranks;
  }
}

DType evaluation_dtype(const TrainingArguments& args) {
  return args.bf16_full_eval ? DType::bf16 : args.fp16_full_eval ? DType::f16 : training_dtype(args);
}

Session::Options session_options(const TrainingArguments& args, const AutoModel& model) {
  Session::Options options;
  // A frozen matrix that only products in one dtype read may lie in that dtype: each would round it so.  What
  // a program's own model does with it is not known.
  const bool alike = training_quantization(args) == nn::Quantization::kNone &&
                     evaluation_quantization(args) == nn::Quantization::kNone &&
                     evaluation_dtype(args) == training_dtype(args);
  if (alike && !is_programs_own(model)) options.program.storage.frozen_products = training_dtype(args);
  options.program.dtype = training_dtype(args);
  options.program.quantization = training_quantization(args);
  options.program.recompute_every = recompute_every(args);
  constexpr int64_t kBucket_mb = 25;  // DistributedDataParallel's
  options.program.bucket_bytes = args.ddp_bucket_cap_mb.value_or(kBucket_mb) << 20;
  if (value_of(args, "ddp_comm_hook") == "bf16") options.program.gradient_wire = DType::bf16;
  options.program.optimizer = optimizer_of(args);
  options.program.own_head_rate = args.head_learning_rate && !args.freeze_base_model;
  options.shard_states = args.zero_stage == 1;
  options.program.label_smoothing = args.label_smoothing_factor;
  return options;
}

}  // namespace lathe
