#include "lathe/app/commands/script_run.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "lathe/app/commands/shared_cores.h"
#include "lathe/app/terminal/signals.h"
#include "lathe/core/environment.h"
#include "lathe/data/lm/text_groups.h"
#include "lathe/io/hub/hub_cache.h"
#include "lathe/io/json_file.h"
#include "lathe/report/push_to_hub.h"
#include "lathe/report/shell_text.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/log_format.h"

namespace lathe {
namespace {

/// The first words of a text, on one line.
std::string short_line(const std::string& text) {
  constexpr size_t kMost = 60;  // code points
  std::string line;
  for (const std::string_view word : split_words(text)) {
    if (!line.empty() && decode_utf8(line).size() + decode_utf8(word).size() >= kMost) break;
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return line.empty() ? "a text" : std::string(slice_code_points(line, 0, kMost));
}

int64_t trainable_parameters(const TaskModel& model) { return nn::layout_of(model).trainable; }

}  // namespace

ScriptRun::ScriptRun(Terminal& terminal, TrainingArguments& args, RunFacts facts,
                     std::shared_ptr<ProcessGroup> group, FileSystem& fs)
    : terminal_(terminal),
      args_(args),
      group_(std::move(group)),
      fs_(fs),
      words_(facts.words),
      tracked_(fs, std::move(facts)) {
  signal(SIGPIPE, SIG_IGN);  // a run goes on where nobody reads any more what it says
}

ScriptRun::~ScriptRun() {
  for (const std::string& folder : made_)  // which one with content withstands
    static_cast<void>(fs_.remove_empty_folder(folder));
}

void ScriptRun::make_output_folder() {
  const std::string& folder = *args_.output_dir;
  for (std::string at = join_path(parent_folder(folder), file_name(folder)); !fs_.exists(at);
       at = parent_folder(at))
    made_.push_back(at);
  fs_.create_directories(folder).check();
}

std::string ScriptRun::prepare_output(const std::vector<RunInput>& inputs) {
  std::string checkpoint;
  if (is_main(group_.get())) {
    checkpoint = checkpoint_to_go_on_from(inputs);
    if (args_.push_to_hub && args_.do_train)
      repository_ = make_repository(args_, hub_on(terminal_, args_.hub_token));
  }
  return text_of_main(group_.get(), checkpoint);
}

std::string ScriptRun::checkpoint_to_go_on_from(const std::vector<RunInput>& inputs) {
  const std::string& folder = *args_.output_dir;
  if (fs_.exists(folder) && !fs_.is_directory(folder))
    fail(ErrorCode::kUsage, "--output_dir: {} is a file, expected a folder", folder);
  const auto warn = [this](const std::string& text) { say(LogLevel::kWarning, text); };
  check_output_folder(fs_, args_, inputs, warn);
  check_writable(fs_, folder);
  if (args_.do_train) {
    make_output_folder();
    if (!lock_.take(folder)) {
      made_.clear();  // two have made it at once
      fail(ErrorCode::kUsage,
           "--output_dir: another process, probably a run that trains into it, holds {} (flock); wait for "
           "its end or give another folder",
           folder);
    }
  }
  const CheckpointFolder checkpoints(fs_, args_, warn);
  if (args_.do_train) static_cast<void>(checkpoints.clear_leftovers());  // the trainer tells what stays
  if (args_.resume_from_checkpoint)
    return names_checkpoint() ? *args_.resume_from_checkpoint : checkpoints.wanted_to_go_on_from();
  if (!args_.do_train || !fs_.is_directory(folder) || begins_anew()) return "";
  const std::string last = checkpoints.to_go_on_from();
  if (!last.empty()) {
    say(LogLevel::kInfo,
        fmt::format("going on from {}; to train from the beginning, give --overwrite_output_dir or "
                    "another --output_dir",
                    last));
    return last;
  }
  if (!args_.resume && !is_left_over(fs_.list(folder).value()))
    fail(ErrorCode::kUsage,
         "--output_dir: {} is not empty; give --overwrite_output_dir to write into it, or another folder",
         folder);
  return "";
}

Backend& ScriptRun::open_device() {
  const std::string kind = args_.use_cpu ? "cpu" : args_.device;
  if (group_ != nullptr) {
    const int threads = share_cores(*group_);
    if (args_.threads == 0) args_.threads = threads;
  }
  backend_ = lathe::open_device(
      kind, {static_cast<int>(args_.threads), args_.tf32.value_or(false),
             [this](const std::string& text) { terminal_.log(LogLevel::kWarning, text); }, group_});
  if (group_ != nullptr) {
    const std::string device = backend_->info().kind;
    check_ddp_backend(device);
    // Others round otherwise, and the ranks' weights would drift apart.
    check_ranks({{"device (--device)", device},
                 {"instructions (LATHE_ISA=avx2, say, makes them alike)",
                  device == "cpu" ? cpu_levels().chosen : ""}});
    // Rank 0's checkpoint names its choice for all.
    if (device != "cuda") backend_->adopt_tuning(text_of_main(group_.get(), backend_->tuning()));
  }
  terminal_.log(LogLevel::kInfo, fmt::format("device {}: {}", backend_->info().kind, backend_->info().name));
  for (const std::string& notice : precision_notices(args_, backend_->info().kind, cpu_levels().native_bf16))
    say(LogLevel::kWarning, notice);
  return *backend_;
}

void ScriptRun::check_ddp_backend(const std::string& device) const {
  if (args_.ddp_backend && (device == "cuda") != (*args_.ddp_backend == "nccl"))
    fail(ErrorCode::kUsage, "--ddp_backend {}: processes with --device {} sum gradients through {}",
         *args_.ddp_backend, device, device == "cuda" ? "nccl" : "gloo, ring or mpi");
}

TrainerHooks ScriptRun::hooks() {
  TrainerHooks hooks;
  hooks.on_log = [this](const nlohmann::ordered_json& entry) { terminal_.print(log_line(entry)); };
  hooks.on_record = [this](const nlohmann::ordered_json& entry) { tracked_.record(entry); };
  hooks.on_step = [this](int64_t step, int64_t, std::optional<double> loss) {
    terminal_.update_progress(step, loss);
    tracked_.step();
  };
  hooks.on_evaluation_step = [this](int64_t batch, int64_t batches) {
    if (batch == 0)
      terminal_.begin_progress("evaluation", batches);
    else
      terminal_.update_progress(batch);
    if (batch == batches) terminal_.end_progress();
  };
  hooks.message = terminal_.sink();
  hooks.should_stop = [] { return stop_signal() != 0; };
  return hooks;
}

void ScriptRun::carry_out(const std::function<void()>& work) {
  std::optional<StopSignals> signals;  // without a training nothing is lost where a signal ends the process
  if (args_.do_train) signals.emplace();
  try {
    work();
  } catch (const Error& error) {
    if (!args_.do_train) throw;
    tracked_.finish("interrupted");
    // A rank that has stopped leaves others waiting for it, which were asked to stop, too.
    const bool stopped =
        error.code() == ErrorCode::kInterrupted || (group_ != nullptr && group_->gone().has_value());
    if (trained_ && stopped && stop_signal() != 0) fail_behind_the_training();
    throw;
  }
  tracked_.finish("finished");
  if (!repository_.empty()) upload();
}

void ScriptRun::upload() {
  try {
    const std::string commit = push_to_hub(fs_, args_, repository_, "End of training",
                                           hub_on(terminal_, args_.hub_token, "uploaded"));
    say(LogLevel::kInfo, "uploaded to " + commit);
  } catch (const Error& error) {
    if (!goes_on_from(last_step_)) throw;
    fail(error.code(), "{}\nOr give the same command again: it trains nothing and uploads", error.what());
  }
}

bool ScriptRun::goes_on_from(int64_t step) const {
  if (begins_anew() || (args_.resume_from_checkpoint && names_checkpoint())) return false;
  const CheckpointFolder checkpoints(fs_, args_, [](const std::string&) {});
  return checkpoints.to_go_on_from() == checkpoints.at_step(step);
}

void ScriptRun::fail_behind_the_training() const {
  fail(ErrorCode::kInterrupted, "interrupted after the training; its model is in {}", output_dir());
}

bool ScriptRun::begins_anew() const {
  return args_.overwrite_output_dir && !args_.resume && !args_.resume_from_checkpoint;
}

bool ScriptRun::names_checkpoint() const {
  const std::string from = args_.resume_from_checkpoint.value_or("true");
  return from != "true" && from != "True";
}

bool ScriptRun::has_finished(Trainer& trainer, const std::string& resume_from) {
  if (resume_from.empty()) return false;
  trainer.check(resume_from, !names_checkpoint());
  if (!trainer.take_finished(resume_from)) return false;
  if (!is_main(group_.get())) return true;
  try {
    told_ = read_run_file(fs_, output_dir()).state == "finished";
  } catch (const Error&) {  // it is missing or damaged: it is written anew
  }
  if (!told_) tracked_.begin_training(trainer, *backend_, processes(), terminal_.sink());
  return true;
}

void ScriptRun::train(Trainer& trainer, const std::string& resume_from, int64_t samples) {
  const bool finished = has_finished(trainer, resume_from);
  if (finished) return after_training(trainer);
  const Trainer::Plan plan = trainer.plan(resume_from);
  const int64_t first_step = resume_from.empty() ? 0 : read_trainer_state(fs_, resume_from).global_step;
  TrainingBanner banner;
  banner.examples = samples;
  banner.epochs = plan.epochs;
  banner.update_steps_per_epoch = plan.updates_per_epoch;
  const TrainingArguments& args = trainer.arguments();
  banner.batch_size_per_device = args.per_device_train_batch_size;
  banner.gradient_accumulation_steps = args.gradient_accumulation_steps;
  banner.total_batch_size = args.per_device_train_batch_size * args.gradient_accumulation_steps * processes();
  banner.total_steps = plan.max_steps;
  banner.trainable_parameters = trainable_parameters(trainer.model());
  for (const std::string& line : banner_lines(banner)) say(LogLevel::kInfo, line);
  if (is_main(group_.get())) tracked_.begin_training(trainer, *backend_, processes(), terminal_.sink());
  terminal_.begin_progress("", plan.max_steps, first_step);
  TrainOutput output;
  try {
    output = trainer.train(resume_from);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted && is_main(group_.get()))
      fail_with_the_way_on(trainer.state().global_step);
    if (error.code() == ErrorCode::kIo && is_main(group_.get()) && (trainer.finished() || trainer.stopping()))
      save_model_alone(trainer);
    throw;
  }
  terminal_.end_progress();
  after_training(trainer);
  nlohmann::json metrics = output.metrics;
  metrics["train_samples"] = samples;
  trainer.save_model(output_dir());
  report("train", metrics, metrics);
  trainer.save_state();
  trained_ = true;
  if (stop_signal() != 0) fail_behind_the_training();  // too late for a checkpoint
}

void ScriptRun::after_training(const Trainer& trainer) {
  if (is_main(group_.get())) note_.emplace(fs_, output_dir());
  last_step_ = trainer.state().global_step;
}

void ScriptRun::fail_with_the_way_on(int64_t step) const {
  const std::string folder = join_path(output_dir(), fmt::format("checkpoint-{}", step));
  if (!fs_.is_directory(folder)) return;
  const bool of_a_file = words_.size() == 3 && words_[2].ends_with(".json");  // no flags next to it
  fail(ErrorCode::kInterrupted, "interrupted after step {}; go on with {}", step,
       of_a_file ? fmt::format("\"resume_from_checkpoint\": {} in {}",
                               python_json(nlohmann::json(folder), -1, false), words_[2])
                 : shell_text({"--resume_from_checkpoint", folder}));
}

void ScriptRun::save_model_alone(Trainer& trainer) {
  try {
    trainer.save_model_alone();
    say(LogLevel::kWarning,
        trainer.finished()
            ? fmt::format("the run failed after its last step; only the trained model is in {}", output_dir())
            : fmt::format(
                  "stopped after step {} without a checkpoint; only the model is in {}: a run can begin "
                  "with it (--model_name_or_path), but not go on",
                  trainer.state().global_step, output_dir()));
  } catch (const std::exception&) {
    // What failed before is what is told.
  }
}

void ScriptRun::bound_length(int64_t& max_seq_length, const AutoModel& model) {
  const int64_t longest = longest_text(model);
  if (max_seq_length <= longest) return;
  say(LogLevel::kWarning,
      fmt::format("--max_seq_length {} is more than the model takes; using {}", max_seq_length, longest));
  max_seq_length = longest;
}

int64_t ScriptRun::row_length(const std::optional<int64_t>& asked, const AutoModel& model) {
  const int most = model.tokenizer->model_max_length();
  const int64_t wanted = asked.value_or(0);
  if (wanted > most)
    say(LogLevel::kWarning,
        fmt::format("--max_seq_length {} is more than the tokenizer takes; using {}", wanted, most));
  int64_t length = sequence_length(static_cast<int>(wanted), most);
  if (wanted == 0) length = std::min<int64_t>(length, longest_text(model));  // nobody asked for more
  bound_length(length, model);
  return length;
}

nlohmann::json ScriptRun::evaluate(Trainer& trainer, const TokenizedDataset& data, int64_t samples) {
  for (const std::string& line : banner_lines("Evaluation", data.size(), args_.per_device_eval_batch_size))
    say(LogLevel::kInfo, line);
  if (is_main(group_.get()))  // nothing where a training began
    tracked_.begin_evaluation(trainer, *backend_, processes(), terminal_.sink());
  nlohmann::json metrics = trainer.evaluate(data);
  metrics["eval_samples"] = samples;
  return metrics;
}

void ScriptRun::report(const std::string& split, const nlohmann::json& metrics,
                       const nlohmann::json& to_write) {
  terminal_.print(metrics_block(split, metrics));
  const std::string prefix = split == "predict" ? "test" : split;  // of its metrics, as in run_qa
  if (const std::string table =
          quantization_table(prefix, metrics, name_of(evaluation_quantization(args_)), precision_name(args_));
      !table.empty())
    terminal_.print(table);
  reported_ = true;
  if (!is_main(group_.get())) return;
  write(split + "_results.json", python_json(to_write, 4));
  nlohmann::json all = nlohmann::json::object();
  const std::string path = join_path(output_dir(), "all_results.json");
  if (fs_.exists(path)) all = parse_python_json(fs_.read(path).value(), path);
  all.update(to_write);
  write("all_results.json", python_json(all, 4));
}

void ScriptRun::check_metric(std::vector<std::string> names) const {
  if (!args_.metric_for_best_model || args_.eval_strategy == "no") return;
  if (args_.prediction_loss_only)
    std::erase_if(names, [](const std::string& name) { return name != "loss"; });
  std::string wanted = *args_.metric_for_best_model;
  if (wanted.starts_with("eval_")) wanted = wanted.substr(5);
  if (is_speed_key("eval_" + wanted) || std::find(names.begin(), names.end(), wanted) != names.end()) return;
  if (names.empty())
    fail(ErrorCode::kUsage,
         "--metric_for_best_model: found {}, but the validation data give no metric to follow",
         *args_.metric_for_best_model);
  fail(ErrorCode::kUsage, "--metric_for_best_model: found {}{}, expected one of {}",
       *args_.metric_for_best_model, wanted == "loss" ? " (as where none is given)" : "",
       fmt::join(names, ", "));
}

void ScriptRun::write_card(const Trainer& trainer, CardFacts facts) {
  if (told_ && fs_.exists(join_path(output_dir(), "README.md"))) return;
  facts.on_hub = !facts.base_model.empty() && !fs_.is_directory(expand_home(facts.base_model));
  facts.adapter = trainer.auto_model().adapter != nullptr;
  write("README.md", model_card(facts, trainer.arguments(), trainer.state(), processes()));
}

void ScriptRun::write(const std::string& name, const std::string& content) {
  if (is_main(group_.get())) fs_.write_atomic(join_path(output_dir(), name), content).check();
}

void ScriptRun::write_predictions(const std::string& name, const std::string& content) {
  write(name, content);
  predictions_.push_back(name);
}

void ScriptRun::say_results(const std::string& example, const char* command) {
  const auto at = [this](const std::string& name) { return join_path(output_dir(), name); };
  if (args_.do_train) say(LogLevel::kInfo, "model: " + output_dir());
  if (reported_) say(LogLevel::kInfo, "metrics: " + at("all_results.json"));
  for (const std::string& name : predictions_) say(LogLevel::kInfo, "predictions: " + at(name));
  if (wants_findings() && fs_.exists(at(tracked_.page())))
    say(LogLevel::kInfo, "report: " + at(tracked_.page()));
  if (args_.do_train && command != nullptr)
    say(LogLevel::kInfo, fmt::format("next: lathe {} {} {}", command, shell_text({output_dir()}), example));
}

std::string example_of(const TextDataset& data) {
  constexpr size_t kRows = 20;  // of which one is easier to read if it needs no quotes
  std::string example;
  for (size_t row = 0; row < std::min(data.size(), kRows); ++row) {
    std::vector<std::string> words = {short_line(data.first[row])};
    if (data.has_pairs()) words.push_back(short_line(data.second[row]));
    const bool plain = std::ranges::none_of(
        words, [](const std::string& word) { return word.find_first_of("'\\\"`") != std::string::npos; });
    if (plain || example.empty()) example = shell_text(words);
    if (plain) break;
  }
  return example;
}

Terminal quiet_terminal(const TrainingArguments& args) {
  TerminalPort port = standard_port();
  port.out = [](std::string_view) {};
  return Terminal(log_level_from(args.log_level_replica), false, std::move(port));
}

AutoModel load_model(const ModelFolders& folders, const HeadOptions& head, const AdapterArguments& args,
                     const std::string& name) {
  AutoModel model = from_pretrained(real_file_system(), folders, head);
  if (model.adapter) {
    const AdapterArguments none;
    const nn::AdapterOptions& there = model.adapter->options;
    const auto check = [&](const char* flag, auto given, auto usual, auto found) {
      if (given != usual && given != found)
        fail(ErrorCode::kUsage, "--{}: found {}, but the adapter {} has {}, which holds: leave the flag out",
             flag, given, name, found);
    };
    check("lora_r", args.lora_r, none.lora_r, there.rank);
    check("lora_alpha", static_cast<double>(args.lora_alpha), static_cast<double>(none.lora_alpha),
          there.alpha);
    check("lora_dropout", args.lora_dropout, none.lora_dropout, there.dropout);
    check("use_rslora", args.use_rslora, none.use_rslora, there.rslora);
    if (args.lora_target_modules || args.lora_modules_to_save)
      fail(ErrorCode::kUsage,
           "--lora_target_modules, --lora_modules_to_save: the adapter {} says itself which: leave them out",
           name);
    return model;
  }
  if (!args.use_peft) return model;
  Adapter adapter{.base = name};
  if (const std::string folder = expand_home(name); real_file_system().is_directory(folder))
    adapter.base = std::filesystem::absolute(folder).lexically_normal().string();
  adapter.options = {.rank = args.lora_r,
                     .alpha = static_cast<double>(args.lora_alpha),
                     .dropout = args.lora_dropout,
                     .rslora = args.use_rslora,
                     .targets = args.lora_target_modules.value_or(std::vector<std::string>()),
                     .modules_to_save = args.lora_modules_to_save.value_or(std::vector<std::string>())};
  add_adapter(model, std::move(adapter), true);
  return model;
}

void say_load_report(ScriptRun& run, const Trainer& trainer, const AutoModel& model) {
  const std::string text = to_string(trainer.load_report(), *model.model, model.folder);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    run.say(LogLevel::kWarning, text.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace lathe
