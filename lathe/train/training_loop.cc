#include "lathe/train/training_loop.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/engine/ranks.h"

namespace lathe {

std::vector<std::byte> take_masks(const RunState& run, const TrainerHooks& hooks, const ProcessGroup* group) {
  const auto rank = static_cast<size_t>(group == nullptr ? 0 : group->rank());
  if (!hooks.masks || rank >= run.masks.size()) return {};
  const std::string& text = run.masks[rank];
  const size_t comma = std::min(text.find(','), text.size());
  hooks.masks->restore(bytes_of_hex(text.substr(std::min(comma + 1, text.size())), "the state of the masks"));
  return bytes_of_hex(text.substr(0, comma), "the state of the masks");
}

TrainingLoop::TrainingLoop(Session& session, const TrainingArguments& args, const TokenizedDataset& data,
                           const TrainingPlan& plan, const TrainerHooks& hooks, RunProgress& progress,
                           RunCheckpoints& checkpoints, Evaluator& evaluator, RunLog& log)
    : session_(session),
      args_(args),
      data_(data),
      plan_(plan),
      hooks_(hooks),
      progress_(progress),
      checkpoints_(checkpoints),
      evaluator_(evaluator),
      log_(log),
      watch_(args, plan.max_steps, progress, log.sink()),
      updates_(session, args, data.size(), progress, log, checkpoints),
      first_step_(progress.state.global_step),
      data_lag_(args.ignore_data_skip ? first_step_ % plan.updates_per_epoch : 0) {}

void TrainingLoop::run(BaseCache* base) {
  if (args_.eval_on_start && progress_.state.global_step == 0) evaluator_.evaluate();
  const int64_t epoch = data_updates() / plan_.updates_per_epoch;
  const int64_t update = data_updates() % plan_.updates_per_epoch;
  BatchStream stream(data_, training_order(args_, data_, session_.group()), session_.token_rounding(), epoch,
                     update * args_.gradient_accumulation_steps, epoch + plan_.epochs + 1,
                     batches_ahead(args_));
  if (hooks_.masks) stream.mask_with(*hooks_.masks, take_masks(progress_.run, hooks_, session_.group()));
  stream_ = &stream;
  checkpoints_.hold_descriptors();
  while (progress_.state.global_step < plan_.max_steps && !stopped_early()) {
    make_update(stream, base);
    after_update();
  }
  checkpoints_.release_descriptors();
  stream_ = nullptr;
}

void TrainingLoop::make_update(BatchStream& stream, BaseCache* base) {
  TrainerState& state = progress_.state;
  const int64_t epoch = data_updates() / plan_.updates_per_epoch;
  const int64_t accumulation = args_.gradient_accumulation_steps;
  const int64_t first = data_updates() % plan_.updates_per_epoch * accumulation;
  const int64_t count =
      std::min(accumulation, plan_.batches_per_epoch - first);  // the last group may be short
  updates_.start(stream, base, first, count, watch_);
  state.epoch = static_cast<double>(epoch) +
                static_cast<double>(first + count) / static_cast<double>(plan_.batches_per_epoch);
  ++state.global_step;
}

void TrainingLoop::after_update() {
  const int64_t step = progress_.state.global_step;
  const bool epoch_end = data_updates() % plan_.updates_per_epoch == 0 || step == plan_.max_steps;
  const bool by_steps = args_.logging_strategy == "steps" && step % progress_.state.logging_steps == 0;
  const bool by_epochs = args_.logging_strategy == "epoch";
  // What is due by steps comes before the end of the epoch.  Source: transformers' Trainer.
  const bool log_first = args_.eval_strategy != "steps";
  if (by_steps || (args_.logging_first_step && step == 1) || (by_epochs && epoch_end && log_first))
    log_progress();
  const bool better = evaluate_if_due(epoch_end);
  if (by_epochs && (epoch_end || stopped_early())) log_progress();  // an early stop is the end of its epoch
  const bool saved = save_if_due(epoch_end || stopped_early(), better);
  if (step == plan_.max_steps) updates_.collect(0);
  if (hooks_.on_step) hooks_.on_step(step, plan_.max_steps, updates_.last_loss());
  // Ranks stop together: a request to one of them reaches all with the loss of an update.
  const bool asked = session_.group() != nullptr ? log_.group_stops() : log_.asked_to_stop();
  if (step < plan_.max_steps && asked && !stopped_early()) stop(saved);
}

void TrainingLoop::stop(bool saved) {
  const int64_t step = progress_.state.global_step;
  updates_.collect(0);
  stopping_ = true;
  if (!args_.output_dir)
    fail(ErrorCode::kInterrupted, "interrupted after step {}; without --output_dir nothing was saved", step);
  // Continuing needs the optimizer's state, with --save_only_model or without.
  const std::string folder =
      saved && !args_.save_only_model ? checkpoints_.folder().at_step(step) : save_checkpoint(false);
  fail(ErrorCode::kInterrupted, "interrupted after step {}; its checkpoint is {}", step, folder);
}

void TrainingLoop::log_progress() {
  updates_.collect(0);
  if (progress_.run.updates_since_log == 0) return;
  nlohmann::ordered_json entry;
  entry["loss"] = progress_.run.loss_since_log / static_cast<double>(progress_.run.updates_since_log);
  entry["grad_norm"] = updates_.last_norm();
  entry["learning_rate"] = updates_.last_learning_rate();
  progress_.run.loss_since_log = 0;
  progress_.run.updates_since_log = 0;
  log_.write(std::move(entry), true);
}

bool TrainingLoop::is_due(const std::string& strategy, int64_t every, bool epoch_end) const {
  const int64_t step = progress_.state.global_step;
  return strategy == "epoch"
             ? epoch_end
             : strategy == "steps" && ((every > 0 && step % every == 0) || step == plan_.max_steps);
}

bool TrainingLoop::evaluate_if_due(bool epoch_end) {
  const double position = args_.eval_strategy == "epoch" ? progress_.state.epoch
                                                         : static_cast<double>(progress_.state.global_step);
  if (!is_due(args_.eval_strategy, progress_.state.eval_steps, epoch_end) || position < args_.eval_delay)
    return false;
  updates_.collect(0);
  return watch_.follow(evaluator_.evaluate());
}

bool TrainingLoop::save_if_due(bool epoch_end, bool better) {
  TrainerState& state = progress_.state;
  const bool due =
      args_.save_strategy == "best" ? better : is_due(args_.save_strategy, state.save_steps, epoch_end);
  if (!due || !args_.output_dir) return false;
  updates_.collect(0);
  // The best step has a checkpoint only if one was due at that step.  Until then the earlier best one stays
  // the best that can be loaded.  A checkpoint saved for a stop does not count, or the resumed run would end
  // with another model than a run that never stopped.  Source: transformers' Trainer._save_checkpoint.
  if (state.best_global_step == state.global_step)
    state.best_model_checkpoint = checkpoints_.folder().at_step(state.global_step);
  save_checkpoint(args_.save_only_model);
  if (!checkpoints_.keeps()) return true;
  checkpoints_.folder().rotate(state.best_model_checkpoint);
  checkpoints_.hold_descriptors();  // before a callback can take them
  return true;
}

std::vector<std::string> TrainingLoop::masks() const {
  if (!hooks_.masks || stream_ == nullptr) return {};
  return texts_of_all(session_.group(),
                      hex_of(stream_->masks_before()) + "," + hex_of(hooks_.masks->state()));
}

std::string TrainingLoop::save_checkpoint(bool only_model) {
  log_.share_counts();
  progress_.run.masks = masks();
  return checkpoints_.save(progress_, watch_.learning_rate(), only_model);
}

}  // namespace lathe
