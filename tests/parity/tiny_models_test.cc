// A tiny random model of every family against the real packages: logits, loss, every gradient, all losses.
// Golden files: tests/golden/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/engine/session.h"
#include "lathe/io/json_file.h"
#include "lathe/io/safetensors.h"
#include "lathe/models/make_model.h"
#include "lathe/models/pretrained.h"
#include "lathe/train/auto_model.h"
#include "tests/device_under_test.h"
#include "tests/parity/stored_batch.h"

namespace lathe::tiny_models_test {
namespace {

struct Head {
  const char* folder;
  MakeTask task;
  int64_t labels;
};
const Head kHeads[] = {{"tiny_bert/classification", single_label, 3},
                       {"tiny_bert/regression", regression, 1},
                       {"tiny_bert/multi_label", multi_label, 4},
                       {"tiny_bert/question_answering", question_answering, 2},
                       {"tiny_bert/masked_lm", masked_lm, 2},
                       {"tiny_roberta/classification", single_label, 3},
                       {"tiny_roberta/question_answering", question_answering, 2},
                       {"tiny_xlm_roberta/classification", single_label, 3},
                       {"tiny_xlm_roberta/question_answering", question_answering, 2},
                       {"tiny_camembert/classification", single_label, 3},
                       {"tiny_camembert/question_answering", question_answering, 2},
                       {"tiny_distilbert/classification", single_label, 3},
                       {"tiny_distilbert/question_answering", question_answering, 2},
                       {"tiny_electra/classification", single_label, 3},
                       {"tiny_electra/question_answering", question_answering, 2},
                       {"tiny_modernbert/classification", single_label, 3},
                       {"tiny_modernbert/mean_pooling", single_label, 3},
                       {"tiny_modernbert/question_answering", question_answering, 2},
                       {"tiny_modernbert/masked_lm", masked_lm, 2},
                       {"tiny_llama/causal_lm", causal_lm, 2},
                       {"tiny_llama/classification", single_label, 3},
                       {"tiny_llama_biases/causal_lm", causal_lm, 2},
                       {"tiny_llama_biases/classification", single_label, 3},
                       {"tiny_mistral/causal_lm", causal_lm, 2},
                       {"tiny_mistral/classification", single_label, 3},
                       {"tiny_qwen2/causal_lm", causal_lm, 2},
                       {"tiny_qwen2/classification", single_label, 3},
                       {"tiny_qwen3/causal_lm", causal_lm, 2},
                       {"tiny_qwen3/classification", single_label, 3},
                       {"tiny_gemma3/causal_lm", causal_lm, 2},
                       {"tiny_gemma3/classification", single_label, 3}};

bool decodes(const Head& head) {
  const std::string folder = head.folder;
  return folder.find("bert") == std::string::npos && folder.find("electra") == std::string::npos;
}

/// The stored batch with the labels of a task.
struct Golden {
  PackedBatch batch;
  std::vector<std::vector<int64_t>> places;  // of each packed token in the padded batch: row, column

  Golden(const SafetensorsFile& file, MakeTask task) : batch(packed_batch(file)) {
    const auto labels = floats(file, "labels");
    for (size_t token = 0; token < static_cast<size_t>(batch.real_tokens()); ++token)
      places.push_back({batch.sample_ids[token], batch.position_ids[token]});
    if (task == masked_lm || task == causal_lm) {
      // All tokens are scored, so that all stored logits are compared; a writer's label is the next token's.
      const int64_t columns = file.find("input_ids")->shape[1], ahead = task == causal_lm ? 1 : 0;
      for (const auto& place : places) {
        const auto at = static_cast<size_t>(place[0] * columns + place[1] + ahead);
        const bool has_next = place[1] + ahead < columns;
        batch.tensors.ints("labels", Extent::kScored)
            .push_back(has_next ? static_cast<int32_t>(labels[at]) : -100);
        batch.tensors.ints("scored_index", Extent::kScored).push_back(batch.real_scored++);
      }
      batch.scored = batch.tokens;
      batch.tensors.ints("labels", Extent::kScored).resize(static_cast<size_t>(batch.scored), -100);
      batch.tensors.ints("scored_index", Extent::kScored).resize(static_cast<size_t>(batch.scored), 0);
    }
    if (task == single_label) batch.tensors.ints("labels").assign(labels.begin(), labels.end());
    if (task == regression || task == multi_label) batch.tensors.floats("labels") = labels;
    for (float x : floats(file, "start_positions"))
      batch.tensors.ints("start_positions").push_back(static_cast<int32_t>(x));
    for (float x : floats(file, "end_positions"))
      batch.tensors.ints("end_positions").push_back(static_cast<int32_t>(x));
  }
};

struct TinyModel {
  std::string folder;
  nlohmann::json config;
  std::unique_ptr<TaskModel> model;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Session> session;
  std::unique_ptr<SafetensorsFile> expected;
  std::unique_ptr<Golden> golden;

  TinyModel(const Head& head, const std::string& device, double weight_decay = 0,
            const char* activation = nullptr) {
    folder = source_path("tests/golden/") + head.folder;
    FileSystem& fs = real_file_system();
    config = read_json(fs, folder + "/config.json");
    if (activation) config["hidden_act"] = activation;
    model = make_model(parse_model_config(config, "config.json"), head.task(head.labels));
    backend = open_device(device, {2});
    Session::Options options;
    options.program.optimizer = AdamWOptions{.weight_decay = weight_decay};
    session = std::make_unique<Session>(*backend, *model, options);
    const auto checkpoint = open_checkpoint(fs, folder);
    const LoadReport report = load_parameters(
        *model, *checkpoint, [&](int i, const TensorView& v) { session->parameters().write(i, v); });
    EXPECT_EQ(to_string(report, *model, folder), "");
    expected = std::make_unique<SafetensorsFile>(SafetensorsFile::open(fs, folder + "/expected.safetensors"));
    golden = std::make_unique<Golden>(SafetensorsFile::open(fs, folder + "/batch.safetensors"), head.task);
  }

  /// Stored logits in the order of the packed ones.
  std::vector<float> expected_logits(MakeTask task) const {
    if (task == question_answering) {
      const auto start = floats(*expected, "start_logits"), end = floats(*expected, "end_logits");
      const int64_t width = expected->find("start_logits")->shape[1];
      std::vector<float> all;
      for (const auto& place : golden->places) {
        all.push_back(start[static_cast<size_t>(place[0] * width + place[1])]);
        all.push_back(end[static_cast<size_t>(place[0] * width + place[1])]);
      }
      return all;
    }
    const auto logits = floats(*expected, "logits");
    if (task != masked_lm && task != causal_lm) return logits;
    const Shape shape = expected->find("logits")->shape;
    std::vector<float> all;
    for (const auto& place : golden->places)
      for (int64_t v = 0; v < shape[2]; ++v)
        all.push_back(logits[static_cast<size_t>((place[0] * shape[1] + place[1]) * shape[2] + v)]);
    return all;
  }
};

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (float v : x) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

class TinyModels : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    LATHE_NEEDS_DEVICE(device());
    if (!decodes(head())) return;
    if (device() == "cuda") GTEST_SKIP() << "cuda has no decoders so far";
    setenv("LATHE_MPS_FALLBACK", "1", 1);  // mlx runs a part of them on the CPU
  }
  void TearDown() override {
    if (decodes(head())) unsetenv("LATHE_MPS_FALLBACK");
  }
  const Head& head() const { return kHeads[std::get<1>(GetParam())]; }
  const std::string& device() const { return std::get<0>(GetParam()); }
};

TEST_P(TinyModels, LogitsAndLossEqualTheStoredOnes) {
  TinyModel s(head(), device());
  std::vector<float> logits;
  const float loss = s.session->evaluate(s.golden->batch, logits);
  const auto wanted = s.expected_logits(head().task);
  ASSERT_EQ(logits.size(), wanted.size());
  double scale = 0;
  for (float x : wanted) scale = std::max(scale, std::abs(static_cast<double>(x)));
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(logits[i], wanted[i], 5e-6 * scale) << i;
  EXPECT_NEAR(loss, floats(*s.expected, "loss")[0], 5e-6 * loss);
}

/// What rounding leaves of a gradient that is mathematically zero; 0 for the others.  The two of
/// qa_outputs.bias are each a sum of probabilities less 1: an ulp of 1.  That of a key's bias adds up a row
/// for each token, each with an ulp of its size, which that of the weight tells: its rows of inputs are
/// longer than 1.
double of_zero(const TinyModel& s, const std::string& parameter) {
  if (parameter == "qa_outputs.bias") return std::sqrt(2.0) * 0x1p-23;
  if (!parameter.ends_with(".key.bias") && !parameter.ends_with(".k_lin.bias")) return 0;
  const std::string weight = parameter.substr(0, parameter.size() - 4) + "weight";
  return 0x1p-23 * std::sqrt(s.golden->batch.real_tokens()) * norm(floats(*s.expected, "grad." + weight));
}

// ‖Δ‖ ≤ 1e-5 · max(‖g‖, 1e-3 · global norm), or what rounding leaves.
TEST_P(TinyModels, EveryGradientEqualsTheStoredOne) {
  TinyModel s(head(), device());
  StepScalars scalars;
  s.session->collect(s.session->accumulate(s.golden->batch, scalars));
  const std::vector<float> flat = s.session->parameters().read_state("gradients");
  const nn::Layout& layout = s.session->parameters().layout();
  double global = 0;
  for (float g : flat) global += static_cast<double>(g) * g;
  global = std::sqrt(global);
  for (size_t i = 0; i < s.model->parameters().size(); ++i) {
    const nn::Parameter& p = s.model->parameters()[i];
    const auto wanted = floats(*s.expected, "grad." + p.name);
    ASSERT_EQ(static_cast<int64_t>(wanted.size()), elements(p.shape)) << p.name;
    std::vector<float> difference(wanted.size());
    for (size_t k = 0; k < wanted.size(); ++k)
      difference[k] = flat[static_cast<size_t>(layout.parameters[i].offset) + k] - wanted[k];
    EXPECT_LE(norm(difference), std::max(1e-5 * std::max(norm(wanted), 1e-3 * global), of_zero(s, p.name)))
        << p.name << ", norm " << norm(wanted);
  }
}

void expect_all_steps(TinyModel& s, const nlohmann::json& trace) {
  for (int step = 0; step < static_cast<int>(trace["losses"].size()); ++step) {
    StepScalars scalars;
    scalars.learning_rate = trace["learning_rates"][static_cast<size_t>(step)];
    scalars.update_step = scalars.adam_step = step + 1;
    const auto outcome = s.session->collect(s.session->step(s.golden->batch, scalars));
    const double loss = trace["losses"][static_cast<size_t>(step)];
    const double grad_norm = trace["grad_norms"][static_cast<size_t>(step)];
    EXPECT_NEAR(outcome.loss, loss, 5e-6 * std::max(1.0, loss)) << "step " << step;
    EXPECT_NEAR(outcome.grad_norm, grad_norm, 1e-5 * grad_norm) << "step " << step;
  }
}

TEST_P(TinyModels, StepsOfTrainingEqualTheStoredOnes) {
  TinyModel s(head(), device(), 0.01);
  expect_all_steps(s, read_json(real_file_system(), s.folder + "/trace.json"));
}

/// Python's optimizer state names parameters only by their order.
TEST_P(TinyModels, ParametersComeInTheOrderOfTransformers) {
  TinyModel s(head(), device());
  const nlohmann::json trace = read_json(real_file_system(), s.folder + "/trace.json");
  if (!trace.contains("parameters")) GTEST_SKIP() << "the order of these was not stored";
  std::vector<std::string> names, decayed;
  for (const nn::Parameter& p : s.model->parameters()) {
    names.push_back(p.name);
    if (p.decay) decayed.push_back(p.name);
  }
  std::sort(decayed.begin(), decayed.end());
  EXPECT_EQ(names, trace["parameters"].get<std::vector<std::string>>());
  EXPECT_EQ(decayed, trace["decayed"].get<std::vector<std::string>>());
}

/// A checkpoint without the model's head.
class BaseAlone : public Checkpoint {
 public:
  BaseAlone(std::unique_ptr<Checkpoint> all, const std::string& prefix) : all_(std::move(all)) {
    for (const std::string& name : all_->names())
      if (name.starts_with(prefix)) names_.push_back(name);
  }
  const std::vector<std::string>& names() const override { return names_; }
  const TensorView* find(std::string_view name) const override {
    return std::binary_search(names_.begin(), names_.end(), name) ? all_->find(name) : nullptr;
  }
  std::string file_of(std::string_view name) const override { return all_->file_of(name); }

 private:
  std::unique_ptr<Checkpoint> all_;
  std::vector<std::string> names_;
};

// log, sin and cos of PyTorch and of the C library are each within 2 units in the last place of a float, at a
// radius of at most 5.8 (torch_random_test): 6 · 5.8 · 2⁻²³ of the standard deviation.
TEST(TinyModelsNewHead, StartsAsInTransformers) {
  const std::string root = source_path("tests/golden/tiny_modernbert/");
  FileSystem& fs = real_file_system();
  const nlohmann::json wanted = read_json(fs, root + "new_head.json");
  AutoModel m = from_config(read_model_config(fs, root + "classification"), {single_label, {"a", "b", "c"}},
                            std::nullopt);
  m.checkpoint = std::make_unique<BaseAlone>(open_checkpoint(fs, root + "classification"), "model.");
  const auto backend = open_device("cpu", {1});
  Session session(*backend, *m.model, {});
  const LoadReport report = initialize(session.parameters(), m, wanted["seed"].get<uint64_t>());
  EXPECT_EQ(report.missing.size(), 4u);  // and the norm's weight, the classifier's bias
  for (const char* name : {"head.dense.weight", "classifier.weight"}) {
    const int index = m.model->find(name);
    const double stddev = m.model->parameters()[static_cast<size_t>(index)].stddev;
    const auto values = session.parameters().read(index);
    ASSERT_EQ(values.size(), wanted[name].size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], wanted[name][i].get<double>(), 6 * 5.8 * 0x1p-23 * stddev) << name << " " << i;
  }
}

TEST(TinyModelsActivations, StepsOfTrainingEqualTheStoredOnes) {
  const std::string folder = source_path("tests/golden/tiny_bert/classification");
  const nlohmann::json traces = read_json(real_file_system(), folder + "/activations.json");
  for (const char* device : {"ref", "cpu"})
    for (const char* activation : {"gelu_python", "relu", "tanh"}) {
      SCOPED_TRACE(fmt::format("{} {}", device, activation));
      TinyModel s(kHeads[0], device, 0.01, activation);
      expect_all_steps(s, traces[activation]);
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, TinyModels,
                         testing::Combine(devices_under_test(),
                                          testing::Range(0, static_cast<int>(std::size(kHeads)))),
                         [](const auto& i) {
                           std::string name =
                               std::get<0>(i.param) + "_" + kHeads[std::get<1>(i.param)].folder;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace lathe::tiny_models_test
