#include "lathe/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/engine/ranks.h"
#include "lathe/io/json_file.h"
#include "lathe/tasks/check_dataset.h"
#include "lathe/text/python_format.h"
#include "lathe/train/evaluator.h"
#include "lathe/train/log_format.h"
#include "lathe/train/rank_agreement.h"
#include "lathe/train/resume.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/run_log.h"
#include "lathe/train/run_memory.h"
#include "lathe/train/trainer_arguments.h"
#include "lathe/train/training_loop.h"

namespace lathe {

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
  const auto check_data = [&](const TokenizedDataset* data, const char* what) {
    if (data != nullptr) check_dataset(*data, model_.model->task(), what);
  };
  check_trainer_arguments(args_, backend_, model_.model->task(), train_ != nullptr, eval_ != nullptr);
  check_data(train_, "training data");
  check_data(eval_, "evaluation data");
  log_ = std::make_unique<RunLog>(args_, hooks_, *model_.model, group(), progress_.state);
  const MemoryMetrics memory(log_->memory_stage("init"), backend_);
  if (args_.freeze_base_model) {
    model_.model->set_trainable(model_.model->base_prefix(), false);
    const auto trains = [](const nn::Parameter& p) { return p.trainable; };
    if (train_ != nullptr && std::ranges::none_of(model_.model->parameters(), trains))
      fail(
          ErrorCode::kUsage,
          "--freeze_base_model: found a model that is all base, of which nothing is left to train; leave the "
          "flag out");
  }
  session_ = std::make_unique<Session>(backend_, *model_.model, session_options(args_, model_));
  checkpoints_ = std::make_unique<RunCheckpoints>(fs_, args_, model_, *session_, log_->sink());
  evaluator_ = std::make_unique<Evaluator>(*session_, args_, eval_, hooks_, *log_);
  using Rows = ProgramCache::Rows;
  if (train_ != nullptr) session_->programs().expect_rows(Rows::kTrained, train_->longest());
  if (eval_ != nullptr) session_->programs().expect_rows(Rows::kEvaluated, eval_->longest());
  Checksum loaded;
  const bool identifies = train_ != nullptr && args_.output_dir && model_.checkpoint;
  load_report_ = initialize(session_->parameters(), model_, static_cast<uint64_t>(args_.seed),
                            identifies ? &loaded : nullptr);
  if (identifies) loaded_weights_ = "weights with " + loaded.text();
  check_same_run(*session_, model_, args_, train_, eval_);
  if (args_.auto_find_batch_size && train_ != nullptr)
    find_batch_size(*session_, args_, *train_, log_->sink(), hooks_.masks.get());
  log_->keep_memory_of_start(memory);
}

Trainer::~Trainer() = default;

Trainer::Plan Trainer::plan() const { return plan_of(args_, train_, model_.model->task(), group()); }

Trainer::Plan Trainer::plan(const std::string& resume_from) {
  if (args_.auto_find_batch_size && !resume_from.empty())
    take_batch_size(args_, read_trainer_state(fs_, resume_from).train_batch_size, resume_from, log_->sink());
  return plan();
}

TrainOutput Trainer::train(const std::string& resume_from) {
  progress_ = {};
  loop_.reset();
  log_->begin();
  const MemoryMetrics memory(log_->memory_stage("train"), backend_);
  const RunCheckpoints::Training kept(*checkpoints_);
  const Plan plan = begin(resume_from);
  auto base = keep_base_outputs(plan);
  {
    const RunLog::Training training(*log_);
    check_same_place(*session_, plan, state().global_step);
    if (model_.model->base_frozen()) reserve_memory(plan, base != nullptr);
    checkpoints_->make_way(plan, state(), resume_from);
    run_updates(base.get());
  }
  base.reset();
  TrainOutput done = output(plan, memory);
  if (args_.load_best_model_at_end) {
    if (is_main(group()))
      checkpoints_->load_best(state());  // others may not see what it has written, or not yet
    take_weights_of_main(*session_);
  }
  if (args_.save_strategy != "no" && checkpoints_->keeps()) {
    checkpoints_->folder().rotate(state().best_model_checkpoint);
    checkpoints_->folder().keep_best(state().best_model_checkpoint);
  }
  return done;
}

Trainer::Plan Trainer::begin(const std::string& resume_from) {
  const bool resumes = !resume_from.empty();
  if (group() != nullptr) group()->barrier().check();  // other ranks read what this one renames
  if (resumes && (!checked_ || checked_->checkpoint != resume_from)) check(resume_from);
  const Checked checked = std::exchange(checked_, std::nullopt).value_or(Checked{});
  const Plan plan = this->plan(resume_from);
  if (!resumes) session_->parameters().clear_states();  // a call of train before may have left some
  // Before states are read.  The runs of a frozen base are known only once its weights are.
  if (!model_.model->base_frozen()) reserve_memory(plan, false);
  const RunState here = facts(plan);
  if (resumes)
    go_on_from({fs_, resume_from, args_, plan, checked.found}, model_, *session_, here, checked.whole,
               progress_, log_->sink());
  auto& [state, run] = progress_;
  state.max_steps = plan.max_steps;
  state.num_train_epochs = plan.epochs;
  state.train_batch_size = args_.per_device_train_batch_size;
  state.logging_steps = interval_steps(args_.logging_steps, plan.max_steps);
  if (args_.eval_steps) state.eval_steps = interval_steps(*args_.eval_steps, plan.max_steps);
  state.save_steps = interval_steps(args_.save_steps, plan.max_steps);
  run.updates_per_epoch = here.updates_per_epoch;
  run.data_seed = here.data_seed;
  run.seed = here.seed;
  const RunIdentity began = std::exchange(run.identity, here.identity);
  if (resumes && is_of_its_run(model_.folder, resume_from))
    run.identity.model = began.model, run.identity.model_name = began.model_name;
  loop_ = std::make_unique<TrainingLoop>(*session_, args_, *train_, plan, hooks_, progress_, *checkpoints_,
                                         *evaluator_, *log_);
  if (resumes && is_over(state, args_, plan))
    log_->say(LogLevel::kWarning, fmt::format("{}: {}", resume_from, over_text(plan)));
  return plan;
}

void Trainer::check(const std::string& resume_from, bool found) {
  const bool whole = check_checkpoint(fs_, resume_from, group(), log_->sink());
  const Plan plan = this->plan(resume_from);
  check_place(fs_, resume_from, plan, group());
  check_identity({fs_, resume_from, args_, plan, found}, model_, *session_, identity(), log_->sink());
  checked_ = {resume_from, whole, found};
}

bool Trainer::take_finished(const std::string& resume_from) {
  const Plan plan = this->plan(resume_from);
  const Resumption resumption{fs_, resume_from, args_, plan,
                              checked_ && checked_->checkpoint == resume_from && checked_->found};
  const auto found = is_main(group()) ? finished_state(resumption) : std::nullopt;
  const std::string text = text_of_main(group(), found ? to_json_text(*found) : "");
  if (text.empty()) return false;
  progress_ = {.state = trainer_state_from(parse_python_json(text, kTrainerStateFile), kTrainerStateFile),
               .run = read_run(fs_, resume_from, read_trainer_state(fs_, resume_from)).value_or(RunState())};
  take_masks(progress_.run, hooks_, group());
  if (is_main(group())) checkpoints_->load(*args_.output_dir);
  take_weights_of_main(*session_);
  adopt_tuning(fs_, resume_from, *session_);
  log_->say(LogLevel::kInfo, fmt::format("{}: {}", *args_.output_dir, over_text(plan)));
  say_changes({fs_, *args_.output_dir, args_, plan}, progress_, {}, log_->sink());  // whose model this is
  return true;
}

std::string Trainer::over_text(const Plan& plan) const {
  const int64_t step = state().global_step;
  if (step < plan.max_steps)
    return fmt::format("stopped early after step {}; a larger --early_stopping_patience than {} goes on",
                       step, args_.early_stopping_patience.value_or(0));
  return fmt::format(
      "already finished at step {}; nothing to train. More --num_train_epochs or --max_steps go on", step);
}

RunIdentity Trainer::identity() const {
  return {.model = loaded_weights_,
          .data = summary({train_, 1}),
          .model_name = names_.model.empty() ? model_.folder : names_.model,
          .data_name = names_.data};
}

RunState Trainer::facts(const Plan& plan) const {
  RunState run;
  run.updates_per_epoch = plan.updates_per_epoch;
  run.data_seed = training_order(args_, *train_, group()).seed;
  run.seed = static_cast<uint64_t>(args_.seed);
  run.identity = identity();
  return run;
}

void Trainer::reserve_memory(const Plan& plan, bool base_kept) {
  std::vector<Work> work;
  if (!base_kept) work = update_work(*session_, args_, *train_, plan, hooks_.masks.get());
  if (const auto evaluation = evaluator_->work_in_training()) work.push_back(*evaluation);
  const auto free =
      session_->programs().free_share();  // also where only another rank has something to reserve
  if (!work.empty()) session_->programs().reserve(work, free);
}

/// HF keeps dropout on in a frozen base; the output then differs in every epoch.  Evaluation has no dropout.
/// Of tokens that are scored, masks change each time.
std::unique_ptr<BaseCache> Trainer::keep_base_outputs(const Plan& plan) {
  evaluator_->keep_base(nullptr);
  if (!keep_base_output_ || !model_.model->base_frozen() || model_.model->per_scored()) return nullptr;
  std::unique_ptr<BaseCache> base;
  const double dropout = model_.model->base_dropout();
  if (plan.epochs > 1 && dropout > 0)
    log_->say(
        LogLevel::kInfo,
        fmt::format("The base runs every epoch: its dropout is {}. With hidden_dropout_prob and "
                    "attention_probs_dropout_prob 0 in config.json it runs once and its output is kept.",
                    python_repr(dropout)));
  else if (plan.epochs > 1)
    base = keep_base_output_of(*session_, *train_, "epoch", log_->sink());
  if (eval_ != nullptr && args_.eval_strategy != "no")
    evaluator_->keep_base(keep_base_output_of(*session_, *eval_, "evaluation", log_->sink()));
  return base;
}

void Trainer::run_updates(BaseCache* base) {
  try {
    loop_->run(base);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIo || group() == nullptr || !group()->gone()) throw;
    throw Error(error.code(), fmt::format("{}. {}", error.what(), checkpoints_->where_to_go_on()));
  }
}

TrainOutput Trainer::output(const Plan& plan, const MemoryMetrics& memory) {
  const auto& [state, run] = progress_;
  if (args_.fp16 && run.skipped_updates > 0)
    log_->say(
        LogLevel::kInfo,
        fmt::format("fp16: {} of {} updates were left out because a gradient overflowed; the loss scale "
                    "is {}",
                    run.skipped_updates, state.global_step, run.loss_scaler.scale));
  TrainOutput output;
  output.global_step = state.global_step;
  output.training_loss = run.total_loss / static_cast<double>(std::max<int64_t>(1, run.loss_updates));
  const double samples = args_.max_steps > 0
                             ? static_cast<double>(args_.max_steps) *
                                   static_cast<double>(args_.per_device_train_batch_size *
                                                       args_.gradient_accumulation_steps * session_->ranks())
                             : static_cast<double>(train_->size()) * args_.num_train_epochs;
  const double steps = static_cast<double>(state.global_step - loop_->first_step());
  add_speed(output.metrics, "train", log_->started_at(),
            samples * steps / static_cast<double>(std::max<int64_t>(1, plan.max_steps)), steps);
  log_->add_memory(memory, output.metrics);
  log_->share_counts();
  output.metrics["total_flos"] = state.total_flos;
  output.metrics["train_loss"] = output.training_loss;
  log_->add_place(output.metrics);
  log_->write(nlohmann::ordered_json(output.metrics));
  return output;
}

nlohmann::json Trainer::evaluate(const TokenizedDataset& data, const std::string& prefix) {
  return evaluator_->evaluate(data, prefix);
}

nlohmann::json Trainer::test(const TokenizedDataset& data, const std::string& prefix,
                             Predictions* predictions) {
  return evaluator_->measure(data, prefix, predictions);
}

Predictions Trainer::predict(const TokenizedDataset& data) { return evaluator_->predict(data); }

Predictions Trainer::predict(const TokenizedDataset& data, nn::Quantization quantization) {
  return evaluator_->predict(data, quantization);
}

void Trainer::warn_of_unpredicted(int64_t count, int64_t samples) const {
  evaluator_->warn_of_unpredicted(count, samples);
}

std::string Trainer::compare(const Predictions& quantized, const Predictions& other) const {
  return evaluator_->compare(quantized, other);
}

void Trainer::save_model(const std::string& folder) { checkpoints_->save_model(folder); }

void Trainer::save_model_alone() {
  // If the last step is the best, its checkpoint is the one that failed, and its weights are here.
  if (finished() && args_.load_best_model_at_end && state().best_global_step != state().global_step)
    checkpoints_->load_best(state());
  save_model(args_.output_dir.value_or(""));
}

void Trainer::save_state() {
  if (!is_main(group())) return;
  fs_.write_atomic(join_path(args_.output_dir.value_or("."), kTrainerStateFile), to_json_text(state()))
      .check();
}

bool Trainer::finished() const { return loop_ != nullptr && loop_->finished(); }
bool Trainer::stopping() const { return loop_ != nullptr && loop_->stopping(); }
int64_t Trainer::trained_tokens() const { return log_->trained_tokens(); }
double Trainer::evaluation_seconds() const { return evaluator_->seconds(); }
void Trainer::pad_to(int length) { log_->pad_to(length); }

}  // namespace lathe
