#include "lathe/train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/io/directory_transaction.h"
#include "lathe/io/json_file.h"
#include "lathe/io/safetensors.h"
#include "lathe/io/torch/pickle_writer.h"
#include "lathe/io/torch/torch_file.h"
#include "lathe/settings/metric_schedule.h"
#include "lathe/text/python_format.h"
#include "lathe/train/adapter/adapter_model.h"
#include "lathe/train/python/python_rng.h"
#include "lathe/train/python/saved_arguments.h"
#include "lathe/train/sentence/saved_sentence.h"
#include "lathe/train/whole_checkpoint.h"

namespace lathe {
namespace {

/// Names and shapes of the trainable parameters in the order of the flat arenas, to which moments belong.
std::string layout_text(const TaskModel& model) {
  std::string text;
  for (bool decay : {true, false})
    for (const nn::Parameter& p : model.parameters())
      if (p.trainable && p.decay == decay) text += p.name + to_string(p.shape) + "\n";
  return text;
}

/// What the file of the weights holds, and in which order.
std::pair<std::vector<std::string>, TensorSources> saved_tensors(const AutoModel& model,
                                                                 const Parameters& parameters) {
  std::vector<std::string> names;
  TensorSources tensors;
  const auto add = [&](const std::string& name, TensorSource source) {
    names.push_back(name);
    tensors[name] = std::move(source);
  };
  const bool of_transformer = gives_vectors(model);
  const auto& all = model.model->parameters();
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = of_transformer ? name_in_transformer(*model.model, all[i].name) : all[i].name;
    if (name.empty()) continue;
    add(name, {DType::f32, all[i].shape, [&parameters, i](size_t begin, std::span<std::byte> out) {
                 return parameters.read(static_cast<int>(i), begin, out);
               }});
  }
  if (!of_transformer) return {std::move(names), std::move(tensors)};
  for (const auto& unused : unused_tensors(model))
    add(unused.first, {unused.second->dtype, unused.second->shape,
                       [view = unused.second](size_t begin, std::span<std::byte> out) {
                         std::copy_n(view->bytes.begin() + static_cast<ptrdiff_t>(begin), out.size(),
                                     out.begin());
                         return Status();
                       }});
  return {std::move(names), std::move(tensors)};
}

Status write_weights(FileSystem& fs, const std::string& folder, const AutoModel& model,
                     const Parameters& parameters, bool safetensors) {
  if (model.adapter) return write_adapter(fs, folder, model, parameters);
  for (const char* name : {kAdapterConfigFile, kAdapterFile})  // every reader would take that
    if (const std::string path = join_path(folder, name); fs.exists(path))
      if (const Status status = fs.remove_all(path); !status.ok()) return status;
  const auto [names, tensors] = saved_tensors(model, parameters);
  const std::string path = join_path(folder, "model.safetensors"),
                    bin = join_path(folder, "pytorch_model.bin");
  if (safetensors) {
    const Status status = write_safetensors(fs, path, tensors);
    return status.ok() && !fs.is_directory(bin) ? fs.remove_all(bin) : status;
  }
  PickleBuilder builder;
  std::vector<std::pair<std::string, PickleBuilder::Ref>> items;
  for (const std::string& name : names) items.emplace_back(name, builder.tensor(tensors.at(name)));
  const Status status = write_torch_file(fs, bin, *builder.dict(items));
  return status.ok() && !fs.is_directory(path) ? fs.remove_all(path)
                                               : status;  // every reader would take that one
}

Status write_run_state(FileSystem& fs, const std::string& folder, const CheckpointContent& content,
                       const FileDigests& others) {
  const RunState& run = content.run;
  nlohmann::json state = {{"global_step", content.state.global_step},
                          {"total_loss", run.total_loss},
                          {"loss_updates", run.loss_updates},
                          {"loss_since_log", run.loss_since_log},
                          {"updates_since_log", run.updates_since_log},
                          {"updates_per_epoch", run.updates_per_epoch},
                          {"data_seed", run.data_seed},
                          {"seed", run.seed},
                          {"training_data", run.identity.data},
                          {"training_data_name", run.identity.data_name},
                          {"model", run.identity.model},
                          {"model_name", run.identity.model_name},
                          {"skipped_updates", run.skipped_updates},
                          {"loss_scale", run.loss_scaler.scale},
                          {"loss_scale_growth_tracker", run.loss_scaler.growth_tracker},
                          {"loss_scale_bad_losses", run.loss_scaler.bad_losses},
                          {"metric_schedule", run.metric_schedule},
                          {"losses", run.losses.to_json()}};
  if (!run.masks.empty()) state["masks"] = run.masks;
  return write_safetensors(
      fs, join_path(folder, kStateFile), TensorMap(),
      sealed({{"format", "lathe"},
              {"optimizer", content.session.parameters().optimizer()},
              {"format_version", std::to_string(content.model.adapter ? kAdapterFormat : kCheckpointFormat)},
              {"layout", layout_text(*content.model.model)},
              {"state", python_json(state, -1)},
              {"tuning", content.session.backend().tuning()}},
             others));
}

/// The place and the settings of a schedule that reads metrics; null for others.
nlohmann::json python_schedule(const TrainingArguments& args, const RunState& run) {
  if (!MetricSchedule::is(args.lr_scheduler_type)) return {};
  MetricSchedule schedule(args.lr_scheduler_type, args.learning_rate, args.lr_scheduler_kwargs);
  if (!run.metric_schedule.is_null()) schedule.restore(run.metric_schedule);
  return schedule.python_state();
}

/// optimizer.pt, scheduler.pt and, with fp16, scaler.pt.
Status write_optimizer_files(FileSystem& fs, const std::string& folder, const CheckpointContent& content) {
  const auto scaler = content.fp16 ? std::optional(content.run.loss_scaler) : std::nullopt;
  OptimizerProgress progress = content.optimizer;
  const OptimizerOptions options = optimizer_of(content.args);
  progress.adamw.weight_decay = content.args.weight_decay;
  if (const auto* adamw = std::get_if<AdamWOptions>(&options)) progress.adamw = *adamw;
  if (const auto* sgd = std::get_if<SgdOptions>(&options)) progress.sgd = *sgd;
  progress.metric_schedule = python_schedule(content.args, content.run);
  return write_python_state(fs, folder, content.session.parameters(), progress, scaler);
}

constexpr uint64_t kBlocks = 64 << 10;      // the disk gives whole blocks, and the folder takes some
constexpr uint64_t kSmallFiles = 64 << 10;  // of Python
constexpr uint64_t kLossPoint = 48;         // as text, ample

/// The bytes of a model's files, with the optimizer's or without.
uint64_t model_bytes(const AutoModel& model, const Parameters& parameters, bool with_optimizer) {
  uint64_t bytes = 0;
  for (const nn::Parameter& p : model.model->parameters())
    if (p.trainable || !model.adapter) bytes += bytes_of({DType::f32, p.shape});
  for (const OptimizerState& state : parameters.optimizer_states())
    if (with_optimizer) bytes += static_cast<uint64_t>(state.size) * sizeof(float);
  bytes += model.model->parameters().size() * 2048;  // names and shapes in all headers, ample
  for (const auto& [name, content] : model_files(model)) bytes += content.size();
  return bytes + kBlocks;
}

Status check_space(FileSystem& fs, const std::string& folder, uint64_t wanted, const char* way_out) {
  constexpr double kMega = 1 << 20;
  Result<uint64_t> free = fs.free_bytes(folder);
  if (!free.ok() || free.value() >= wanted) return {};  // if the disk does not tell, just try
  return {
      ErrorCode::kIo,
      fmt::format("{}: found {:.1f} MB free on the disk, needs {:.1f} MB to save; {}. Checkpoints written "
                  "before are whole.",
                  folder, static_cast<double>(free.value()) / kMega, static_cast<double>(wanted) / kMega,
                  way_out)};
}

Status write_model_files(FileSystem& fs, const std::string& folder, const AutoModel& model,
                         const Parameters& parameters, bool safetensors) {
  // The weights come first: a full disk has no room for them.
  Status status = write_weights(fs, folder, model, parameters, safetensors);
  if (status.ok() && gives_vectors(model)) status = write_modules(fs, folder, model, parameters);
  for (const auto& [name, content] : model_files(model))
    if (status.ok()) status = fs.write_atomic(join_path(folder, name), content);
  return status;
}

/// All files of a checkpoint; the digests of those before come last.
Status write_files(FileSystem& disk, const std::string& folder, const CheckpointContent& content,
                   const std::string& trainer_state) {
  DigestingFileSystem fs(disk);
  Status status = write_model_files(fs, folder, content.model, content.session.parameters(),
                                    content.args.save_safetensors);
  const bool all = !content.only_model;
  if (status.ok() && all) status = write_optimizer_files(fs, folder, content);
  if (status.ok() && all) status = write_python_rng(fs, folder, content.run.seed, content.state.global_step);
  if (status.ok()) status = write_arguments(fs, folder, content.args, content.device);
  if (status.ok()) status = fs.write_atomic(join_path(folder, kTrainerStateFile), trainer_state);
  if (status.ok() && all) status = write_run_state(fs, folder, content, fs.digests(folder));
  return status;
}

/// The first line in which two texts differ, from each of them; "nothing" after the end of a text.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  for (;;) {
    std::string line_a, line_b;
    if (!std::getline(lines_a, line_a)) line_a = "nothing";
    if (!std::getline(lines_b, line_b)) line_b = "nothing";
    if (line_a != line_b || line_a == "nothing") return {line_a, line_b};
  }
}

/// Reads AdamW's moments of a checkpoint of the first version.
void read_moments(const SafetensorsFile& file, const std::string& name, const std::string& path,
                  Parameters& parameters) {
  const TensorView* view = file.find(name);
  if (view == nullptr) fail(ErrorCode::kInvalidData, "{}: tensor {} is missing", path, name);
  std::vector<float> room;
  parameters.write_state(name, f32_of(*view, room));
  file.release(name);
}

void check_format(const SafetensorsFile& file, const std::string& path, const TaskModel& model) {
  format_of(file, path);
  const std::string wanted = layout_text(model), &found = metadata_at(file, "layout", path);
  if (found == wanted) return;
  const auto [there, here] = first_difference(found, wanted);
  fail(ErrorCode::kInvalidData,
       "{}: written for other parameters than this model trains: found {}, expected {}; resume with the same "
       "model, labels, --freeze_base_model and --use_peft, or train from the beginning with another "
       "--output_dir or with "
       "--overwrite_output_dir",
       path, there, here);
}

/// What Lathe kept about the run.
RunState run_in(const SafetensorsFile& file, const std::string& path, const TrainerState& state) {
  const nlohmann::json json = parse_python_json(metadata_at(file, "state", path), path);
  if (const auto step = value_or<int64_t>(json, "global_step", state.global_step, path);
      step != state.global_step)
    fail(ErrorCode::kInvalidData,
         "{}: of step {}, {} of step {}: not of one checkpoint; take one that is whole", path, step,
         kTrainerStateFile, state.global_step);
  RunState run;
  run.total_loss = required<double>(json, "total_loss", path);
  run.loss_updates = value_or<int64_t>(json, "loss_updates", state.global_step, path);
  run.loss_since_log = required<double>(json, "loss_since_log", path);
  run.updates_since_log = required<int64_t>(json, "updates_since_log", path);
  run.updates_per_epoch = required<int64_t>(json, "updates_per_epoch", path);
  run.data_seed = static_cast<uint64_t>(required<int64_t>(json, "data_seed", path));
  run.seed = static_cast<uint64_t>(required<int64_t>(json, "seed", path));
  const auto text = [&](const char* key) { return value_or<std::string>(json, key, "", path); };
  run.identity = {text("model"), text("training_data"), text("model_name"), text("training_data_name")};
  run.skipped_updates = value_or<int64_t>(json, "skipped_updates", 0, path);
  const LossScaler::State fresh;
  run.loss_scaler = {value_or<double>(json, "loss_scale", fresh.scale, path),
                     value_or<int64_t>(json, "loss_scale_growth_tracker", 0, path),
                     value_or<int64_t>(json, "loss_scale_bad_losses", 0, path)};
  run.metric_schedule = json.value("metric_schedule", nlohmann::json());
  run.masks = value_or<std::vector<std::string>>(json, "masks", {}, path);
  run.losses = json.contains("losses") ? LossCurve(json["losses"], state.global_step, path)
                                       : LossCurve(state.log_history);  // older checkpoints have none
  return run;
}

/// Optimizer and tuning of a checkpoint that Lathe wrote.
void read_own_state(FileSystem& fs, const std::string& folder, const SafetensorsFile& file, Session& session,
                    const TrainerState& state, const RunState& run, bool whole) {
  const std::string path = join_path(folder, kStateFile);
  adopt_tuning(fs, folder, session);
  const std::vector<OptimizerState> states = session.parameters().optimizer_states();
  if (file.find(states.front().name) != nullptr) {  // old checkpoints
    for (const OptimizerState& kept : states) read_moments(file, kept.name, path, session.parameters());
    return;
  }
  const OptimizerProgress found =
      read_python_state(fs, folder, session.parameters(), state.global_step, whole);
  const int64_t applied = state.global_step - run.skipped_updates;
  if (found.applied != applied && found.metric_schedule.is_null())  // such a schedule counts evaluations
    fail(ErrorCode::kInvalidData,
         "{}: found {} updates, expected {}: of another step; take a checkpoint that is whole",
         join_path(folder, kOptimizerFile), found.applied, applied);
}

bool holds(FileSystem& fs, const std::string& folder, const std::string& file) {
  return fs.exists(join_path(folder, file));
}

/// Whether a checkpoint is Lathe's own; else it is of Hugging Face's Trainer.  Errors: kNotFound if it is
/// neither.
bool is_own(FileSystem& fs, const std::string& folder) {
  if (holds(fs, folder, kStateFile)) return true;
  fs.can_look_for(join_path(folder, kStateFile)).check();
  if (!holds(fs, folder, kOptimizerFile))
    fail(ErrorCode::kNotFound,
         "{}: {} and {} not found; a checkpoint to resume from is a folder checkpoint-N written by Lathe "
         "or Hugging Face's Trainer without --save_only_model; with only a model, begin a new run "
         "(--model_name_or_path)",
         folder, kStateFile, kOptimizerFile);
  return false;
}

/// What Python's files know about a run: the sum of the losses up to the last log line, from its means.
RunState run_of_python(const TrainerState& state, const OptimizerProgress& progress,
                       const std::string& folder) {
  RunState run;
  run.losses = LossCurve(state.log_history);
  run.skipped_updates = state.global_step - progress.applied;
  if (run.skipped_updates < 0)
    fail(ErrorCode::kInvalidData, "{}: {} has {} updates, trainer_state.json {}: not of one checkpoint",
         folder, kOptimizerFile, progress.applied, state.global_step);
  for (const auto& entry : state.log_history) {
    const auto step = entry.find("step"), loss = entry.find("loss");
    if (loss == entry.end() || !loss->is_number() || step == entry.end() || !step->is_number_integer())
      continue;
    run.total_loss += loss->get<double>() * static_cast<double>(step->get<int64_t>() - run.loss_updates);
    run.loss_updates = step->get<int64_t>();
  }
  if (!progress.metric_schedule.is_null())
    run.metric_schedule =
        MetricSchedule::state_of_python(progress.metric_schedule, join_path(folder, kSchedulerFile));
  return run;
}

}  // namespace

uint64_t checkpoint_bytes(const AutoModel& model, const Parameters& parameters, bool only_model) {
  return model_bytes(model, parameters, !only_model) + kSmallFiles;
}

Status write_model(FileSystem& fs, const std::string& folder, const AutoModel& model,
                   const Parameters& parameters, bool safetensors) {
  const char* way_out =
      last_checkpoint(fs, folder).empty()
          ? "make room and give the same command again"
          : "make room and give the same command again, which goes on from the last checkpoint";
  const Status space = check_space(fs, folder, model_bytes(model, parameters, false), way_out);
  return space.ok() ? write_model_files(fs, folder, model, parameters, safetensors) : space;
}

Status write_checkpoint(FileSystem& fs, const std::string& folder, const CheckpointContent& content) {
  const std::string trainer_state = to_json_text(content.state);
  const uint64_t wanted = checkpoint_bytes(content.model, content.session.parameters(), content.only_model) +
                          trainer_state.size() + kLossPoint * content.run.losses.points().size();
  if (const Status s = check_space(fs, folder, wanted, "make room or set --save_total_limit"); !s.ok())
    return s;
  DirectoryTransaction transaction(fs, folder);
  if (!transaction.status().ok()) return transaction.status();
  const Status status = write_files(fs, transaction.folder(), content, trainer_state);
  return status.ok() ? transaction.commit() : status;
}

void check_trained(FileSystem& fs, const std::string& folder, const AutoModel& model,
                   const Session& session) {
  if (!is_own(fs, folder)) return;
  const std::string path = join_path(folder, kStateFile);
  const SafetensorsFile file = open_state(fs, folder);
  check_format(file, path, *model.model);
  const auto found = file.metadata().find("optimizer");
  const std::string there = found == file.metadata().end() ? "adamw" : found->second;  // once the only one
  if (there != session.parameters().optimizer())
    fail(ErrorCode::kInvalidData,
         "{}: written by the optimizer {}, this run's is {}; resume with the same --optim, or train from the "
         "beginning with another --output_dir or with --overwrite_output_dir",
         path, there, session.parameters().optimizer());
}

void adopt_tuning(FileSystem& fs, const std::string& folder, Session& session) {
  if (!is_own(fs, folder)) return;
  const SafetensorsFile file = open_state(fs, folder);
  const auto tuning = file.metadata().find("tuning");  // checkpoints of the first version have none
  if (tuning != file.metadata().end()) session.backend().adopt_tuning(tuning->second);
}

TrainerState read_trainer_state(FileSystem& fs, const std::string& folder) {
  is_own(fs, folder);
  const std::string path = join_path(folder, kTrainerStateFile);
  return trainer_state_from(parse_python_json(fs.read(path, kLogFileBytes).value(), path), path);
}

std::optional<RunState> read_run(FileSystem& fs, const std::string& folder, const TrainerState& state) {
  if (!is_own(fs, folder)) return std::nullopt;
  return run_in(open_state(fs, folder), join_path(folder, kStateFile), state);
}

std::optional<OptimizerProgress> read_checkpoint(FileSystem& fs, const std::string& folder,
                                                 const AutoModel& model, Session& session,
                                                 TrainerState& state, RunState& run, bool whole) {
  const bool own = is_own(fs, folder);
  std::optional<SafetensorsFile> file;
  if (own) file = open_state(fs, folder);
  check_trained(fs, folder, model, session);
  state = read_trainer_state(fs, folder);
  if (own) run = run_in(*file, join_path(folder, kStateFile), state);
  const LoadReport report = load_weights(fs, folder, model, session.parameters());
  if (!report.missing.empty())
    fail(ErrorCode::kInvalidData, "{}: a checkpoint of another model\n{}", folder,
         to_string(report, *model.model, folder));
  if (own) {
    read_own_state(fs, folder, *file, session, state, run, whole);
    return std::nullopt;
  }
  const OptimizerProgress progress = read_python_state(fs, folder, session.parameters(), state.global_step);
  run = run_of_python(state, progress, folder);
  run.loss_scaler = read_python_scaler(fs, folder);
  return progress;
}

const std::vector<std::string>& state_files() {
  static const std::vector<std::string> names = {kStateFile, kOptimizerFile};
  return names;
}

int64_t checkpoint_step(const std::string& name) {
  const std::string prefix = "checkpoint-";
  if (!name.starts_with(prefix)) return -1;
  int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + prefix.size(), end, step);
  return error == std::errc() && at == end ? step : -1;
}

std::vector<std::string> checkpoints(FileSystem& fs, const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  auto names = fs.list(folder);
  if (!names.ok()) return {};
  for (const std::string& name : names.value())
    if (checkpoint_step(name) >= 0) found.emplace_back(checkpoint_step(name), join_path(folder, name));
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::string last_checkpoint(FileSystem& fs, const std::string& folder) {
  const auto all = checkpoints(fs, folder);
  return all.empty() ? "" : all.back();
}

std::string checkpoint_to_resume(FileSystem& fs, const std::string& folder) {
  const auto all = checkpoints(fs, folder);
  const auto last = std::find_if(all.rbegin(), all.rend(), [&](const std::string& path) {
    return std::any_of(state_files().begin(), state_files().end(),
                       [&](const std::string& name) { return holds(fs, path, name); });
  });
  return last == all.rend() ? "" : *last;
}

}  // namespace lathe
