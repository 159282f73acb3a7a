#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lathe/io/folder_lock.h"
#include "lathe/train/trainer.h"

namespace lathe::hf {

/// Arguments that were checked, and the device that they ask for.
struct Prepared {
  /// warn: takes the notices of `validate`, of the device and of the precision on it; may be empty.
  /// Errors: as `validate` and `open_device`.
  explicit Prepared(TrainingArguments arguments, const std::function<void(const std::string&)>& warn = {});

  /// Keeps other runs out of output_dir, which it makes, while `lock` lives: those of this process, too.
  /// Errors: kUsage where one is in there.
  void hold_output_dir(FolderLock& lock) const;

  TrainingArguments args;
  std::unique_ptr<Backend> device;
};

/// `Trainer(model, args, train_dataset, eval_dataset)`, as Hugging Face has it: lathe::Trainer on a device of
/// its own, the one that `args` name (`use_cpu`, `device`, `threads`); without output_dir it writes into
/// trainer_output.  hooks.message also gets the notices.  `model` and the data sets must outlive it.
class Trainer : private Prepared, public lathe::Trainer {
 public:
  Trainer(AutoModel& model, const TrainingArguments& args, const TokenizedDataset& train_dataset,
          const TokenizedDataset& eval_dataset, TrainerHooks hooks = {});

  const DeviceInfo& device_info() const { return device->info(); }
  /// Errors: also kUsage if another run, in a thread or a process, trains into output_dir.
  TrainOutput train(const std::string& resume_from = "");
  /// Of the data set it was made with.
  nlohmann::json evaluate() { return lathe::Trainer::evaluate(eval_dataset_); }
  using lathe::Trainer::evaluate;

 private:
  const TokenizedDataset& eval_dataset_;
};

}  // namespace lathe::hf
