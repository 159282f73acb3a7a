#include "lathe/report/tensorboard.h"

#include <fmt/format.h>

#include <ctime>

#include "lathe/core/environment.h"
#include "lathe/settings/argument_table.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

/// runs/Nov22_02-41-25_host, as transformers' default_logdir.
std::string default_folder(const TrainingArguments& args) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::string name = fmt::format("{}{:02}_{:02}-{:02}-{:02}_{}", kMonths[local.tm_mon], local.tm_mday,
                                       local.tm_hour, local.tm_min, local.tm_sec, host_name());
  return join_path(join_path(args.output_dir.value_or("."), "runs"), name);
}

std::string folder_for(const TrainingArguments& args) {
  if (args.logging_dir && !args.logging_dir->empty()) return *args.logging_dir;
  const std::string named = environment("TENSORBOARD_LOGGING_DIR");
  return named.empty() ? default_folder(args) : named;
}

/// "eval_loss" → "eval/loss", "loss" → "train/loss"
std::string tag_of(const std::string& key) {
  for (const std::string split : {"eval", "test"})
    if (key.starts_with(split + "_")) return split + "/" + key.substr(split.size() + 1);
  return "train/" + key;
}

}  // namespace

TensorBoard::TensorBoard(FileSystem& fs, const TrainingArguments& args, const AutoModel& model, LogSink say)
    : say_(std::move(say)) {
  Result<EventFile> file = EventFile::create(fs, folder_for(args));
  if (!file.ok()) {
    check(file.status());
    return;
  }
  file_ = std::move(file.value());
  if (say_) say_(LogLevel::kInfo, "TensorBoard events: " + file_->path());
  TrainingArguments shown = args;  // a bound object is not const
  check(file_->add_text("args", python_json(to_json(bind(shown)), 2), 0));
  for (const auto& [name, content] : model_files(model))
    if (file_ && name == "config.json") check(file_->add_text("model_config", content, 0));
}

void TensorBoard::check(const Status& status) {
  if (status.ok()) return;
  file_.reset();
  if (say_) say_(LogLevel::kWarning, "TensorBoard events end here: " + status.message());
}

void TensorBoard::record(const nlohmann::ordered_json& entry) {
  const int64_t step = entry.value("step", int64_t{0});
  for (const auto& [key, value] : entry.items())
    if (file_ && key != "step" && value.is_number())
      check(file_->add_scalar(tag_of(key), value.get<double>(), step));
}

}  // namespace lathe
