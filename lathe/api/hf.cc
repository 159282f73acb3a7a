#include "lathe/api/hf.h"

#include "lathe/backends/register.h"

namespace lathe::hf {

Prepared::Prepared(TrainingArguments arguments, const std::function<void(const std::string&)>& warn)
    : args(std::move(arguments)) {
  const auto tell = [&](const std::vector<std::string>& notices) {
    for (const std::string& notice : notices)
      if (warn) warn(notice);
  };
  tell(validate(args));
  if (args.push_to_hub)
    tell(
        {"push_to_hub: training uploads nothing here; after it, Python's Trainer.push_to_hub() does, "
         "and lathe/report/push_to_hub.h"});
  device = open_device(args.use_cpu ? "cpu" : args.device,
                       {static_cast<int>(args.threads), args.tf32.value_or(false), warn});
  tell(precision_notices(args, device->info().kind, cpu_levels().native_bf16));
}

void Prepared::hold_output_dir(FolderLock& lock) const {
  // If the folder cannot be made, nothing is locked, and the first write into it fails with a message.
  [[maybe_unused]] const Status ignored = real_file_system().create_directories(*args.output_dir);
  if (!lock.take(*args.output_dir))
    fail(ErrorCode::kUsage,
         "output_dir: another run, in this process or another, trains into {} (flock); wait for its end or "
         "give another folder",
         *args.output_dir);
}

Trainer::Trainer(AutoModel& model, const TrainingArguments& arguments, const TokenizedDataset& train_dataset,
                 const TokenizedDataset& eval_dataset, TrainerHooks hooks)
    : Prepared(arguments,
               [tell = hooks.message](const std::string& text) {
                 if (tell) tell(LogLevel::kWarning, text);
               }),
      lathe::Trainer(*device, model, args, &train_dataset, &eval_dataset, std::move(hooks)),
      eval_dataset_(eval_dataset) {}

TrainOutput Trainer::train(const std::string& resume_from) {
  FolderLock lock;
  hold_output_dir(lock);
  return lathe::Trainer::train(resume_from);
}

}  // namespace lathe::hf
