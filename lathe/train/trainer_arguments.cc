// What a trainer reads out of its arguments besides the course of a run.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/ops/linear_fp8.h"
#include "lathe/ops/linear_int8.h"
#include "lathe/ops/optimizers/adafactor.h"
#include "lathe/ops/optimizers/sgd.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

/// Inputs that the heads know as labels.
std::vector<std::string> label_inputs(Problem problem) {
  if (problem == Problem::kQuestionAnswering) return {"start_positions", "end_positions"};
  return {"labels"};
}

}  // namespace

void check_fp8(const Backend& backend) {
  if (!backend.implementations(op::linear_fp8).empty()) return;
  fail(ErrorCode::kUnsupported,
       "fp8: device {} ({}) has no products of it, wants --device cuda with a GPU of compute capability 9.0 "
       "(H100, "
       "H200); --bf16 runs here",
       backend.info().kind, backend.info().name);
}

/// Notices are for who gives the arguments, and said there (hf::Prepared, the parser of the command line).
void Trainer::check_arguments() {
  validate_for_trainer(args_);
  const std::string& kind = backend_.info().kind;
  const auto lacks = [&](const OpDef& op) { return backend_.implementations(op).empty(); };
  if (eval_ == nullptr && args_.eval_strategy != "no")
    fail(ErrorCode::kUsage, "--eval_strategy {}: found no evaluation data, wants some, or --eval_strategy no",
         args_.eval_strategy);
  if (eval_ == nullptr && train_ != nullptr && args_.eval_on_start)
    fail(ErrorCode::kUsage,
         "--eval_on_start: found no evaluation data, wants some; scripts take it with --do_eval");
  if (args_.int8 && lacks(op::linear_int8))
    fail(ErrorCode::kUnsupported, "--int8: device {} has no products of integers; --device cpu has", kind);
  if (args_.fp8) check_fp8(backend_);
  if ((args_.optim == "sgd" && lacks(op::sgd)) || (args_.optim == "adafactor" && lacks(op::adafactor)))
    fail(ErrorCode::kUnsupported,
         "--optim {}: not there on device {} yet; --device cpu has it, and --optim adamw_torch runs here",
         args_.optim, kind);
  if (args_.zero_stage == 1 && args_.optim == "adafactor")
    fail(ErrorCode::kUsage,
         "--zero_stage: found 1 with --optim adafactor, whose state is of whole matrices, wants 0 or "
         "adamw_torch");
  const Problem problem = model_.model->problem();
  if (args_.label_smoothing_factor != 0 && problem != Problem::kSingleLabel && problem != Problem::kMaskedLm)
    fail(ErrorCode::kUsage,
         "--label_smoothing_factor: found {}, wants 0 for this head: it smooths the labels of one class out "
         "of several",
         args_.label_smoothing_factor);
  const std::vector<std::string> inputs = label_inputs(problem);
  if (args_.label_names)
    for (const std::string& name : *args_.label_names)
      if (std::find(inputs.begin(), inputs.end(), name) == inputs.end())
        fail(ErrorCode::kUsage, "--label_names: found '{}', which this head does not read; it reads {}", name,
             fmt::join(inputs, ", "));
  const int64_t ranks = group() == nullptr ? 1 : group()->size();
  if (ranks == 1) return;
  if (!accelerator_setting(args_, "even_batches", true))
    fail(ErrorCode::kUsage,
         "--accelerator_config: found \"even_batches\": false with {} processes, wants true: each has a "
         "share of every update",
         ranks);
  if (!accelerator_setting(args_, "split_batches", false)) return;
  for (int64_t* size : {&args_.per_device_train_batch_size, &args_.per_device_eval_batch_size}) {
    if (*size % ranks != 0)
      fail(ErrorCode::kUsage,
           "--accelerator_config: split_batches: found a batch of {}, wants a multiple of the {} processes",
           *size, ranks);
    *size /= ranks;
  }
}

size_t Trainer::batches_ahead() const {
  constexpr int64_t kDefault = 2, kMost = 1024;
  if (!args_.dataloader_prefetch_factor) return kDefault;
  return static_cast<size_t>(std::min(
      kMost, *args_.dataloader_prefetch_factor * std::max<int64_t>(1, args_.dataloader_num_workers)));
}

void Trainer::add_memory(const MemoryMetrics& memory, nlohmann::json& metrics) {
  memory.finish(metrics);
  if (init_memory_.is_object()) metrics.update(init_memory_);
  init_memory_ = nullptr;
}

}  // namespace lathe
