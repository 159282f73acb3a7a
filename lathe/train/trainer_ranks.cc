// What a trainer tells the other ranks beside gradients.
#include "lathe/settings/argument_table.h"
#include "lathe/train/trainer.h"

namespace lathe {

void Trainer::check_ranks() {
  if (group() == nullptr) return;
  nlohmann::json facts = common_flags(to_json(bind(args_)));
  for (const auto& [name, value] : model_.config.json.items()) facts["config.json, " + name] = value;
  facts["labels"] = model_.labels;
  facts["training data"] = summary({train_, train_ == nullptr ? size_t{0} : 1});
  facts["validation data"] = summary({eval_, eval_ == nullptr ? size_t{0} : 1});
  facts["weights"] = weights_checksum();
  check_alike(group(), facts);
}

void Trainer::check_ranks(const Plan& plan) {
  if (group() == nullptr) return;
  nlohmann::json facts = {{"updates", plan.max_steps}, {"updates done", state_.global_step}};
  if (state_.global_step > 0) facts["weights"] = weights_checksum();  // else those that it was made with
  check_alike(group(), facts);
}

std::string Trainer::weights_checksum() const {
  Checksum sum;
  for (size_t i = 0; i < model_.model->parameters().size(); ++i)
    sum.add(session_->parameters().read(static_cast<int>(i)));
  return sum.text();
}

void Trainer::take_weights_of_main() {
  if (group() == nullptr) return;
  for (size_t i = 0; i < model_.model->parameters().size(); ++i) {
    std::vector<float> values = session_->parameters().read(static_cast<int>(i));
    group()->broadcast(std::as_writable_bytes(std::span(values)), 0).check();
    if (!is_main(group())) session_->parameters().write(static_cast<int>(i), values);
  }
}

void Trainer::share_counts() {
  const bool stop = in_training_ && group() != nullptr && hooks_.should_stop && hooks_.should_stop();
  const std::vector<double> sums =
      sum_over(group(), {course_.flos, course_.tokens, course_.real_tokens, stop ? 1.0 : 0.0});
  state_.total_flos += sums[0];
  state_.num_input_tokens_seen += static_cast<int64_t>(sums[1]);
  trained_tokens_ += static_cast<int64_t>(sums[2]);
  course_.stop_asked =
      course_.stop_asked || sums[3] > 0;  // behind an evaluation: the next update may bring another
  course_.flos = course_.tokens = course_.real_tokens = 0;
}

}  // namespace lathe
