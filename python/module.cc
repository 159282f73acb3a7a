// lathe._lathe: what the Python package stands on.  Texts and rows come flat, as numpy arrays; the GIL is
// released while anything is tokenised, trained or predicted.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

#include "lathe/api/hf.h"
#include "lathe/core/version.h"
#include "lathe/data/parallel_parts.h"
#include "lathe/io/hub/hub.h"
#include "lathe/io/json_file.h"
#include "lathe/report/label_findings.h"
#include "lathe/report/push_to_hub.h"
#include "lathe/report/tracked_run.h"
#include "lathe/settings/argument_parser.h"
#include "lathe/text/python_format.h"
#include "lathe/train/checkpoint_folder.h"
#include "lathe/train/log_format.h"
#include "python/arguments.h"
#include "python/exceptions.h"
#include "python/sentence.h"

namespace nb = nanobind;

namespace lathe {
namespace {

template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Numpy = nb::ndarray<nb::numpy, T>;

template <typename T>
std::vector<T> values_of(const Array<T>& array) {
  return {array.data(), array.data() + array.size()};
}

/// An array that owns the values.  columns: 0 for one dimension.
template <typename T>
Numpy<T> to_numpy(std::vector<T> values, size_t columns = 0) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  if (columns == 0) return Numpy<T>(kept->data(), {kept->size()}, owner);
  return Numpy<T>(kept->data(), {kept->size() / columns, columns}, owner);
}

std::string fetched(const std::string& name, const std::string& revision, const std::string& cache_dir,
                    const ModelNeed& need) {
  HubSettings hub = hub_settings();
  hub.should_stop = stop_is_wanted;
  return fetch_model(real_file_system(), name, revision, cache_dir, need, hub);
}

/// What `labels` mean, and how many of them there are.
struct Model {
  Model(const std::string& name, const std::string& problem, const std::vector<std::string>& labels,
        bool ignore_mismatched_sizes, const std::string& revision, const std::string& cache_dir) {
    const std::string folder = fetched(name, revision, cache_dir, {true, true});
    HeadOptions head{single_label, labels, ignore_mismatched_sizes};
    const ModelConfig config = read_model_config(real_file_system(), folder);
    const bool config_says = !value_or<std::string>(*config.json, "problem_type", "", config.file).empty();
    if (problem.empty() && (labels.empty() || config_says)) head.task = classification_task(config);
    if (problem.empty() && !config_says && labels.size() == 1) head.task = regression;
    if (problem == "regression") head.task = regression;
    if (problem == "multi_label_classification") head.task = multi_label;
    if (problem == "regression" && labels.empty()) head.labels = {"LABEL_0"};
    if (head.task == regression && labels.size() > 1)
      fail(ErrorCode::kUnsupported, "regression: found {} labels, expected one value per text",
           labels.size());
    model = from_pretrained(real_file_system(), folder, head);
  }
  std::string problem() const { return model.model->task().problem_type(); }

  AutoModel model;
};

/// Rows of tokens, flat; labels: int32 [rows], or float32 [rows · columns].
struct Dataset {
  Dataset(const Array<int32_t>& ids, const Array<uint8_t>& type_ids, const Array<int64_t>& begins,
          const std::optional<Array<int32_t>>& classes, const std::optional<Array<float>>& targets,
          int columns) {
    if (type_ids.size() != ids.size() || begins.size() == 0 ||
        begins.data()[begins.size() - 1] != static_cast<int64_t>(ids.size()))
      fail(ErrorCode::kInvalidData, "rows: found {} type ids and {} ids, expected one for each",
           type_ids.size(), ids.size());
    data.input_ids = values_of(ids);
    data.type_ids = values_of(type_ids);
    data.begins = values_of(begins);
    if (classes) data.tensors.ints("labels") = values_of(*classes);
    if (targets && targets->size() > 0) data.tensors.floats("labels", columns) = values_of(*targets);
  }
  TokenizedDataset data;
};

using Encoded = std::tuple<Numpy<int32_t>, Numpy<uint8_t>, Numpy<int64_t>>;

/// A strategy by its name in transformers.
Truncation truncation_of(const std::string& name) {
  if (name == "longest_first") return Truncation::kLongestFirst;
  if (name == "only_first") return Truncation::kOnlyFirst;
  if (name == "only_second") return Truncation::kOnlySecond;
  return Truncation::kNone;
}

/// ids, type ids and the beginnings of rows, of texts or pairs.
Encoded encode(const Tokenizer& tokenizer, const std::vector<std::string>& first,
               const std::vector<std::string>& second, int max_length, const std::string& truncation) {
  TokenizedDataset tokens;
  {
    const nb::gil_scoped_release released;
    const EncodeOptions options{.max_length = max_length, .truncation = truncation_of(truncation)};
    ThreadPool pool;
    tokens.append(
        parallel_parts<TokenizedDataset>(pool, static_cast<long>(first.size()), [&](long begin, long end) {
          TokenizedDataset part;
          for (long i = begin; i < end; ++i)
            part.append(second.empty() ? tokenizer.encode(first[i], options)
                                       : tokenizer.encode_pair(first[i], second[i], options),
                        tokenizer);
          return part;
        }));
  }
  return {to_numpy(std::move(tokens.input_ids)), to_numpy(std::move(tokens.type_ids)),
          to_numpy(std::move(tokens.begins))};
}

AutoModel twin_with(const AutoModel& model, const Tokenizer* tokenizer) {
  AutoModel twin = twin_of(model);
  if (tokenizer != nullptr) twin.tokenizer = *tokenizer;
  return twin;
}

/// What a run calls in Python.
class Callbacks {
 protected:
  enum CallbackOf { kMetrics, kLog, kMessage };

  Callbacks(nb::object compute_metrics, nb::object on_log, nb::object message)
      : callbacks_{std::move(compute_metrics), std::move(on_log), std::move(message)} {}

  /// Calls a callback with a line for the user.  A Ctrl-C that reaches Python meanwhile is kept for the next
  /// question whether to stop.
  template <typename... Line>
  void tell(CallbackOf of, const Line&... line) {
    const nb::gil_scoped_acquire gil;
    try {
      callbacks_[of](line...);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      interrupted_ = true;
    }
  }

  std::atomic<bool> interrupted_ = false;
  std::array<nb::object, 3> callbacks_;  // by CallbackOf
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
      const Dataset* eval, nb::object compute_metrics, nb::object on_log, nb::object message)
      : Callbacks(std::move(compute_metrics), std::move(on_log), std::move(message)),
        Prepared(arguments.values,
                 [this, known = arguments.notices](const std::string& notice) {
                   if (std::find(known.begin(), known.end(), notice) == known.end())
                     say_(LogLevel::kWarning, notice);
                 }),
        train_(train == nullptr ? nullptr : &train->data),
        model_(twin_with(model.model, tokenizer)),
        trainer_(*device, model_, args, train_, eval == nullptr ? nullptr : &eval->data, hooks()),
        tracked_(real_file_system(), facts()) {}

  /// tp_traverse and tp_clear: a callback may refer to what holds the trainer.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const nb::object& callback : nb::inst_ptr<Run>(self)->callbacks_) Py_VISIT(callback.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    for (nb::object& callback : nb::inst_ptr<Run>(self)->callbacks_) callback = nb::none();
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
    const nlohmann::json metrics = trainer_.evaluate(data.data, prefix);
    tracked_.finish("finished");
    end_if_asked("the evaluation");
    return python_json(metrics, -1);
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
    const nb::object words = nb::module_::import_("sys").attr("orig_argv");
    return {.words = without_secrets(bind(args), nb::cast<std::vector<std::string>>(words)),
            .settings = to_json(bind(args))};
  }

  /// What an evaluation found; a sample's text is what its tokens say.
  void show_findings(const TokenizedDataset& data, const Predictions& p) {
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
  MetricValues metrics(const Predictions& p) {
    const nb::gil_scoped_acquire gil;
    const auto ask = [&] {
      return nb::cast<nb::dict>(callbacks_[kMetrics](to_numpy(p.logits, static_cast<size_t>(p.columns))));
    };
    std::optional<nb::dict> found;
    try {
      found = ask();
    } catch (const nb::python_error& error) {
      if (!training_ || !error.matches(PyExc_KeyboardInterrupt)) throw;
      interrupted_ = true;
    }
    if (!found) found = ask();
    MetricValues values;
    for (const auto& [name, value] : *found)
      values.emplace_back(nb::cast<std::string>(name), nb::cast<double>(value));
    return values;
  }

  TrainerHooks hooks() {
    TrainerHooks hooks;
    const bool has_metrics = !callbacks_[kMetrics].is_none(), finds = reports_to(args, "html");
    if (has_metrics || finds)
      hooks.compute_metrics = [this, has_metrics, finds](const TokenizedDataset& data, const Predictions& p) {
        if (finds) show_findings(data, p);
        return has_metrics ? metrics(p) : MetricValues{};
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
  AutoModel model_;
  Trainer trainer_;
  TrackedRun tracked_;
};

std::tuple<Numpy<float>, std::optional<double>> predict(Run& run, const Dataset& data) {
  Predictions p;
  {
    const nb::gil_scoped_release released;
    p = run.predict(data);
  }
  return {to_numpy(std::move(p.logits), static_cast<size_t>(p.columns)),
          p.has_loss ? std::optional(p.loss) : std::nullopt};
}

}  // namespace
}  // namespace lathe

NB_MODULE(_lathe, m) {
  using namespace lathe;
  using Released = nb::call_guard<nb::gil_scoped_release>;
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(exception_for(error.code()), error.what());
    }
  });
  m.attr("version") = kVersion;

  nb::class_<Tokenizer>(m, "Tokenizer")
      .def_static(
          "load",
          [](const std::string& name, const std::string& revision, const std::string& cache_dir) {
            return Tokenizer::load(fetched(name, revision, cache_dir, {false, true}));
          },
          Released())
      .def("encode", &encode)
      .def("decode",
           [](const Tokenizer& t, const std::vector<int32_t>& ids, bool skip) { return t.decode(ids, skip); })
      .def("token", [](const Tokenizer& t, int32_t id) { return t.id_to_token(id); })
      .def("files",
           [](const Tokenizer& t) {
             nb::dict files;
             for (const auto& [name, bytes] : t.files())
               files[name.c_str()] = nb::bytes(bytes.data(), bytes.size());
             return files;
           })
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size)
      .def_prop_ro("pad_token_id", &Tokenizer::pad_id)
      .def_prop_ro("model_max_length", &Tokenizer::model_max_length);

  nb::class_<Arguments>(m, "Arguments")
      .def(nb::init<const std::vector<std::string>&>())
      .def_static("check_name", &Arguments::check_name)
      .def("json", &Arguments::json)
      .def_ro("notices", &Arguments::notices);

  nb::class_<Model>(m, "Model")
      .def(nb::init<const std::string&, const std::string&, const std::vector<std::string>&, bool,
                    const std::string&, const std::string&>(),
           Released())
      .def_prop_ro("labels", [](const Model& model) { return model.model.labels; })
      .def_prop_ro("folder", [](const Model& model) { return model.model.folder; })
      .def_prop_ro("config", [](const Model& model) { return python_json(*model.model.config.json, -1); })
      .def_prop_ro("problem", &Model::problem)
      .def_prop_ro("tokenizer", [](const Model& model) { return *model.model.tokenizer; });

  nb::class_<Dataset>(m, "Dataset")
      .def(nb::init<const Array<int32_t>&, const Array<uint8_t>&, const Array<int64_t>&,
                    const std::optional<Array<int32_t>>&, const std::optional<Array<float>>&, int>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg());

  nb::class_<SentenceEncoder>(m, "SentenceEncoder")
      .def("__init__",
           [](SentenceEncoder* self, const std::string& name, const std::string& device, bool bf16,
              const std::string& revision, const std::string& cache_dir) {
             const nb::gil_scoped_release released;
             new (self) SentenceEncoder(fetched(name, revision, cache_dir, {true, true}), device, bf16);
           })
      .def(
          "encode",
          [](SentenceEncoder& self, const std::vector<std::string>& texts,
             const std::optional<std::string>& prompt, const std::optional<std::string>& name,
             std::optional<int64_t> dim, bool normalize) {
            std::pair<std::vector<float>, int64_t> vectors;
            {
              const nb::gil_scoped_release released;
              vectors = self.encode(texts, prompt, name, dim, normalize);
            }
            return to_numpy(std::move(vectors.first), static_cast<size_t>(vectors.second));
          },
          nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg())
      .def_prop_ro("max_seq_length", &SentenceEncoder::longest)
      .def_prop_ro("width", &SentenceEncoder::width);

  PyType_Slot collected[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Run::traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(&Run::clear)},
                             {0, nullptr}};
  nb::class_<Run>(m, "Run", nb::type_slots(collected))
      .def(nb::init<const Model&, const Tokenizer*, const Arguments&, const Dataset*, const Dataset*,
                    nb::object, nb::object, nb::object>(),
           nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>(), nb::arg(), nb::arg().none(), nb::arg(),
           nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg())
      .def("train", &Run::train, Released())
      .def("evaluate", &Run::evaluate, Released())
      .def("predict", &predict)
      .def("save_model", &Run::save_model, Released())
      .def("push_to_hub", &Run::push_to_hub, Released())
      .def("save_state", &Run::save_state, Released())
      .def("state", &Run::state, Released())
      .def("all_weights_are_there", &Run::all_weights_are_there);
}
