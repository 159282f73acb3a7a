#include "lathe/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/text/python_format.h"
#include "lathe/train/batch_stream.h"
#include "lathe/train/check_dataset.h"

namespace lathe {
namespace {

int64_t non_embedding_parameters(const TaskModel& model) {
  int64_t count = 0;
  for (const nn::Parameter& p : model.parameters())
    if (p.name.find("embeddings.weight") == std::string::npos) count += elements(p.shape);
  return count;
}

Session::Options session_options(const AutoModel& model, const TrainingArguments& args) {
  Session::Options options;
  options.num_labels = std::max<int64_t>(1, static_cast<int64_t>(model.labels.size()));
  options.program.dtype = training_dtype(args);
  options.program.quantization = training_quantization(args);
  options.program.recompute_every = recompute_every(args);
  constexpr int64_t kBucket_mb = 25;  // DistributedDataParallel's
  options.program.bucket_bytes = args.ddp_bucket_cap_mb.value_or(kBucket_mb) << 20;
  if (args.ddp_comm_hook == "bf16") options.program.gradient_wire = DType::bf16;
  options.program.optimizer = optimizer_of(args);
  options.shard_states = args.zero_stage == 1;
  options.program.label_smoothing = args.label_smoothing_factor;
  return options;
}

/// True as long as this lives.
class SetWhile {
 public:
  explicit SetWhile(bool& flag) : flag_(flag) { flag_ = true; }
  ~SetWhile() { flag_ = false; }
  SetWhile(const SetWhile&) = delete;
  SetWhile& operator=(const SetWhile&) = delete;

 private:
  bool& flag_;
};

/// What a training holds goes with it, however it ends.
struct Released {
  DescriptorReserve& reserve;
  std::optional<LeftoversNote>& note;
  ~Released() { reserve.release(), note.reset(); }
};

}  // namespace

Trainer::Trainer(Backend& backend, AutoModel& model, const TrainingArguments& args,
                 const TokenizedDataset* train_dataset, const TokenizedDataset* eval_dataset,
                 TrainerHooks hooks, FileSystem& fs)
    : backend_(backend),
      model_(model),
      args_(args),
      train_(train_dataset),
      eval_(eval_dataset),
      hooks_(std::move(hooks)),
      fs_(fs) {
  check_arguments();
  if (train_ != nullptr) check_data(*train_, "training data");
  if (eval_ != nullptr) check_data(*eval_, "evaluation data");
  const MemoryMetrics memory(memory_stage("init"), backend_);
  if (args_.freeze_base_model) model_.model->set_trainable(model_.model->base_prefix(), false);
  session_ = std::make_unique<Session>(backend_, *model_.model, session_options(model_, args_));
  if (train_ != nullptr) session_->programs().expect_rows(ProgramCache::Rows::kTrained, train_->longest());
  if (eval_ != nullptr) session_->programs().expect_rows(ProgramCache::Rows::kEvaluated, eval_->longest());
  load_report_ = initialize(session_->parameters(), model_, static_cast<uint64_t>(args_.seed));
  check_ranks();
  if (args_.auto_find_batch_size && train_ != nullptr) find_batch_size();
  memory.finish(init_memory_);
}

void Trainer::check_data(const TokenizedDataset& data, const char* what) const {
  check_dataset(data, model_.model->problem(), std::ssize(model_.labels), what);
}

SamplerOptions Trainer::sampler_options(int64_t samples) const {
  SamplerOptions options;
  options.size = samples;
  options.batch_size = static_cast<int>(args_.per_device_train_batch_size);
  options.accumulation = static_cast<int>(args_.gradient_accumulation_steps);
  options.seed = static_cast<uint64_t>(args_.data_seed.value_or(args_.seed));
  options.drop_last = args_.dataloader_drop_last;
  if (group() != nullptr) options.rank = group()->rank(), options.world_size = group()->size();
  options.length_group =
      static_cast<int>(args_.per_device_train_batch_size * args_.gradient_accumulation_steps);
  if (args_.train_sampling_strategy == "sequential") options.strategy = SamplingStrategy::kSequential;
  if (args_.train_sampling_strategy == "group_by_length") options.strategy = SamplingStrategy::kGroupByLength;
  if (args_.train_sampling_strategy == "batch_rebalance")
    options.strategy = SamplingStrategy::kBatchRebalance;
  return options;
}

Trainer::Plan Trainer::plan() const {
  if (train_ == nullptr || train_->size() == 0)
    fail(ErrorCode::kUsage, "training wants a training data set with at least one sample");
  if (!is_labelled(*train_, model_.model->problem()))
    fail(ErrorCode::kInvalidData, "training data: found no labels, wants one for every sample");
  Plan plan;
  plan.batches_per_epoch = Sampler(sampler_options(train_->size()), train_->lengths()).batches_per_epoch();
  if (plan.batches_per_epoch == 0)
    fail(ErrorCode::kUsage,
         "--dataloader_drop_last leaves no batch: {} samples, batches of {}{}; lower "
         "--per_device_train_batch_size or leave the flag out",
         train_->size(), args_.per_device_train_batch_size,
         group() == nullptr ? "" : fmt::format(" for each of {} processes", group()->size()));
  if (args_.max_steps <= 0 && args_.num_train_epochs == 0)
    fail(ErrorCode::kUsage,
         "--num_train_epochs: found 0, wants more than 0, or --max_steps; a run that does not train leaves "
         "out "
         "--do_train");
  const int64_t accumulation = args_.gradient_accumulation_steps;
  plan.updates_per_epoch = ceil_div(plan.batches_per_epoch, accumulation);
  if (args_.max_steps > 0) {
    plan.max_steps = args_.max_steps;
    plan.epochs = ceil_div(plan.max_steps, plan.updates_per_epoch);
  } else {
    plan.max_steps =
        static_cast<int64_t>(std::ceil(args_.num_train_epochs * static_cast<double>(plan.updates_per_epoch)));
    plan.epochs = static_cast<int64_t>(std::ceil(args_.num_train_epochs));
  }
  return plan;
}

Trainer::Plan Trainer::plan(const std::string& resume_from) {
  if (args_.auto_find_batch_size && !resume_from.empty()) take_batch_size_of(resume_from);
  return plan();
}

TrainOutput Trainer::train(const std::string& resume_from) {
  state_ = {};
  run_ = {};
  course_ = {};
  const MemoryMetrics memory(memory_stage("train"), backend_);
  const Released at_the_end{reserve_, note_};
  const Plan plan = begin(resume_from);
  make_base_caches(plan);
  {
    const SetWhile training(in_training_);
    check_ranks(plan);
    if (model_.model->base_frozen()) reserve_memory(plan);
    if (keeps_checkpoints()) {
      checkpoint_folder().set_aside_other_runs(course_.first_step, resume_from);
      checkpoint_folder().warn_of_space(
          checkpoints_to_come(plan), checkpoint_bytes(model_, session_->parameters(), args_.save_only_model),
          checkpoint_bytes(model_, session_->parameters(), true));
    }
    try {
      run_updates(plan);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kIo || group() == nullptr || !group()->gone()) throw;
      throw Error(error.code(), fmt::format("{}. {}", error.what(), where_to_go_on()));
    }
  }
  train_base_.reset();
  if (course_.scaler && run_.skipped_updates > 0)
    say(LogLevel::kInfo,
        fmt::format("fp16: {} of {} updates were left out because a gradient overflowed; the "
                    "loss scale is {}",
                    run_.skipped_updates, state_.global_step, course_.scaler->scale()));
  TrainOutput output;
  output.global_step = state_.global_step;
  output.training_loss = run_.total_loss / static_cast<double>(std::max<int64_t>(1, run_.loss_updates));
  const double samples = args_.max_steps > 0
                             ? static_cast<double>(args_.max_steps) *
                                   static_cast<double>(args_.per_device_train_batch_size *
                                                       args_.gradient_accumulation_steps * session_->ranks())
                             : static_cast<double>(train_->size()) * args_.num_train_epochs;
  const double steps = static_cast<double>(state_.global_step - course_.first_step);
  add_speed(output.metrics, "train", course_.started_at,
            samples * steps / static_cast<double>(std::max<int64_t>(1, plan.max_steps)), steps);
  add_memory(memory, output.metrics);
  share_counts();
  output.metrics["total_flos"] = state_.total_flos;
  output.metrics["train_loss"] = output.training_loss;
  output.metrics["epoch"] = state_.epoch;
  if (counts_tokens()) output.metrics["num_input_tokens_seen"] = state_.num_input_tokens_seen;
  log(nlohmann::ordered_json(output.metrics));
  if (args_.load_best_model_at_end) {
    if (is_main(group())) load_best_model();  // others may not see what it has written, or not yet
    take_weights_of_main();
  }
  if (args_.save_strategy != "no" && keeps_checkpoints()) {
    checkpoint_folder().rotate(state_.best_model_checkpoint);
    checkpoint_folder().keep_best(state_.best_model_checkpoint);
  }
  return output;
}

Trainer::Plan Trainer::begin(const std::string& resume_from) {
  if (keeps_checkpoints()) take_output_folder();
  if (group() != nullptr) group()->barrier().check();  // others read what it gives its name back
  const bool whole = !resume_from.empty() && check_checkpoint(resume_from);
  const Plan plan = this->plan(resume_from);
  if (!resume_from.empty()) check_place(plan, resume_from);
  if (resume_from.empty())
    session_->parameters().clear_states();  // a call of train before may have left some
  // Before states are read.  What runs of a frozen base is known with its weights alone.
  if (!model_.model->base_frozen()) {
    const SetWhile training(in_training_);
    reserve_memory(plan);
  }
  std::optional<OptimizerProgress> python;
  if (!resume_from.empty()) {
    python = read_checkpoint(fs_, resume_from, model_, *session_, state_, run_, whole);
    if (state_.best_model_checkpoint)
      state_.best_model_checkpoint =
          checkpoint_folder().find_best(*state_.best_model_checkpoint, resume_from);
    say_other_arguments(resume_from);
  }
  if (python)
    say_how_python_goes_on(plan, resume_from, *python);
  else if (!resume_from.empty())
    warn_of_differences(plan, resume_from);
  course_.data_lag = args_.ignore_data_skip ? state_.global_step % plan.updates_per_epoch : 0;
  course_.updates_collected = state_.global_step;
  course_.first_step = state_.global_step;
  course_.first_tokens = state_.num_input_tokens_seen;
  if (args_.fp16) course_.scaler.emplace(run_.loss_scaler);
  state_.max_steps = plan.max_steps;
  state_.num_train_epochs = plan.epochs;
  state_.train_batch_size = args_.per_device_train_batch_size;
  state_.logging_steps = interval_steps(args_.logging_steps, plan.max_steps);
  if (args_.eval_steps) state_.eval_steps = interval_steps(*args_.eval_steps, plan.max_steps);
  state_.save_steps = interval_steps(args_.save_steps, plan.max_steps);
  run_.updates_per_epoch = plan.updates_per_epoch;
  run_.data_seed = sampler_options(1).seed;
  run_.seed = static_cast<uint64_t>(args_.seed);
  run_.training_data = summary({train_, 1});
  make_schedule(plan);
  if (args_.early_stopping_patience)
    course_.early_stopping.emplace(*args_.early_stopping_patience, args_.early_stopping_threshold,
                                   state_.stateful_callbacks);
  course_.stopped_early = course_.early_stopping && course_.early_stopping->exhausted();
  if (course_.stopped_early && state_.global_step < plan.max_steps)
    say(LogLevel::kInfo, fmt::format("{}: stopped early after step {}; a larger --early_stopping_patience "
                                     "than {} goes on",
                                     resume_from, state_.global_step, *args_.early_stopping_patience));
  return plan;
}

void Trainer::run_updates(const Plan& plan) {
  if (args_.eval_on_start && state_.global_step == 0) evaluate(*eval_);
  const int64_t epoch = data_updates() / plan.updates_per_epoch;
  const int64_t update = data_updates() % plan.updates_per_epoch;
  const int64_t accumulation = args_.gradient_accumulation_steps;
  BatchStream stream(*train_, sampler_options(train_->size()), session_->token_rounding(), epoch,
                     update * accumulation, epoch + plan.epochs + 1, batches_ahead());
  if (keeps_checkpoints()) hold_descriptors();
  while (state_.global_step < plan.max_steps && !course_.stopped_early) {
    start_update(plan, stream);
    after_update(plan);
  }
  reserve_.release();
}

void Trainer::start_update(const Plan& plan, BatchStream& stream) {
  const int64_t accumulation = args_.gradient_accumulation_steps;
  const int64_t first = data_updates() % plan.updates_per_epoch * accumulation;
  const int64_t count =
      std::min(accumulation, plan.batches_per_epoch - first);  // the last group may be short
  if (course_.scaler) collect(0);  // what the last update did decides over this one
  const int64_t applied = state_.global_step - run_.skipped_updates;
  StepScalars scalars;
  scalars.learning_rate = next_learning_rate();
  scalars.update_step = state_.global_step + 1;
  scalars.adam_step = applied + 1;
  if (course_.scaler) scalars.loss_scale = course_.scaler->scale();
  scalars.seed = static_cast<uint32_t>(args_.seed);
  scalars.max_grad_norm = args_.max_grad_norm;
  scalars.stop = group() != nullptr && hooks_.should_stop && hooks_.should_stop();
  for (int64_t micro = 0; micro < count; ++micro) {
    const PackedBatch* batch = stream.next();
    if (batch == nullptr) fail(ErrorCode::kInternal, "the data ended at update {}", state_.global_step);
    scalars.first_micro = micro == 0;
    scalars.loss_weight = loss_weight(*batch, first, count);
    const BaseRows base = train_base_ ? train_base_->rows(*batch) : BaseRows{};
    course_.started.push_back(
        {count == 1 ? session_->step(*batch, scalars, base) : session_->accumulate(*batch, scalars, base),
         scalars.loss_weight, count == 1});
    count_tokens(*batch);
    collect(1);
  }
  if (count > 1) {
    course_.started.push_back({session_->update(scalars), scalars.loss_weight, true});
    collect(1);
  }
  course_.last_learning_rate = scalars.learning_rate;
  const int64_t epoch = data_updates() / plan.updates_per_epoch;
  state_.epoch = static_cast<double>(epoch) +
                 static_cast<double>(first + count) / static_cast<double>(plan.batches_per_epoch);
  ++state_.global_step;
}

double Trainer::loss_weight(const PackedBatch& batch, int64_t first, int64_t count) const {
  if (!args_.hf_compat_loss_scale || model_.model->problem() == Problem::kQuestionAnswering)
    return 1.0 / static_cast<double>(count);
  if (args_.label_smoothing_factor == 0) return session_->ranks();
  const int64_t batch_size = args_.per_device_train_batch_size;
  int64_t samples = count * batch_size;
  if (session_->ranks() == 1) samples = std::min(samples, train_->size() - first * batch_size);
  return static_cast<double>(batch.rows) / static_cast<double>(samples);
}

void Trainer::count_tokens(const PackedBatch& batch) {
  const double padded = static_cast<double>(std::max(batch.longest_row, pad_to_)) * batch.rows;
  course_.flos += 6.0 * padded * static_cast<double>(non_embedding_parameters(*model_.model));
  const bool all = args_.include_num_input_tokens_seen == "all";
  course_.real_tokens += static_cast<double>(batch.real_tokens());
  if (counts_tokens()) course_.tokens += all ? padded : static_cast<double>(batch.real_tokens());
}

void Trainer::collect(size_t keep) {
  while (course_.started.size() > keep) {
    const Started run = std::move(course_.started.front());
    course_.started.pop_front();
    const Session::Outcome outcome = session_->collect(run.run);
    if (run.run.gives(Output::kLoss)) {
      course_.finite_loss = course_.finite_loss && std::isfinite(outcome.loss);
      course_.update_loss += filtered_loss(outcome.loss * run.loss_weight);
    }
    if (run.run.gives(Output::kGradNorm)) course_.last_norm = outcome.grad_norm;
    course_.stop_asked = course_.stop_asked || outcome.stop > 0;
    if (run.ends_update) end_update(std::exchange(course_.update_loss, 0.0));
  }
}

double Trainer::filtered_loss(double loss) const {
  if (std::isfinite(loss) || !args_.logging_nan_inf_filter.value_or(course_.scaler.has_value())) return loss;
  return (run_.loss_since_log + course_.update_loss) / static_cast<double>(1 + run_.updates_since_log);
}

void Trainer::end_update(double loss) {
  course_.last_loss = loss;
  const int64_t step = ++course_.updates_collected;
  const bool finite_loss = std::exchange(course_.finite_loss, true);
  if (course_.scaler) {
    adapt_loss_scale(finite_loss);
  } else if (!args_.logging_nan_inf_filter && (!finite_loss || !std::isfinite(course_.last_norm))) {
    fail(ErrorCode::kNonFinite,
         "step {}: loss {}, gradient norm {}: not finite. The weights were not touched by this step. A "
         "smaller --learning_rate, more --warmup_steps or fp32 may help; with --logging_nan_inf_filter "
         "the run leaves such steps out and goes on. {}",
         step, python_repr(loss), python_repr(course_.last_norm), where_to_go_on());
  }
  run_.total_loss += loss;
  ++run_.loss_updates;
  run_.loss_since_log += loss;
  ++run_.updates_since_log;
}

void Trainer::adapt_loss_scale(bool finite_loss) {
  if (!course_.scaler->finish(finite_loss, std::isfinite(course_.last_norm))) ++run_.skipped_updates;
  run_.loss_scaler = course_.scaler->state();
  if (!course_.scaler->hopeless()) return;
  const LossScaler::State& state = course_.scaler->state();
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
       course_.updates_collected, found, where_to_go_on());
}

void Trainer::after_update(const Plan& plan) {
  const int64_t step = state_.global_step;
  const bool epoch_end = data_updates() % plan.updates_per_epoch == 0 || step == plan.max_steps;
  const bool by_steps = args_.logging_strategy == "steps" && step % state_.logging_steps == 0;
  const bool by_epochs = args_.logging_strategy == "epoch";
  course_.saved_this_step = false;
  // What is due by steps comes before the end of the epoch.  Source: transformers' Trainer.
  const bool log_first = args_.eval_strategy != "steps";
  if (by_steps || (args_.logging_first_step && step == 1) || (by_epochs && epoch_end && log_first))
    log_progress();
  const bool better = evaluate_if_due(plan, epoch_end);
  if (by_epochs && (epoch_end || course_.stopped_early))
    log_progress();  // an early stop is the end of its epoch
  save_if_due(plan, epoch_end || course_.stopped_early, better);
  if (step == plan.max_steps) collect(0);
  if (hooks_.on_step) hooks_.on_step(step, plan.max_steps, course_.last_loss);
  // Ranks stop together: what one of them was asked reaches all with the loss of an update.
  const bool stop = group() != nullptr ? course_.stop_asked : hooks_.should_stop && hooks_.should_stop();
  if (step < plan.max_steps && stop && !course_.stopped_early) {
    collect(0);
    course_.stopping = true;
    if (!args_.output_dir)
      fail(ErrorCode::kInterrupted, "interrupted after step {}; without --output_dir nothing was saved",
           step);
    // To go on takes the optimizer's state, --save_only_model or not.
    const std::string folder = course_.saved_this_step && !args_.save_only_model
                                   ? checkpoint_folder().at_step(step)
                                   : save_checkpoint(false);
    fail(ErrorCode::kInterrupted, "interrupted after step {}; its checkpoint is {}", step, folder);
  }
}

void Trainer::log_progress() {
  collect(0);
  if (run_.updates_since_log == 0) return;
  nlohmann::ordered_json entry;
  entry["loss"] = run_.loss_since_log / static_cast<double>(run_.updates_since_log);
  entry["grad_norm"] = course_.last_norm;
  entry["learning_rate"] = course_.last_learning_rate;
  run_.loss_since_log = 0;
  run_.updates_since_log = 0;
  log(std::move(entry), true);
}

bool Trainer::is_due(const Plan& plan, const std::string& strategy, int64_t every, bool epoch_end) const {
  const int64_t step = state_.global_step;
  return strategy == "epoch"
             ? epoch_end
             : strategy == "steps" && ((every > 0 && step % every == 0) || step == plan.max_steps);
}

bool Trainer::evaluate_if_due(const Plan& plan, bool epoch_end) {
  const double position =
      args_.eval_strategy == "epoch" ? state_.epoch : static_cast<double>(state_.global_step);
  if (!is_due(plan, args_.eval_strategy, state_.eval_steps, epoch_end) || position < args_.eval_delay)
    return false;
  collect(0);
  return follow_metric(evaluate(*eval_));
}

void Trainer::log(nlohmann::ordered_json entry, bool of_training) {
  share_counts();
  entry["epoch"] = state_.epoch;
  if (counts_tokens()) entry["num_input_tokens_seen"] = state_.num_input_tokens_seen;
  if (counts_tokens() && of_training) {
    nlohmann::json speed;
    add_speed(speed, "train", course_.started_at, {}, {},
              static_cast<double>(state_.num_input_tokens_seen - course_.first_tokens));
    entry.update(nlohmann::ordered_json(speed));
  }
  if (hooks_.on_log) hooks_.on_log(entry);
  entry["step"] = state_.global_step;
  state_.log_history.push_back(std::move(entry));
  if (hooks_.on_record) hooks_.on_record(state_.log_history.back());
}

void Trainer::say(LogLevel level, const std::string& text) const {
  if (hooks_.message && speaks_for_all(group(), args_.log_level_replica)) hooks_.message(level, text);
}

}  // namespace lathe
