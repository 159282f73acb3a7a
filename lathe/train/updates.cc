#include "lathe/train/updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/engine/ranks.h"
#include "lathe/text/python_format.h"

namespace lathe {

Updates::Updates(Session& session, const TrainingArguments& args, int64_t samples, RunProgress& progress,
                 RunLog& log, const RunCheckpoints& checkpoints)
    : session_(session),
      args_(args),
      samples_(samples),
      progress_(progress),
      log_(log),
      checkpoints_(checkpoints),
      collected_(progress.state.global_step) {
  if (args.fp16) scaler_.emplace(progress.run.loss_scaler);
}

StepScalars Updates::scalars(const MetricWatch& watch) const {
  StepScalars scalars;
  scalars.learning_rate = watch.learning_rate();
  scalars.head_learning_rate = watch.head_learning_rate();
  scalars.update_step = progress_.state.global_step + 1;
  scalars.adam_step = progress_.applied() + 1;
  if (scaler_) scalars.loss_scale = scaler_->scale();
  scalars.seed = static_cast<uint32_t>(args_.seed);
  scalars.max_grad_norm = args_.max_grad_norm;
  scalars.stop = session_.group() != nullptr && log_.asked_to_stop();
  return scalars;
}

void Updates::start(BatchStream& stream, BaseCache* base, int64_t first, int64_t count,
                    const MetricWatch& watch) {
  if (scaler_) collect(0);  // the outcome of the last update decides about this one
  StepScalars scalars = this->scalars(watch);
  const int64_t items = items_of_update(stream, count);
  const bool at_once = count == 1 && session_.model().task().cached_samples() == 0;
  for (int64_t micro = 0; micro < count; ++micro) {
    const PackedBatch* batch = stream.next();
    if (batch == nullptr)
      fail(ErrorCode::kInternal, "the data ended at update {}", progress_.state.global_step);
    scalars.first_micro = micro == 0;
    scalars.loss_weight = loss_weight(*batch, first, count, items);
    const BaseRows rows = base != nullptr ? base->rows(*batch) : BaseRows{};
    started_.push_back(
        {at_once ? session_.step(*batch, scalars, rows) : session_.accumulate(*batch, scalars, rows),
         scalars.loss_weight, at_once});
    log_.count(*batch);
    collect(1);
  }
  if (!at_once) {
    started_.push_back({session_.update(scalars), scalars.loss_weight, true});
    collect(1);
  }
  last_learning_rate_ = scalars.learning_rate;
}

int64_t Updates::items_of_update(BatchStream& stream, int64_t count) const {
  const bool divides = session_.model().divides_by_items() || args_.label_smoothing_factor != 0;
  const bool counts = args_.hf_compat_loss_scale || session_.model().task().weighs_tokens();
  if (!counts || !divides) return 0;
  return static_cast<int64_t>(
      sum_over(session_.group(), {static_cast<double>(stream.scored_in_next(count))})[0]);
}

double Updates::loss_weight(const PackedBatch& batch, int64_t first, int64_t count, int64_t items) const {
  if (items > 0)
    return static_cast<double>(batch.real_scored) * session_.ranks() / static_cast<double>(items);
  if (!args_.hf_compat_loss_scale || !session_.model().task().takes_item_count())
    return 1.0 / static_cast<double>(count);
  if (args_.label_smoothing_factor == 0) return session_.ranks();
  const int64_t batch_size = args_.per_device_train_batch_size;
  int64_t samples = count * batch_size;
  if (session_.ranks() == 1) samples = std::min(samples, samples_ - first * batch_size);
  return static_cast<double>(batch.sample_count()) / static_cast<double>(samples);
}

void Updates::collect(size_t keep) {
  while (started_.size() > keep) {
    const Started run = std::move(started_.front());
    started_.pop_front();
    const Session::Outcome outcome = session_.collect(run.run);
    if (run.run.gives(kLoss)) {
      finite_loss_ = finite_loss_ && std::isfinite(outcome.loss);
      update_loss_ += filtered_loss(outcome.loss * run.loss_weight);
    }
    if (run.run.gives(kGradNorm)) last_norm_ = outcome.grad_norm;
    if (outcome.stop > 0) log_.note_stop();
    if (run.ends_update) end_update(std::exchange(update_loss_, 0.0));
  }
}

double Updates::filtered_loss(double loss) const {
  if (std::isfinite(loss) || !args_.logging_nan_inf_filter.value_or(scaler_.has_value())) return loss;
  return (progress_.run.loss_since_log + update_loss_) /
         static_cast<double>(1 + progress_.run.updates_since_log);
}

void Updates::end_update(double loss) {
  last_loss_ = loss;
  const int64_t step = ++collected_;
  const bool finite_loss = std::exchange(finite_loss_, true);
  if (scaler_) {
    adapt_loss_scale(finite_loss);
  } else if (!args_.logging_nan_inf_filter && (!finite_loss || !std::isfinite(last_norm_))) {
    fail(ErrorCode::kNonFinite,
         "step {}: loss {}, gradient norm {}: not finite. The weights were not touched by this step. A "
         "smaller --learning_rate, more --warmup_steps or fp32 may help; with --logging_nan_inf_filter "
         "the run leaves such steps out and goes on. {}",
         step, python_repr(loss), python_repr(last_norm_), checkpoints_.where_to_go_on());
  }
  progress_.run.total_loss += loss;
  ++progress_.run.loss_updates;
  progress_.run.loss_since_log += loss;
  ++progress_.run.updates_since_log;
  if (finite_loss) progress_.run.losses.add(step, loss);
}

void Updates::adapt_loss_scale(bool finite_loss) {
  if (!scaler_->finish(finite_loss, std::isfinite(last_norm_))) ++progress_.run.skipped_updates;
  progress_.run.loss_scaler = scaler_->state();
  if (!scaler_->hopeless()) return;
  const LossScaler::State& state = scaler_->state();
  const std::string found =
      state.bad_losses < LossScaler::kMostBadLosses
          ? fmt::format("gradients overflow with every loss scale down to {}", state.scale)
          : fmt::format(
                "{} updates in a row with a loss that is not finite, which no loss "
                "scale mends",
                state.bad_losses);
  fail(ErrorCode::kNonFinite,
       "step {}: --fp16: {}. These updates were left out. Values beyond 65504 do not fit float16: --bf16 or "
       "fp32 hold them; a smaller --learning_rate may help. {}",
       collected_, found, checkpoints_.where_to_go_on());
}

}  // namespace lathe
