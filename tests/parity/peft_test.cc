// LoRA of tiny random models against PEFT: the start, 50 losses and gradient norms, logits of its own
// adapter. Golden files: tests/golden/README.md.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/engine/session.h"
#include "lathe/io/json_file.h"
#include "lathe/io/safetensors.h"
#include "lathe/train/adapter/adapter_model.h"
#include "tests/device_under_test.h"
#include "tests/parity/stored_batch.h"

namespace lathe::peft_test {
namespace {

PackedBatch labelled_batch(const SafetensorsFile& file) {
  PackedBatch batch = packed_batch(file);
  const auto labels = floats(file, "labels");
  batch.tensors.ints("labels").assign(labels.begin(), labels.end());
  return batch;
}

class Peft : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override { LATHE_NEEDS_DEVICE(std::get<0>(GetParam())); }
  std::string base() const {
    return source_path("tests/golden/tiny_") + std::get<1>(GetParam()) + "/classification";
  }
  std::string folder() const { return source_path("tests/golden/peft/") + std::get<1>(GetParam()); }
  nlohmann::json trace() const { return read_json(real_file_system(), folder() + "/trace.json"); }

  AutoModel adapted(MakeTask task) const {
    AutoModel model = from_pretrained(real_file_system(), {base(), base(), ""}, {task, {}, false});
    Adapter adapter;
    const nlohmann::json stored = trace();
    adapter.options.rank = stored["r"];
    adapter.options.alpha = stored["lora_alpha"];
    if (!stored["targets"].is_null()) adapter.options.targets = stored["targets"];
    add_adapter(model, std::move(adapter), true);
    return model;
  }
  std::unique_ptr<Session> session_of(Backend& backend, AutoModel& model) const {
    Session::Options options;
    options.program.optimizer = AdamWOptions{.weight_decay = 0.01};
    auto session = std::make_unique<Session>(backend, *model.model, options);
    initialize(session->parameters(), model, trace()["seed"].get<uint64_t>());
    return session;
  }
  /// All that is trained, equal to a file of PEFT's.  exact: of A; a head's normal numbers are rounded.
  void expect_start(const Session& session, const std::string& file) const {
    const SafetensorsFile stored = SafetensorsFile::open(real_file_system(), folder() + "/" + file);
    size_t found = 0;
    const auto& all = session.model().parameters();
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].trainable) continue;
      const auto wanted = floats(stored, "base_model.model." + all[i].name);
      const auto values = session.parameters().read(static_cast<int>(i));
      ASSERT_EQ(values.size(), wanted.size()) << all[i].name;
      for (size_t k = 0; k < values.size(); ++k)
        if (all[i].of_adapter)
          EXPECT_EQ(values[k], wanted[k]) << all[i].name << " " << k;
        else
          EXPECT_NEAR(values[k], wanted[k], 1e-7) << all[i].name << " " << k;
      ++found;
    }
    EXPECT_EQ(found, stored.names().size());
  }
};

TEST_P(Peft, StartsAsPeftDoesAlsoAfterANewHead) {
  const auto backend = open_device(std::get<0>(GetParam()), {2});
  AutoModel model = adapted(single_label), question = adapted(question_answering);
  expect_start(*session_of(*backend, model), "start.safetensors");
  expect_start(*session_of(*backend, question), "new_head.safetensors");
  std::vector<std::string> trainable;
  for (const nn::Parameter& p : model.model->parameters())
    if (p.trainable) trainable.push_back("base_model.model." + p.name);
  EXPECT_EQ(nlohmann::json(trainable), trace()["trainable"]);
}

TEST_P(Peft, FiftyLossesAndNorms) {
  const auto backend = open_device(std::get<0>(GetParam()), {2});
  AutoModel model = adapted(single_label);
  const auto session = session_of(*backend, model);
  const PackedBatch batch =
      labelled_batch(SafetensorsFile::open(real_file_system(), base() + "/batch.safetensors"));
  const nlohmann::json stored = trace();
  for (size_t step = 0; step < stored["losses"].size(); ++step) {
    StepScalars scalars;
    scalars.learning_rate = stored["learning_rates"][step];
    scalars.update_step = scalars.adam_step = static_cast<int64_t>(step) + 1;
    const double loss = stored["losses"][step], norm = stored["grad_norms"][step];
    const Session::Outcome outcome = session->collect(session->step(batch, scalars));
    EXPECT_NEAR(outcome.loss, loss, 5e-6 * std::max(1.0, loss)) << "step " << step;
    EXPECT_NEAR(outcome.grad_norm, norm, 2e-5 * std::max(1.0, norm)) << "step " << step;
  }
}

TEST_P(Peft, ItsAdapterGivesItsLogits) {
  const auto backend = open_device(std::get<0>(GetParam()), {2});
  ModelFolders folders = folders_of(real_file_system(), folder() + "/adapter",
                                    [](const std::string& base) { return source_path(base); });
  folders.tokenizer = "";
  AutoModel model = from_pretrained(real_file_system(), folders, {single_label, {}, false});
  const auto session = session_of(*backend, model);
  std::vector<float> logits;
  session->evaluate(labelled_batch(SafetensorsFile::open(real_file_system(), base() + "/batch.safetensors")),
                    logits);
  size_t i = 0;
  const nlohmann::json stored = trace()["logits"];
  for (const auto& row : stored)
    for (const double wanted : row) EXPECT_NEAR(logits[i++], wanted, 1e-5 * std::max(1.0, std::abs(wanted)));
  EXPECT_EQ(i, logits.size());
}

INSTANTIATE_TEST_SUITE_P(Devices, Peft,
                         testing::Combine(devices_under_test(),
                                          testing::Values("bert", "roberta", "distilbert")),
                         [](const auto& i) { return std::get<0>(i.param) + "_" + std::get<1>(i.param); });

}  // namespace
}  // namespace lathe::peft_test
