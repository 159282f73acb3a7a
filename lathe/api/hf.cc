#include "lathe/api/hf.h"

#include "lathe/backends/register.h"

namespace lathe::hf {

Prepared::Prepared(TrainingArguments arguments) : args(std::move(arguments)) {
  validate(args);
  device = open_device(args.use_cpu ? "cpu" : args.device,
                       {static_cast<int>(args.threads), args.tf32.value_or(false)});
}

Trainer::Trainer(AutoModel& model, const TrainingArguments& arguments, const TokenizedDataset& train_dataset,
                 const TokenizedDataset& eval_dataset, TrainerHooks hooks)
    : Prepared(arguments),
      lathe::Trainer(*device, model, args, &train_dataset, &eval_dataset, std::move(hooks)),
      eval_dataset_(eval_dataset) {}

}  // namespace lathe::hf
