#pragma once
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/core/log.h"
#include "lathe/core/process_group.h"
#include "lathe/data/batch.h"
#include "lathe/models/task_model.h"
#include "lathe/settings/training_arguments.h"
#include "lathe/train/memory_metrics.h"
#include "lathe/train/trainer_hooks.h"
#include "lathe/train/trainer_state.h"

namespace lathe {

/// What a run reports: messages, lines of the log history, and the counts for them over all ranks.
class RunLog {
 public:
  /// All must outlive it. state: its history takes the lines, its sums take the counts.
  RunLog(const TrainingArguments& args, const TrainerHooks& hooks, const TaskModel& model,
         ProcessGroup* group, TrainerState& state);

  void say(LogLevel level, const std::string& text) const;
  LogSink sink() const {
    return [this](LogLevel level, const std::string& text) { say(level, text); };
  }
  /// Writes a line of the log history, after the counts were shared. of_training: with the speed in tokens.
  void write(nlohmann::ordered_json entry, bool of_training = false);

  /// Adds the epoch, once there is one, and the tokens trained on, if they are counted.
  void add_place(nlohmann::json& metrics) const;

  /// A call of train begins: starts its clock and clears its counts.
  void begin();
  std::chrono::steady_clock::time_point started_at() const { return started_at_; }
  /// Updates are made while this object lives, from the state at its construction on.
  class Training {
   public:
    explicit Training(RunLog& log) : log_(log) {
      log_.in_training_ = true;
      log_.first_tokens_ = log_.state_.num_input_tokens_seen;
    }
    ~Training() { log_.in_training_ = false; }
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

   private:
    RunLog& log_;
  };
  bool in_training() const { return in_training_; }

  /// Counts a batch that this rank has trained on.
  void count(const PackedBatch& batch);
  /// The length to which a padding trainer would fill rows; it only counts in total_flos.  0: the longest row
  /// of the batch.
  void pad_to(int length) { pad_to_ = length; }
  /// Adds what all ranks have counted since the last call to the state.  Within a training it also tells all
  /// ranks whether one was asked to stop.
  void share_counts();
  /// Tokens without padding that all ranks have trained on since they began.
  int64_t trained_tokens() const { return trained_tokens_; }

  /// Whether this rank was asked to stop.
  bool asked_to_stop() const { return hooks_.should_stop && hooks_.should_stop(); }
  /// Whether one of several ranks was asked to stop, as all of them know.
  bool group_stops() const { return group_stops_; }
  void note_stop() { group_stops_ = true; }

  /// The stage under whose name memory is measured; empty: memory is not measured.
  std::string memory_stage(const std::string& stage) const { return args_.skip_memory_metrics ? "" : stage; }
  /// Adds what `memory` has measured and, the first time, what constructing the trainer took.
  void add_memory(const MemoryMetrics& memory, nlohmann::json& metrics);
  void keep_memory_of_start(const MemoryMetrics& memory) { memory.finish(memory_of_start_); }

 private:
  bool counts_tokens() const { return args_.include_num_input_tokens_seen != "no"; }

  const TrainingArguments& args_;
  const TrainerHooks& hooks_;
  ProcessGroup* group_;
  TrainerState& state_;
  int64_t parameters_;  // without embeddings
  int pad_to_ = 0;
  std::chrono::steady_clock::time_point started_at_;
  int64_t first_tokens_ = 0;
  bool in_training_ = false, group_stops_ = false;
  // of this rank, since share_counts: tokens as requested, and tokens without padding
  double flos_ = 0, tokens_ = 0, real_tokens_ = 0;
  int64_t trained_tokens_ = 0;
  nlohmann::json memory_of_start_;
};

}  // namespace lathe
