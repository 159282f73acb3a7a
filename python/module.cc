// lathe._lathe: what the Python package stands on.  Texts and rows come flat, as numpy arrays, or as lines of
// JSON; the GIL is released while anything is tokenised, trained or predicted.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "lathe/core/version.h"
#include "python/arguments.h"
#include "python/dataset.h"
#include "python/exceptions.h"
#include "python/metrics.h"
#include "python/model.h"
#include "python/run.h"
#include "python/sentence.h"
#include "python/text_training.h"

namespace nb = nanobind;

namespace lathe {
namespace {

std::tuple<Numpy<float>, std::optional<double>> predict(Run& run, const Dataset& data) {
  Predictions p;
  {
    const nb::gil_scoped_release released;
    p = run.predict(data);
  }
  return {to_numpy(std::move(p.logits), static_cast<size_t>(p.columns)),
          p.has_loss ? std::optional(p.loss) : std::nullopt};
}

using Prompt = std::optional<std::string>;

/// Vectors of texts, [texts, width], of a model or of what a run has trained.
template <typename Encoder>
Numpy<float> vectors_of(Encoder& encoder, const std::vector<std::string>& texts, const Prompt& prompt,
                        const Prompt& prompt_name, std::optional<int64_t> truncate_dim, bool normalize) {
  std::pair<std::vector<float>, int64_t> vectors;
  {
    const nb::gil_scoped_release released;
    vectors = encoder.encode(texts, prompt, prompt_name, truncate_dim, normalize);
  }
  return to_numpy(std::move(vectors.first), static_cast<size_t>(vectors.second));
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
      .def("encode", &vectors_of<SentenceEncoder>, nb::arg(), nb::arg().none(), nb::arg().none(),
           nb::arg().none(), nb::arg())
      .def_prop_ro("max_seq_length", &SentenceEncoder::longest)
      .def_prop_ro("width", &SentenceEncoder::width)
      .def_prop_ro("similarity", &SentenceEncoder::similarity)
      .def_prop_ro("prompts", &SentenceEncoder::prompts)
      .def_prop_ro("folder", &SentenceEncoder::folder);

  nb::class_<TextRows>(m, "TextRows")
      .def("__init__", [](TextRows* self, std::string lines, std::string name) {
        new (self) TextRows{std::move(lines), std::move(name)};
      });
  nb::class_<SentenceTask, Model>(m, "SentenceTask")
      .def(nb::init<const std::string&, const std::vector<std::string>&, const Arguments&,
                    const std::optional<TextRows>&, const std::optional<TextRows>&>(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), Released())
      .def_ro("train", &SentenceTask::train)
      .def_ro("eval", &SentenceTask::eval)
      .def("dataset", &SentenceTask::dataset, Released());
  nb::class_<PairModel, Model>(m, "PairModel")
      .def(nb::init<const std::string&, const std::vector<std::string>&, int, int, const std::string&,
                    const std::string&>(),
           Released())
      .def("dataset", &PairModel::dataset, nb::keep_alive<0, 1>(), Released())
      .def("scores",
           [](const PairModel& model, const Array<float>& logits) {
             return to_numpy(model.scores({logits.data(), logits.size()}));
           })
      .def_ro("max_length", &PairModel::length);
  MetricFunctions::add_to(m);

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
      .def("encode", &vectors_of<Run>, nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(),
           nb::arg())
      .def("save_model", &Run::save_model, Released())
      .def("push_to_hub", &Run::push_to_hub, Released())
      .def("save_state", &Run::save_state, Released())
      .def("state", &Run::state, Released())
      .def("all_weights_are_there", &Run::all_weights_are_there);
}
