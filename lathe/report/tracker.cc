#include "lathe/report/tracker.h"

#include <algorithm>
#include <chrono>

#include "lathe/core/host_memory.h"
#include "lathe/report/html_report.h"
#include "lathe/report/loss_file.h"
#include "lathe/report/tensorboard.h"

namespace lathe {
namespace {

std::optional<double> as_double(const std::optional<uint64_t>& bytes) {
  return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Tracker> html_report(FileSystem& fs, const RunFacts& facts, const Trainer& trainer,
                                     Backend& backend, const std::string& page, LogSink say) {
  const std::string folder = trainer.arguments().output_dir.value_or(".");
  HtmlReport::Source source;
  source.state = [&trainer]() -> const TrainerState& { return trainer.state(); };
  source.losses = [&trainer]() -> const LossCurve& { return trainer.losses(); };
  source.trained_tokens = [&trainer] { return trainer.trained_tokens(); };
  source.evaluation_seconds = [&trainer] { return trainer.evaluation_seconds(); };
  source.resident_bytes = [] { return as_double(resident_bytes()); };
  source.device_bytes = [&backend]() -> std::optional<double> {
    const auto free = backend.info().kind == "cpu" ? std::nullopt : backend.free_bytes();
    if (!free || *free > backend.info().memory_bytes) return std::nullopt;
    return static_cast<double>(backend.info().memory_bytes - *free);
  };
  source.now = seconds_now;
  return std::make_unique<HtmlReport>(fs, join_path(folder, page),
                                      trainer.arguments().run_name.value_or(file_name(folder)), facts,
                                      std::move(source), std::move(say));
}

}  // namespace

std::string page_of(bool training) { return training ? "report.html" : "eval_report.html"; }

bool reports_to(const TrainingArguments& args, const std::string& name) {
  return std::any_of(args.report_to.begin(), args.report_to.end(),
                     [&](const std::string& asked) { return asked == name || asked == "all"; });
}

std::vector<std::unique_ptr<Tracker>> make_trackers(FileSystem& fs, const RunFacts& facts,
                                                    const Trainer& trainer, Backend& backend, bool training,
                                                    LogSink say) {
  const TrainingArguments& args = trainer.arguments();
  std::vector<std::unique_ptr<Tracker>> trackers;
  if (training)
    trackers.push_back(std::make_unique<LossFile>(
        fs, args.output_dir.value_or("."), [&trainer]() -> const LossCurve& { return trainer.losses(); },
        seconds_now, say));
  if (reports_to(args, "tensorboard"))
    trackers.push_back(std::make_unique<TensorBoard>(fs, args, trainer.auto_model(), say));
  if (reports_to(args, "html"))
    trackers.push_back(html_report(fs, facts, trainer, backend, page_of(training), say));
  return trackers;
}

}  // namespace lathe
