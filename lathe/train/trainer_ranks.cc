// What a trainer tells the other ranks beside gradients.
#include <bit>

#include "lathe/train/argument_table.h"
#include "lathe/train/trainer.h"

namespace lathe {

void Trainer::check_ranks(const Plan& plan) {
  if (group() == nullptr) return;
  nlohmann::json facts = to_json(bind(args_));
  for (const char* own : {"output_dir", "threads", "local_rank", "log_level", "log_level_replica",
                          "disable_tqdm", "resume_from_checkpoint"})
    facts.erase(own);
  facts["training samples"] = train_->size();
  facts["validation samples"] = eval_ == nullptr ? 0 : eval_->size();
  facts["updates"] = plan.max_steps;
  facts["updates done"] = state_.global_step;
  uint64_t sum = 0xcbf29ce484222325;  // FNV-1a over words
  for (const float value : session_->read_state("parameters"))
    sum = (sum ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3;
  facts["weights with the checksum"] = sum;
  check_alike(group(), facts);
}

void Trainer::share_counts() {
  const std::vector<double> sums = sum_over(group(), {flos_, tokens_});
  state_.total_flos += sums[0];
  state_.num_input_tokens_seen += static_cast<int64_t>(sums[1]);
  flos_ = tokens_ = 0;
}

}  // namespace lathe
