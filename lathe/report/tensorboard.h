#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lathe/io/event_file.h"
#include "lathe/report/tracker.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/auto_model.h"
#include "lathe/train/log_format.h"

namespace lathe {

/// The events of one run for TensorBoard, under the Trainer's tags: train/loss, eval/accuracy, …, and the
/// texts args and model_config.  An error is reported once, and the run continues without events.
/// Source: transformers 5.23 integration_utils.py, TensorBoardCallback and rewrite_logs.
class TensorBoard : public Tracker {
 public:
  /// Writes into --logging_dir, $TENSORBOARD_LOGGING_DIR or output_dir/runs/<MonDD_HH-MM-SS_host>.
  TensorBoard(FileSystem& fs, const TrainingArguments& args, const AutoModel& model, LogSink say);

  void record(const nlohmann::ordered_json& entry) override;

 private:
  /// Reports an error and stops writing.
  void check(const Status& status);

  LogSink say_;
  std::optional<EventFile> file_;
};

}  // namespace lathe
