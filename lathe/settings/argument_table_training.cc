#include <algorithm>
#include <iterator>

#include "lathe/core/cpu_limits.h"
#include "lathe/core/error.h"
#include "lathe/settings/argument_table_rows.h"

namespace lathe {
namespace training_rows {
namespace {

constexpr std::string_view kRanks = "every rank reduces what it trains, in one order, and has no buffers";
constexpr std::string_view kNoProcesses = "data is loaded by threads, not by processes";

void add_seed_and_data(Fields& f) {
  const Fields rows = {
      {"full_determinism",
       &T::full_determinism,
       S,
       "The same bits in every run (always so here).",
       {.support = kWorks}},
      {"seed", &T::seed, M, "Seed of initialisation, order and dropout.", {.low = 0, .high = 4294967295.0}},
      {"data_seed",
       &T::data_seed,
       M,
       "Seed of the order only (seed if not given).",
       {.low = 0, .high = 4294967295.0}},
      {"use_cpu", &T::use_cpu, M, "Train on the CPU even where there is an accelerator."},
      {"accelerator_config",
       &T::accelerator_config,
       S,
       "Settings of Accelerate, as JSON text or file: split_batches divides a batch over the processes.",
       {.support = kWorks}},
      {"parallelism_config",
       Unstored{Kind::kDict, nullptr},
       L,
       "Tensor, context and sequence parallelism.",
       {.reason = "processes share the samples of an update, nothing else"}},
      {"dataloader_drop_last", &T::dataloader_drop_last, M,
       "Leave out a last batch of training that is not full."},
      {"dataloader_num_workers",
       &T::dataloader_num_workers,
       M,
       "Workers that prepare batches: here one thread does, so many times dataloader_prefetch_factor ahead.",
       {.low = 0, .high = 1e6}},
      {"dataloader_pin_memory",
       &T::dataloader_pin_memory,
       M,
       "Pinned host memory.",
       {.support = kNoEffect, .reason = "the CPU reads batches where they lie"}},
      {"dataloader_persistent_workers",
       Unstored{Kind::kBool, false},
       S,
       "Keep workers between epochs.",
       {.support = kNoEffect, .reason = "loader threads always live as long as the run"}},
      {"dataloader_prefetch_factor",
       &T::dataloader_prefetch_factor,
       S,
       "Batches prepared ahead per worker.",
       {.support = kWorks, .low = 1, .high = 1e6}},
      {"dataloader_multiprocessing_context",
       Unstored{Kind::kText, nullptr},
       L,
       "How worker processes start.",
       {.support = kNoEffect, .reason = kNoProcesses, .choices = {"fork", "spawn", "forkserver"}}},
      {"dataloader_in_order",
       Unstored{Kind::kBool, true},
       L,
       "Take batches in order.",
       {.support = kNoEffect, .reason = "batches always come in order"}},
      {"remove_unused_columns",
       &T::remove_unused_columns,
       M,
       "Drop columns that the model does not read.",
       {.support = kNoEffect, .reason = "only the columns that are needed are ever read"}},
      {"label_names",
       &T::label_names,
       S,
       "Names of the head's label inputs: labels, or start_positions and end_positions.",
       {.support = kWorks}},
      {"train_sampling_strategy",
       &T::train_sampling_strategy,
       S,
       "Order of the training samples.",
       {.support = kWorks, .choices = {"random", "sequential", "group_by_length", "batch_rebalance"}}},
      {"length_column_name",
       &T::length_column_name,
       S,
       "Column with the lengths for group_by_length.",
       {.support = kNoEffect, .reason = "lengths are known from the tokens"}},
  };
  f.insert(f.end(), rows.begin(), rows.end());
}

void add_distributed_and_script(Fields& f) {
  const Fields rows = {
      {"ddp_find_unused_parameters",
       Unstored{Kind::kBool, nullptr},
       L,
       "DistributedDataParallel's search.",
       {.support = kNoEffect, .reason = kRanks}},
      {"ddp_bucket_cap_mb",
       &T::ddp_bucket_cap_mb,
       S,
       "Megabytes of gradients that processes sum at once (25 if not given).",
       {.support = kWorks, .low = 1, .high = 1e6}},
      {"ddp_broadcast_buffers",
       Unstored{Kind::kBool, nullptr},
       L,
       "Broadcast buffers.",
       {.support = kNoEffect, .reason = kRanks}},
      {"ddp_static_graph",
       Unstored{Kind::kBool, nullptr},
       L,
       "Promise a graph that does not change.",
       {.support = kNoEffect, .reason = kNative}},
      {"ddp_backend",
       &T::ddp_backend,
       S,
       "How processes sum gradients: nccl on the device cuda; elsewhere gloo where it is there, ring "
       "or mpi.",
       {.support = kWorks,
        .reason = "between Macs: ring",
        .choices = {"nccl", "gloo", "ring", "mpi"},
        .later = {"xccl", "hccl", "cncl", "mccl", "jaccl"}}},
      {"ddp_timeout",
       &T::ddp_timeout,
       S,
       "Seconds that a process waits for the others.",
       {.support = kWorks, .low = 1, .high = 1e9}},
      {"fsdp", Unstored{Kind::kText, nullptr}, L, "Shard the state over devices.", {.reason = kShards}},
      {"fsdp_config", Unstored{Kind::kDict, nullptr}, L, "Settings of FSDP.", {.reason = kShards}},
      {"deepspeed",
       Unstored{Kind::kDict, nullptr},
       R,
       "DeepSpeed's config.",
       {.reason = "DeepSpeed is a Python library; --zero_stage 1 shards the optimizer's states"}},
      {"debug",
       Unstored{Kind::kText, ""},
       L,
       "Debug features of PyTorch.",
       {.reason = "a loss that is not finite always names its step"}},
      {"skip_memory_metrics",
       &T::skip_memory_metrics,
       S,
       "Leave memory use out of the metrics.",
       {.support = kWorks}},
      {"do_train", &T::do_train, M, "Train.", {.first = true}},
      {"do_eval", &T::do_eval, M, "Evaluate on the validation set.", {.first = true}},
      {"do_predict", &T::do_predict, M, "Predict the test set."},
      {"resume_from_checkpoint", &T::resume_from_checkpoint, M, "Checkpoint folder to go on from."},
      {"local_rank",
       Unstored{Kind::kInt, -1},
       S,
       "Rank of this process, set by launchers.",
       {.support = kNoEffect, .reason = "the variable LOCAL_RANK says it"}},
  };
  f.insert(f.end(), rows.begin(), rows.end());
}

void add_older_and_own(Fields& f) {
  const Fields rows = {
      {"overwrite_output_dir", &T::overwrite_output_dir, M,
       "Write into an output folder that is not empty, and do not resume from it."},
      {"warmup_ratio",
       &T::warmup_ratio,
       M,
       "Share of the run to warm up over, where warmup_steps is 0.",
       {.low = 0, .high = 1}},
      {"logging_dir",
       &T::logging_dir,
       M,
       "Folder of TensorBoard events (OUTPUT_DIR/runs/DATE_HOST if not given).",
       {.support = kWorks}},
      {"save_safetensors",
       &T::save_safetensors,
       S,
       "Write model.safetensors rather than pytorch_model.bin.",
       {.support = kWorks}},
      {"device", &T::device, X, "Where to compute.", {.choices = {"auto", "cpu", "cuda", "mps", "mlx"}}},
      {"threads", &T::threads, X, "CPU threads; 0: one per usable core.", {.low = 0, .high = kMostThreads}},
      {"freeze_base_model", &T::freeze_base_model, X,
       "Train the head only; its learning rate is 0.02 where none is given."},
      {"head_learning_rate",
       &T::head_learning_rate,
       X,
       "Peak learning rate of the head, where it is another than the base's.",
       {.low = 0}},
      {"ddp_comm_hook",
       Unstored{Kind::kText, "no"},
       X,
       "bf16: the gradients travel between processes in half the bytes, rounded.",
       {.choices = {"no", "bf16"}, .later = {"fp16", "power_sgd", "batched_power_sgd"}}},
      {"zero_stage",
       &T::zero_stage,
       X,
       "1: each process holds its share of the optimizer's states, as DeepSpeed's ZeRO does; same bits.",
       {.low = 0, .high = 1}},
      {"int8", &T::int8, X,
       "Evaluate and predict with linear layers in 8-bit integers, the rest in bf16 or fp16, and show what "
       "that changes."},
      {"fp8", &T::fp8, X,
       "Train, evaluate and predict with linear layers in fp8, the rest in bf16, and show what that changes "
       "in "
       "evaluation; accelerate's mixed_precision: fp8. On cuda with an H100 or H200."},
      {"hf_compat_loss_scale", &T::hf_compat_loss_scale, X,
       "The loss scale of transformers 5 under gradient accumulation, for comparing bit by bit."},
      {"early_stopping_patience",
       &T::early_stopping_patience,
       X,
       "Evaluations without improvement of metric_for_best_model after which the run stops.",
       {.low = 1}},
      {"early_stopping_threshold",
       &T::early_stopping_threshold,
       X,
       "The least that counts as an improvement there.",
       {.low = 0}},
      {"resume",
       &T::resume,
       X,
       "auto: go on from the newest checkpoint in output_dir, if there is one.",
       {.choices = {"auto"}}},
      {"print_config", &T::print_config, X, "Print every setting as JSON and stop.", {.only_command = true}},
  };
  f.insert(f.end(), rows.begin(), rows.end());
}

}  // namespace
}  // namespace training_rows

const std::vector<Field<TrainingArguments>>& training_fields() {
  using namespace training_rows;
  static const Fields fields = [] {
    constexpr std::pair<std::string_view, void (*)(Fields&)> kGroups[] = {
        {"output, schedule, optimizer", add_output_and_schedule},
        {"the step: precision, memory", add_step_and_precision},
        {"logs", add_logging},
        {"evaluation", add_evaluation},
        {"checkpoints", add_saving},
        {"seed, order of the data", add_seed_and_data},
        {"several processes, prediction, going on", add_distributed_and_script},
        {"of earlier versions, and Lathe's own", add_older_and_own}};
    Fields f;
    for (const auto& [group, add] : kGroups) {
      const size_t begin = f.size();
      add(f);
      for (size_t i = begin; i < f.size(); ++i) f[i].info.group = group;
    }
    return f;
  }();
  return fields;
}

nlohmann::json value_of(const TrainingArguments& args, std::string_view name) {
  for (const Field<TrainingArguments>& field : training_fields())
    if (field.info.name == name) return field.get(args);
  fail(ErrorCode::kInternal, "value_of: found the argument {}, expected one of the table", name);
}

const std::vector<Field<TrainingArguments>>& numeric_fields() {
  using namespace training_rows;
  static const Fields fields = [] {
    Fields f;
    add_output_and_schedule(f);
    add_step_and_precision(f);
    add_seed_and_data(f);
    constexpr std::string_view kOthers[] = {"output_dir",         "use_cpu",
                                            "full_determinism",   "dataloader_num_workers",
                                            "accelerator_config", "dataloader_prefetch_factor"};
    std::erase_if(f, [&](const Field<TrainingArguments>& field) {
      return field.info.support() != kWorks ||
             std::find(std::begin(kOthers), std::end(kOthers), field.info.name) != std::end(kOthers);
    });
    for (const std::string_view name :
         {"head_learning_rate", "warmup_ratio", "metric_for_best_model", "greater_is_better", "int8", "fp8",
          "ddp_comm_hook", "hf_compat_loss_scale"})
      f.push_back(*std::ranges::find_if(training_fields(),
                                        [&](const auto& field) { return field.info.name == name; }));
    return f;
  }();
  return fields;
}

}  // namespace lathe
