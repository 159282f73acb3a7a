// What of a run must fit into memory: its programs, the batch, the kept output of a frozen base.
#include <algorithm>

#include "lathe/core/host_memory.h"
#include "lathe/text/python_format.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/trainer.h"

namespace lathe {

void Trainer::set_batch_size(int64_t size) {
  const int64_t whole = args_.per_device_train_batch_size * args_.gradient_accumulation_steps;
  if (size < 1 || whole % size != 0 || size == args_.per_device_train_batch_size) return;
  args_.per_device_train_batch_size = size;
  args_.gradient_accumulation_steps = whole / size;
}

void Trainer::find_batch_size() {
  const auto free = session_->programs().free_share();
  const int64_t wanted = args_.per_device_train_batch_size;
  const int64_t whole = wanted * args_.gradient_accumulation_steps;
  const auto fits = [&](int64_t size) {
    set_batch_size(size);
    return !free || session_->programs().memory_need(update_work(plan())).total() <= *free;
  };
  if (!fits(wanted)) {
    // Batches of more than the data set are like one of all of it.
    std::vector<int64_t> sizes;
    for (int64_t size = 2; size <= std::min(wanted - 1, train_->size()); ++size)
      if (whole % size == 0) sizes.push_back(size);
    const auto end = std::partition_point(sizes.begin(), sizes.end(), fits);  // memory grows with the batch
    set_batch_size(end == sizes.begin() ? 1 : *(end - 1));
  }
  set_batch_size(least_over(group(), args_.per_device_train_batch_size));
  if (args_.per_device_train_batch_size != wanted)
    say(LogLevel::kInfo,
        fmt::format("--auto_find_batch_size: a batch of {} does not fit the memory: takes {}, accumulated {} "
                    "times",
                    wanted, args_.per_device_train_batch_size, args_.gradient_accumulation_steps));
}

/// The sums of a run that goes on are those of the run so far.
void Trainer::take_batch_size_of(const std::string& checkpoint) {
  const int64_t found = args_.per_device_train_batch_size;
  set_batch_size(read_trainer_state(fs_, checkpoint).train_batch_size);
  if (args_.per_device_train_batch_size != found)
    say(LogLevel::kInfo,
        fmt::format("--auto_find_batch_size: takes {}, accumulated {} times, as {} did",
                    args_.per_device_train_batch_size, args_.gradient_accumulation_steps, checkpoint));
}

std::vector<Work> Trainer::update_work(const Plan& plan) const {
  const Bucket bucket =
      largest_batch(*train_, sampler_options(train_->size()), session_->token_rounding(), plan.epochs);
  if (std::min(args_.gradient_accumulation_steps, plan.batches_per_epoch) == 1)
    return {{ProgramKind::kStep, bucket}};
  return {{ProgramKind::kAccumulate, bucket}, {ProgramKind::kUpdate, {}}};
}

void Trainer::reserve_memory(const Plan& plan) {
  std::vector<Work> work;
  if (!train_base_) work = update_work(plan);
  if (eval_ != nullptr && eval_->size() > 0 && args_.eval_strategy != "no" && !eval_base_)
    work.push_back(evaluation_work(*eval_, evaluation_quantization(args_)));
  const auto free =
      session_->programs().free_share();  // also where another rank alone has something to reserve
  if (!work.empty()) session_->programs().reserve(work, free);
}

/// HF keeps dropout on in a frozen base: with it the output is another one in every epoch.  Evaluation has
/// none.
void Trainer::make_base_caches(const Plan& plan) {
  train_base_.reset();
  eval_base_.reset();
  if (!keep_base_output_ || !model_.model->base_frozen()) return;
  const double dropout = model_.model->base_dropout();
  if (plan.epochs > 1 && dropout > 0)
    say(LogLevel::kInfo,
        fmt::format("The base runs every epoch: its dropout is {}. With hidden_dropout_prob and "
                    "attention_probs_dropout_prob 0 in config.json it runs once and its output is kept.",
                    python_repr(dropout)));
  else if (plan.epochs > 1)
    train_base_ = make_base_cache(*train_, "epoch");
  if (eval_ != nullptr && args_.eval_strategy != "no") eval_base_ = make_base_cache(*eval_, "evaluation");
}

std::unique_ptr<BaseCache> Trainer::make_base_cache(const TokenizedDataset& data,
                                                    const std::string& when) const {
  constexpr uint64_t kShare = 4;  // of the memory that is free: the rest is for the run itself
  const uint64_t wanted = BaseCache::bytes(*session_, data), free = host_memory().free.value_or(0);
  if (wanted <= free / kShare) return std::make_unique<BaseCache>(*session_, data);
  say(LogLevel::kInfo, fmt::format("The base runs at every {}: to keep its output takes {} MB, more than a "
                                   "quarter of the {} MB of memory that are free.",
                                   when, wanted >> 20, free >> 20));
  return nullptr;
}

}  // namespace lathe
