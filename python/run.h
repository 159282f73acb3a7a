#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/api/hf.h"
#include "lathe/report/label_findings.h"
#include "lathe/report/push_to_hub.h"
#include "lathe/report/tracked_run.h"
#include "lathe/text/python_format.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/log_format.h"
#include "lathe/train/sentence/text_encoder.h"
#include "python/arguments.h"
#include "python/dataset.h"
#include "python/exceptions.h"
#include "python/model.h"

namespace lathe {

/// What a run calls in Python.
class Callbacks {
 protected:
  enum CallbackOf { kMetrics, kLog, kMessage };

  Callbacks(nanobind::object compute_metrics, nanobind::object on_log, nanobind::object message)
      : callbacks_{std::move(compute_metrics), std::move(on_log), std::move(message)} {}

  /// Calls a callback with a line for the user.  A Ctrl-C that reaches Python meanwhile is kept for the next
  /// question whether to stop.
  template <typename... Line>
  void tell(CallbackOf of, const Line&... line) {
    const nanobind::gil_scoped_acquire gil;
    try {
      callbacks_[of](line...);
    } catch (const nanobind::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      interrupted_ = true;
    }
  }

  std::atomic<bool> interrupted_ = false;
  std::array<nanobind::object, 3> callbacks_;  // by CallbackOf
  const LogSink say_ = [this](LogLevel level, const std::string& text) {
    tell(kMessage, level >= LogLevel::kWarning, text);
  };
};

/// A trainer on the device that its arguments name, of a model of its own, with another tokenizer where one
/// is given.  compute_metrics: (logits [rows, columns]) → dict of floats; on_log: takes a line of the log;
/// message: (warning?, text).
class Run : private Callbacks, private hf::Prepared {
 public:
  Run(const Model& model, const Tokenizer* tokenizer, const Arguments& arguments, const Dataset* train,
      const Dataset* eval, nanobind::object compute_metrics, nanobind::object on_log,
      nanobind::object message)
      : Callbacks(std::move(compute_metrics), std::move(on_log), std::move(message)),
        Prepared(arguments.values,
                 [this, known = arguments.notices](const std::string& notice) {
                   if (std::find(known.begin(), known.end(), notice) == known.end())
                     say_(LogLevel::kWarning, notice);
                 }),
        train_(train == nullptr ? nullptr : &train->data),
        eval_(eval),
        says_metrics_(train != nullptr && train->metrics),
        model_(twin_with(model.model, tokenizer)),
        trainer_(*device, model_, args, train_, eval == nullptr ? nullptr : &eval->data, hooks()),
        tracked_(real_file_system(), facts()) {}

  /// tp_traverse and tp_clear: a callback may refer to what holds the trainer.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nanobind::inst_ready(self)) return 0;
    for (const nanobind::object& callback : nanobind::inst_ptr<Run>(self)->callbacks_)
      Py_VISIT(callback.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    for (nanobind::object& callback : nanobind::inst_ptr<Run>(self)->callbacks_) callback = nanobind::none();
    return 0;
  }

  std::string train(const std::string& resume) {
    const Turn turn = wait_for_turn();
    FolderLock lock;
    hold_output_dir(lock);
    const CheckpointFolder checkpoints(real_file_system(), args,
                                       [this](const std::string& text) { say_(LogLevel::kWarning, text); });
    const std::string from = resume == "true" ? checkpoints.wanted_to_go_on_from() : resume;
    if (!from.empty()) trainer_.check(from, resume == "true");
    tracked_.begin_training(trainer_, *device, 1, say_);
    TrainOutput output;
    training_ = true;
    try {
      output = trainer_.train(from);
    } catch (...) {
      training_ = false;
      tracked_.finish("interrupted");
      throw;
    }
    training_ = false;
    tracked_.finish("finished");
    end_if_asked("the training");
    const nlohmann::json told = {{"global_step", output.global_step},
                                 {"training_loss", output.training_loss},
                                 {"metrics", output.metrics}};
    return python_json(told, -1);
  }
  std::string evaluate(const Dataset& data, const std::string& prefix) {
    const Turn turn = wait_for_turn();
    tracked_.begin_evaluation(trainer_, *device, 1, say_);
    const Evaluated evaluated(*this, data);
    const nlohmann::json metrics = trainer_.evaluate(data.data, prefix);
    tracked_.finish("finished");
    end_if_asked("the evaluation");
    return python_json(metrics, -1);
  }
  /// Vectors of texts with the weights as they are now, one after the other, and the numbers of each.
  /// Errors: as TextEncoder and chosen_prompt.
  std::pair<std::vector<float>, int64_t> encode(const std::vector<std::string>& texts,
                                                const std::optional<std::string>& prompt,
                                                const std::optional<std::string>& prompt_name,
                                                std::optional<int64_t> truncate_dim, bool normalize) {
    const Turn turn = wait_for_turn();
    const VectorForm form{truncate_dim, normalize};
    ThreadPool pool(static_cast<int>(args.threads));
    TextEncoder encoder(trainer_.session(), model_, pool, {});
    const std::string before = chosen_prompt(model_, prompt, prompt_name);
    return {encoder.encode(encoder.tokenize(texts, before), form), encoder.width(form)};
  }
  Predictions predict(const Dataset& data) {
    const Turn turn = wait_for_turn();
    Predictions predictions = trainer_.predict(data.data);
    end_if_asked("the prediction");
    return predictions;
  }
  void save_model(const std::string& folder) {
    const Turn turn = wait_for_turn();
    trainer_.save_model(folder.empty() ? args.output_dir.value_or("") : folder);
  }
  std::string push_to_hub(const std::string& message) {
    save_model("");
    HubSettings hub = hub_settings();
    if (args.hub_token) hub.token = hub_token(*args.hub_token);
    hub.should_stop = stop_is_wanted;
    return lathe::push_to_hub(real_file_system(), args, make_repository(args, hub), message, hub);
  }
  void save_state() {
    const Turn turn = wait_for_turn();
    trainer_.save_state();
  }
  std::string state() const {
    const Turn turn = wait_for_turn();
    return to_json_text(trainer_.state());
  }
  bool all_weights_are_there() const { return trainer_.load_report().missing.empty(); }

 private:
  /// One thread at a time has the trainer; a callback of it is of that thread.  Without the GIL, which
  /// callbacks need.  Ctrl-C ends the wait: a training is long, and another thread does not notice it.
  using Turn = std::unique_lock<std::recursive_timed_mutex>;
  Turn wait_for_turn() const {
    Turn turn(mutex_, std::defer_lock);
    while (!turn.try_lock_for(std::chrono::milliseconds(50)))
      if (stop_is_wanted()) fail(ErrorCode::kInterrupted, "stopped: another thread has this trainer");
    return turn;
  }

  /// Of a Ctrl-C that nobody was left to ask about.  Errors: kInterrupted.
  void end_if_asked(const char* what) {
    if (interrupted_.exchange(false)) fail(ErrorCode::kInterrupted, "stopped after {}, which is whole", what);
  }

  RunFacts facts() {
    const nanobind::object words = nanobind::module_::import_("sys").attr("orig_argv");
    return {.words = without_secrets(bind(args), nanobind::cast<std::vector<std::string>>(words)),
            .settings = to_json(bind(args))};
  }

  /// Which data set an evaluation is of, while it lasts; compute_metrics may evaluate another.
  class Evaluated {
   public:
    Evaluated(Run& run, const Dataset& data) : run_(run), before_(run.eval_) { run.eval_ = &data; }
    ~Evaluated() { run_.eval_ = before_; }
    Evaluated(const Evaluated&) = delete;
    Evaluated& operator=(const Evaluated&) = delete;

   private:
    Run& run_;
    const Dataset* before_;
  };

  /// What an evaluation found; a sample's text is what its tokens say.
  void show_findings(const TokenizedDataset& data, const Predictions& p) {
    if (eval_ != nullptr && eval_->findings) return tracked_.show(eval_->findings(p));
    const LabelKind kind = trainer_.model().task().label_kind().value_or(LabelKind::kClasses);
    const AutoModel& model = trainer_.auto_model();
    const auto begin = [&](size_t i) { return data.input_ids.data() + data.begins[i]; };
    tracked_.show(label_findings(
        {kind, model.labels}, "what evaluate() was given", data, p,
        [&](size_t i) {
          return model.tokenizer->decode({begin(i), begin(i + 1)});
        },
        train_));
  }

  /// What compute_metrics gives.  A Ctrl-C that reaches it in a training is kept, too; it is asked once more,
  /// as the choice of the best checkpoint may need its values.
  MetricValues asked_metrics(const Predictions& p) {
    const nanobind::gil_scoped_acquire gil;
    const auto ask = [&] {
      return nanobind::cast<nanobind::dict>(
          callbacks_[kMetrics](to_numpy(p.logits, static_cast<size_t>(p.columns))));
    };
    std::optional<nanobind::dict> found;
    try {
      found = ask();
    } catch (const nanobind::python_error& error) {
      if (!training_ || !error.matches(PyExc_KeyboardInterrupt)) throw;
      interrupted_ = true;
    }
    if (!found) found = ask();
    MetricValues values;
    for (const auto& [name, value] : *found)
      values.emplace_back(nanobind::cast<std::string>(name), nanobind::cast<double>(value));
    return values;
  }

  TrainerHooks hooks() {
    TrainerHooks hooks;
    const bool has_metrics = !callbacks_[kMetrics].is_none(), finds = reports_to(args, "html");
    const bool says = says_metrics_ || (eval_ != nullptr && eval_->metrics);
    if (has_metrics || finds || says)
      hooks.compute_metrics = [this, has_metrics, finds](const TokenizedDataset& data, const Predictions& p) {
        if (finds) show_findings(data, p);
        MetricValues values = eval_ != nullptr && eval_->metrics ? eval_->metrics(p) : MetricValues{};
        if (has_metrics)
          for (auto& value : asked_metrics(p)) values.push_back(std::move(value));
        return values;
      };
    hooks.on_log = [this](const nlohmann::ordered_json& entry) { tell(kLog, log_line(entry)); };
    hooks.on_record = [this](const nlohmann::ordered_json& entry) { tracked_.record(entry); };
    hooks.on_step = [this](int64_t, int64_t, std::optional<double>) { tracked_.step(); };
    hooks.message = say_;
    hooks.should_stop = [this] { return interrupted_.exchange(false) || stop_is_wanted(); };
    return hooks;
  }

  mutable std::recursive_timed_mutex mutex_;
  bool training_ = false;
  const TokenizedDataset* train_;  // null: there is none
  const Dataset* eval_;            // what is evaluated; null: what has no findings of its own
  bool says_metrics_;              // data sets say their metrics themselves
  AutoModel model_;
  Trainer trainer_;
  TrackedRun tracked_;
};

}  // namespace lathe
