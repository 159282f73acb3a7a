#include "lathe/train/run_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/core/host_memory.h"
#include "lathe/engine/ranks.h"
#include "lathe/train/batch_stream.h"

namespace lathe {
namespace {

void set_batch_size(TrainingArguments& args, int64_t size) {
  const int64_t whole = args.per_device_train_batch_size * args.gradient_accumulation_steps;
  if (size < 1 || whole % size != 0 || size == args.per_device_train_batch_size) return;
  args.per_device_train_batch_size = size;
  args.gradient_accumulation_steps = whole / size;
}

}  // namespace

std::vector<Work> update_work(const Session& session, const TrainingArguments& args,
                              const TokenizedDataset& data, const TrainingPlan& plan,
                              const BatchMasks* masks) {
  if (const int64_t each = session.model().task().cached_samples(); each > 0) {
    SamplerOptions parts = training_order(args, data, session.group());
    parts.batch_size = static_cast<int>(std::min<int64_t>(each, parts.batch_size));
    const Bucket part = largest_batch(data, parts, session.token_rounding(), 1);
    return {{.kind = ProgramKind::kAccumulate, .bucket = part, .gradient_given = true},
            {.kind = ProgramKind::kUpdate}};
  }
  const Bucket bucket = largest_batch(data, training_order(args, data, session.group()),
                                      session.token_rounding(), plan.epochs, masks);
  if (std::min(args.gradient_accumulation_steps, plan.batches_per_epoch) == 1)
    return {{ProgramKind::kStep, bucket}};
  return {{ProgramKind::kAccumulate, bucket}, {ProgramKind::kUpdate, {}}};
}

void find_batch_size(const Session& session, TrainingArguments& args, const TokenizedDataset& data,
                     const LogSink& say, const BatchMasks* masks) {
  const auto free = session.programs().free_share();
  const int64_t wanted = args.per_device_train_batch_size;
  const int64_t whole = wanted * args.gradient_accumulation_steps;
  const auto fits = [&](int64_t size) {
    set_batch_size(args, size);
    const TrainingPlan plan = plan_of(args, &data, session.model().task(), session.group());
    return !free ||
           session.programs().memory_need(update_work(session, args, data, plan, masks)).total() <= *free;
  };
  if (!fits(wanted)) {
    // Batches larger than the data set are like one batch of all of it.
    std::vector<int64_t> sizes;
    for (int64_t size = 2; size <= std::min(wanted - 1, data.size()); ++size)
      if (whole % size == 0) sizes.push_back(size);
    const auto end = std::partition_point(sizes.begin(), sizes.end(), fits);  // memory grows with the batch
    set_batch_size(args, end == sizes.begin() ? 1 : *(end - 1));
  }
  set_batch_size(args, least_over(session.group(), args.per_device_train_batch_size));
  if (args.per_device_train_batch_size != wanted)
    say(LogLevel::kInfo,
        fmt::format("--auto_find_batch_size: a batch of {} does not fit the memory: takes {}, accumulated {} "
                    "times",
                    wanted, args.per_device_train_batch_size, args.gradient_accumulation_steps));
}

void take_batch_size(TrainingArguments& args, int64_t batch_size, const std::string& checkpoint,
                     const LogSink& say) {
  const int64_t found = args.per_device_train_batch_size;
  set_batch_size(args, batch_size);
  if (args.per_device_train_batch_size != found)
    say(LogLevel::kInfo,
        fmt::format("--auto_find_batch_size: takes {}, accumulated {} times, as {} did",
                    args.per_device_train_batch_size, args.gradient_accumulation_steps, checkpoint));
}

std::unique_ptr<BaseCache> keep_base_output_of(Session& session, const TokenizedDataset& data,
                                               const std::string& when, const LogSink& say) {
  constexpr uint64_t kShare = 4;  // of the free memory: the rest is for the run itself
  const uint64_t wanted = BaseCache::bytes(session, data), free = host_memory().free.value_or(0);
  if (wanted <= free / kShare) return std::make_unique<BaseCache>(session, data);
  say(LogLevel::kInfo, fmt::format("The base runs at every {}: to keep its output takes {} MB, more than a "
                                   "quarter of the {} MB of memory that are free.",
                                   when, wanted >> 20, free >> 20));
  return nullptr;
}

}  // namespace lathe
