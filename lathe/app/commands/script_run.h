#pragma once
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lathe/app/commands/commands.h"
#include "lathe/app/output_folder.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/backends/register.h"
#include "lathe/data/dataset.h"
#include "lathe/engine/ranks.h"
#include "lathe/io/folder_lock.h"
#include "lathe/io/leftovers.h"
#include "lathe/report/model_card.h"
#include "lathe/report/tracked_run.h"
#include "lathe/text/python_format.h"
#include "lathe/train/adapter/adapter_model.h"
#include "lathe/train/trainer.h"

namespace lathe {

/// What run_glue and run_qa have in common: the output folder, the device, the display while a trainer runs,
/// and the result files.
class ScriptRun {
 public:
  /// group: the processes that train together, of which only rank 0 touches the output folder; null: there is
  /// only this process. facts: command and settings.  `args` (validated) and `terminal` must outlive it.
  /// From the construction on, a write to a pipe without a reader fails instead of ending the process.
  ScriptRun(Terminal& terminal, TrainingArguments& args, RunFacts facts,
            std::shared_ptr<ProcessGroup> group = {}, FileSystem& fs = real_file_system());
  /// Removes the folders that prepare_output made, if they are empty.
  ~ScriptRun();

  /// Checks that the output folder can be used (inputs: as check_output_folder takes them), keeps other runs
  /// from training into it and finds the checkpoint to continue from (empty: none).  It follows transformers
  /// 4: a folder with content is an error without --overwrite_output_dir, unless it holds checkpoints; then
  /// the run continues from them.  Errors: kUsage, kIo.
  std::string prepare_output(const std::vector<RunInput>& inputs = {});

  /// Opens the device that the arguments ask for and says what the precision flags mean on it.  Ranks that
  /// would use the same cores divide them.
  Backend& open_device();

  /// The Hub, shown on the terminal.
  HubSettings hub(const std::optional<std::string>& token) { return hub_on(terminal_, token); }

  /// Messages, log lines, progress bars and stop signals.
  TrainerHooks hooks();

  /// Does all the work of a run once its trainer exists.  In a training, a stop or an error after the
  /// training is also noted in run.json, and the results of the training stay.  At the end, with
  /// --push_to_hub, the output folder is uploaded.  Errors: those of `work` and push_to_hub; kInterrupted.
  void carry_out(const std::function<void()>& work);

  /// Within carry_out: trains, saves the model and writes run.json, train_results.json, all_results.json and
  /// trainer_state.json. samples: of the training set.  A run that has done all that before only takes its
  /// model.  Errors: the trainer's; kInterrupted says how to continue.
  void train(Trainer& trainer, const std::string& resume_from, int64_t samples);
  /// Where own training data have their texts; before `train`.
  void learns_from(const std::vector<std::string>& text_columns, bool pairs) {
    tracked_.learns_from(text_columns, pairs);
  }
  /// Metrics of a data set, for `report`. samples: its rows as the user counts them.
  nlohmann::json evaluate(Trainer& trainer, const TokenizedDataset& data, int64_t samples);
  /// Reduces it, with a message, to what the model takes if it is more.
  void bound_length(int64_t& max_seq_length, const AutoModel& model);
  /// Tokens of a row: as many as are asked for, else 1,024; never more than tokenizer and model take, which
  /// it says where somebody asked for more.  Source: run_mlm.py and run_swag.py.
  int64_t row_length(const std::optional<int64_t>& asked, const AutoModel& model);
  /// Prints "***** eval metrics *****" and merges the metrics into <split>_results.json and all_results.json.
  void report(const std::string& split, const nlohmann::json& metrics, const nlohmann::json& to_write);
  /// Compares, over several ranks, what they have read and what the trainer does not compare.  Errors:
  /// kUsage.
  void check_ranks(const nlohmann::json& facts) const { check_alike(group_.get(), facts); }
  /// Refuses a --metric_for_best_model that no evaluation will have. names: of the metrics, without those for
  /// speed; the loss first if there is one.  Errors: kUsage.
  void check_metric(std::vector<std::string> names) const;
  /// Whether the findings of an evaluation are used.
  bool wants_findings() const { return is_main(group_.get()) && reports_to(args_, "html"); }
  void show(const Findings& findings) { tracked_.show(findings); }
  /// Writes the model card, README.md, unless a run has one that trained before.
  void write_card(const Trainer& trainer, CardFacts facts);
  /// Writes a file into the output folder.
  void write(const std::string& name, const std::string& content);
  /// The same for one with predictions, which say_results names.
  void write_predictions(const std::string& name, const std::string& content);
  /// At the end: says where model, metrics, predictions and page are and, after a training, what to do next:
  /// `lathe predict MODEL` and `example`, in the shell's words; `command` in place of predict, null: nothing.
  void say_results(const std::string& example, const char* command = "predict");

  const std::string& output_dir() const { return *args_.output_dir; }
  /// Whether this rank says what is the same for all.
  bool speaks() const { return speaks_for_all(group_.get(), args_.log_level_replica); }
  /// Reports what is the same for all ranks.
  void say(LogLevel level, const std::string& text) {
    if (speaks()) terminal_.log(level, text);
  }

 private:
  std::string checkpoint_to_go_on_from(const std::vector<RunInput>& inputs);
  /// Whether --overwrite_output_dir counts, and no flag asks for a checkpoint.
  bool begins_anew() const;
  /// Whether --resume_from_checkpoint names a checkpoint, and not just that of output_dir.
  bool names_checkpoint() const;
  /// Checks the checkpoint.  True: its run has ended, and its model and state are taken.
  bool has_finished(Trainer& trainer, const std::string& resume_from);
  void make_output_folder();
  void after_training(const Trainer& trainer);
  /// Of rank 0.  Errors: those of push_to_hub, with the same command as a way if it trains no more.
  void upload();
  /// Whether the same command would go on from the checkpoint of this step.
  bool goes_on_from(int64_t step) const;
  [[noreturn]] void fail_behind_the_training() const;
  /// Throws kInterrupted and, if the checkpoint of that step exists, says how to continue.
  void fail_with_the_way_on(int64_t step) const;
  /// Tries to save the model after the last checkpoint failed.  Usually the disk is full, and the model is
  /// smaller.
  void save_model_alone(Trainer& trainer);
  int processes() const { return group_ == nullptr ? 1 : group_->size(); }
  void check_ddp_backend(const std::string& device) const;

  Terminal& terminal_;
  TrainingArguments& args_;
  std::shared_ptr<ProcessGroup> group_;
  FileSystem& fs_;
  FolderLock lock_;                    // of the output folder, during training into it
  std::vector<std::string> made_;      // the output folder and its parents, the deepest first
  std::optional<LeftoversNote> note_;  // in it, for what is written after the training
  bool trained_ = false, reported_ = false;
  bool told_ = false;  // a run that had ended before: its run.json, card and page are those of its end
  std::vector<std::string> predictions_;  // names of their files
  std::string repository_;                // of --push_to_hub, on rank 0
  int64_t last_step_ = 0;                 // of the training
  std::unique_ptr<Backend> backend_;
  std::vector<std::string> words_;  // of the command
  TrackedRun tracked_;
};

/// The folders of weights, configuration and tokenizer that a script names, downloaded if necessary; empty
/// where it names none.
template <typename Script>
ModelFolders fetch_folders(const Script& script, const HubSettings& hub) {
  const auto fetch = [&](const std::string& name, const ModelNeed& need) {
    return fetch_model(real_file_system(), name, script.model_revision, script.cache_dir.value_or(""), need,
                       hub);
  };
  const ModelNeed need{true, !script.tokenizer_name};
  ModelFolders folders;
  if (const std::optional<std::string> name = script.model_name_or_path)
    folders = folders_of(real_file_system(), fetch(*name, need),
                         [&](const std::string& base) { return fetch(base, need); });
  if (script.config_name) folders.config = fetch(*script.config_name, {false, false});
  if (script.tokenizer_name) folders.tokenizer = fetch(*script.tokenizer_name, {false, true});
  folders.config_overrides = script.config_overrides.value_or("");
  return folders;
}

/// from_pretrained, with a new adapter if --use_peft asks for one.  name: how the user calls the model.
/// Errors: also those of add_adapter; kUsage for settings that are not those of an adapter that is there.
AutoModel load_model(const ModelFolders& folders, const HeadOptions& head, const AdapterArguments& args,
                     const std::string& name);

/// Reports weights that were missing or not used, one line each, as a warning or information.
void say_load_report(ScriptRun& run, const Trainer& trainer, const AutoModel& model);

/// One of the first samples of a data set as words of the shell for say_results, cut to some words.
std::string example_of(const TextDataset& data);

/// The terminal of ranks other than the first: warnings and errors (--log_level_replica), nothing on stdout.
Terminal quiet_terminal(const TrainingArguments& args);

/// Command and settings of `lathe <command> <args…>`.
template <typename Line>
RunFacts facts_of(const std::string& command, const std::vector<std::string>& args, Line& line) {
  RunFacts facts{.words = {"lathe", command}, .settings = line.config()};
  const std::vector<std::string> words = without_secrets(line.fields(), args);
  facts.words.insert(facts.words.end(), words.begin(), words.end());
  return facts;
}

/// All of a script's command: its help, its settings with --print_config, or Job(terminal, line, facts,
/// group).run().  Errors: kUsage.
template <typename Job, typename Script>
int run_script(const Command& command, const std::vector<std::string>& args) {
  auto line = parse_command_line<Script>(args);
  if (line.help) {
    standard_port().out(line.help_all ? help_text(command) : first_help_text(command));
    return 0;
  }
  if (line.training.print_config) {
    standard_port().out(python_json(line.config(), 2) + "\n");
    return 0;
  }
  const std::string transport = line.training.ddp_backend.value_or("nccl");
  const auto group =
      join_processes(transport == "nccl" ? "" : transport, static_cast<double>(line.training.ddp_timeout),
                     [](const std::string& notice) { print_error("warning: " + notice + "\n"); });
  check_alike(group.get(), common_flags(line.config()));
  Terminal terminal = is_main(group.get()) ? Terminal(line.training) : quiet_terminal(line.training);
  if (speaks_for_all(group.get(), line.training.log_level_replica))
    for (const std::string& notice : line.notices) terminal.log(LogLevel::kWarning, notice);
  const int code = Job(terminal, line, facts_of(command.name, args, line), group).run();
  // A rank that ends closes connections that others may still read from.  A rank that fails here has done its
  // work.
  if (group != nullptr) static_cast<void>(group->barrier());
  return code;
}

/// script: "run_glue"; empty: there is none.
template <typename Job, typename Script>
Command script_command(const std::string& name, const std::string& script, const std::string& summary,
                       const std::string& example) {
  Command command{{.name = name,
                   .summary = script.empty() ? summary : fmt::format("{}, as {}.py", summary, script),
                   .words = Words::kScript,
                   .example = example}};
  command.script = script;
  command.sections = {help_section<Script>("model and data"), help_section<TrainingArguments>("training")};
  command.run = [command](const auto& args) { return run_script<Job, Script>(command, args); };
  return command;
}

}  // namespace lathe
