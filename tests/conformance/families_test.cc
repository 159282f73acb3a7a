// What holds for BERT holds for every family: with dropout a run is a pure function of its arguments, a
// text's scores do not depend on the texts next to it, and evaluation in fewer bits stays near that in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "lathe/backends/register.h"
#include "lathe/core/philox.h"
#include "lathe/core/source_folder_testing.h"
#include "lathe/engine/session.h"
#include "lathe/io/json_file.h"
#include "lathe/models/make_model.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/linear.h"
#include "lathe/train/auto_model.h"

namespace lathe::families_test {
namespace {

/// The tiny models of tests/golden, with dropout wherever the family has one.
const char* const kFolders[] = {"tiny_bert/classification",        "tiny_roberta/classification",
                                "tiny_xlm_roberta/classification", "tiny_camembert/classification",
                                "tiny_distilbert/classification",  "tiny_electra/classification",
                                "tiny_modernbert/classification",  "tiny_modernbert/mean_pooling"};

struct Trained {
  std::vector<float> losses, state;
};

class Families : public testing::TestWithParam<const char*> {
 protected:
  Families() {
    const std::string folder = source_path("tests/golden/") + std::string(GetParam());
    nlohmann::json json = read_json(real_file_system(), folder + "/config.json");
    for (auto& [key, value] : json.items())
      if (key.find("dropout") != std::string::npos) value = 0.1;
    config_ = parse_model_config(json, "config.json");
    checkpoint_ = open_checkpoint(real_file_system(), folder);
  }

  /// A model with the stored weights.
  struct Loaded {
    AutoModel model;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Session> session;
  };
  Loaded load(int threads, DType dtype = DType::f32) const {
    Loaded l{from_config(config_, {single_label, {"a", "b", "c"}}, std::nullopt),
             open_device("cpu", {threads}), nullptr};
    Session::Options options;
    options.program.dtype = dtype;
    l.session = std::make_unique<Session>(*l.backend, *l.model.model, options);
    const LoadReport report = load_parameters(*l.model.model, *checkpoint_, [&](int i, const TensorView& v) {
      l.session->parameters().write(i, v);
    });
    EXPECT_TRUE(report.missing.empty());
    return l;
  }

  /// The samples of these numbers, in that order, and after them tokens of no sample.
  PackedBatch batch(const std::vector<int>& samples, int more_tokens = 0) const {
    PackedBatch b;
    b.rows = static_cast<int>(samples.size());
    b.cu_seqlens = {0};
    for (const int sample : samples) {
      const int length = 4 + 5 * sample % 15;
      b.longest_row = std::max(b.longest_row, length);
      b.cls_index.push_back(b.cu_seqlens.back());
      b.tensors.ints("labels").push_back(sample % 3);
      for (int t = 0; t < length; ++t) {
        b.input_ids.push_back(5 + (7 * sample + 11 * t) % 40);
        b.position_ids.push_back(t);
        b.sample_ids.push_back(sample);
      }
      b.cu_seqlens.push_back(static_cast<int32_t>(b.input_ids.size()));
    }
    b.tokens = (b.cu_seqlens.back() + 31) / 32 * 32 + more_tokens;
    for (auto* ids : {&b.input_ids, &b.position_ids, &b.sample_ids, &b.token_type_ids})
      ids->resize(static_cast<size_t>(b.tokens), 0);
    return b;
  }

  /// Three updates with dropout.
  Trained train(int threads, DType dtype) const {
    const Loaded l = load(threads, dtype);
    Trained trained;
    for (int step = 1; step <= 3; ++step) {
      StepScalars scalars;
      scalars.learning_rate = 1e-3;
      scalars.update_step = scalars.adam_step = step;
      trained.losses.push_back(l.session->collect(l.session->step(batch(kAll), scalars)).loss);
    }
    trained.state = l.session->parameters().read_state("parameters");
    return trained;
  }

  /// The loss with the masks of update 1.
  double loss_of(const Loaded& l, const PackedBatch& b) const {
    return l.session->collect(l.session->accumulate(b, StepScalars{})).loss;
  }

  const std::vector<int> kAll = {0, 1, 2, 3, 4, 5};
  ModelConfig config_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(Families, TrainingWithDropoutGivesTheSameBitsWithAnyNumberOfThreads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Trained one = train(1, dtype), three = train(3, dtype);
    EXPECT_NE(one.losses[0], one.losses[1]);
    EXPECT_EQ(one.losses, three.losses) << name_of(dtype);
    EXPECT_EQ(one.state, three.state) << name_of(dtype);
  }
}

/// Texts may hold the padding token.  torch.nn.Embedding's padding_idx: its row gets no gradient; so of
/// words, and of the positions that are numbered after it.
TEST_P(Families, ThePaddingTokenIsNotTrained) {
  PackedBatch b = batch(kAll);
  const auto pad = static_cast<size_t>(config_.pad_token_id);
  for (const size_t token : {2u, 9u, 14u}) b.input_ids[token] = static_cast<int32_t>(pad);
  const Loaded l = load(2);
  int tables = 0;
  const auto& parameters = l.model.model->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    const bool words = name.ends_with("word_embeddings.weight") || name.ends_with("tok_embeddings.weight");
    if (!words && !(l.model.model->position_padding() && name.ends_with("position_embeddings.weight")))
      continue;
    ++tables;
    const std::vector<float> before = l.session->parameters().read(static_cast<int>(i));
    l.session->collect(l.session->step(b, {.learning_rate = 1e-3}));
    const std::vector<float> after = l.session->parameters().read(static_cast<int>(i));
    const size_t width = static_cast<size_t>(parameters[i].shape[1]);
    for (size_t at = 0; at < width; ++at) {
      EXPECT_EQ(after[pad * width + at], before[pad * width + at]) << name;
      const size_t other = words ? static_cast<size_t>(b.input_ids[1]) : pad + 1;
      EXPECT_NE(after[other * width + at], before[other * width + at]) << name;
    }
  }
  EXPECT_EQ(tables, l.model.model->position_padding() ? 2 : 1);
}

/// Masks belong to samples: a batch's loss is the mean of the losses of its single samples, in any order.
/// The scores are the same bits; of the means each has at most a sum of six terms and a division.
TEST_P(Families, MasksDoNotDependOnThePacking) {
  const Loaded l = load(2);
  double mean = 0;
  for (const int sample : kAll) mean += loss_of(l, batch({sample})) / static_cast<double>(kAll.size());
  const double rounding = 2 * 7 * 0x1p-24 * mean;
  EXPECT_NEAR(loss_of(l, batch(kAll)), mean, rounding);
  EXPECT_NEAR(loss_of(l, batch({5, 3, 1, 0, 2, 4}, 64)), mean, rounding);
  std::vector<float> logits;
  EXPECT_GT(std::abs(l.session->evaluate(batch(kAll), logits) - mean),
            10 * rounding);  // something is dropped
}

TEST_P(Families, ScoresOfATextDoNotDependOnTheTextsBesideIt) {
  const Loaded l = load(2);
  std::vector<float> together, turned, alone;
  l.session->evaluate(batch(kAll), together);
  l.session->evaluate(batch({5, 4, 3, 2, 1, 0}, 32), turned);
  for (const int sample : kAll) {
    l.session->evaluate(batch({sample}), alone);
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(together[static_cast<size_t>(3 * sample + k)], alone[static_cast<size_t>(k)]);
      EXPECT_EQ(turned[static_cast<size_t>(3 * (5 - sample) + k)], alone[static_cast<size_t>(k)]);
    }
  }
}

/// Where only first tokens are read, the last layer computes no other row after its attention; the head, of
/// two layers, has a row for each sample as well.
TEST_P(Families, TheLastLayerComputesOnlyTheRowsThatAreRead) {
  const Loaded l = load(1);
  const int64_t layers = config_.num_hidden_layers, tokens = 64, rows = 6;
  const bool pools_all = config_.model_type == "modernbert" && config_.modern.mean_pooling;
  const bool projects = config_.embedding_size > 0 && config_.embedding_size != config_.hidden_size;
  const int64_t left_out = pools_all ? 0 : 3;
  for (const ProgramKind kind : {ProgramKind::kEvaluate, ProgramKind::kStep}) {
    const auto program = build_program(*l.model.model, kind, {tokens, rows}, {});
    int64_t of_tokens = 0, of_rows = 0;
    for (const Node& node : program->nodes()) {
      if (node.op != &op::linear) continue;
      const int64_t lines = program->type(node.out[0]).shape[0];
      of_tokens += lines == tokens, of_rows += lines == rows;
    }
    EXPECT_EQ(of_tokens, 4 * layers - left_out + projects);
    EXPECT_EQ(of_rows, left_out + 2);
  }
}

/// The sites of a program's dropout, with their probabilities; attention's under the site 0, which no name
/// has.
std::map<int64_t, double> dropout_of(const Program& program) {
  std::map<int64_t, double> found;
  for (const Node& node : program.nodes()) {
    const bool attends = node.op == &op::attention;
    if (attends || node.op == &op::dropout) found[attends ? 0 : node.attrs.i("site")] = node.attrs.f("p");
  }
  return found;
}

/// Dropout stands where transformers has it, with the probability that it has there, and its masks come from
/// the same sites for all families.
TEST_P(Families, DropoutStandsWhereTransformersHasIt) {
  const bool modern = config_.model_type == "modernbert", distil = config_.model_type == "distilbert",
             pools = config_.model_type == "bert", own_head = distil || modern;
  const std::string base = modern                                      ? "model"
                           : pools                                     ? "bert"
                           : distil || config_.model_type == "electra" ? config_.model_type
                                                                       : "roberta";
  constexpr double kHidden = 0.1, kAttention = 0.2, kMlp = 0.3, kClassifier = 0.4, kAnswers = 0.5;
  config_.hidden_dropout_prob = kHidden, config_.attention_probs_dropout_prob = kAttention;
  config_.mlp_dropout = kMlp, config_.classifier_dropout = kClassifier;
  if (own_head) config_.qa_dropout = kAnswers;
  std::map<int64_t, double> wanted{
      {0, kAttention},
      {dropout_site(modern ? "model.embeddings.drop" : base + ".embeddings.dropout"), kHidden}};
  int64_t attentions = 0;
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("{}{}{}", base,
                                          modern   ? ".layers."
                                          : distil ? ".transformer.layer."
                                                   : ".encoder.layer.",
                                          i);
    if (modern)
      wanted[dropout_site(layer + ".attn.out_drop")] = kAttention;
    else if (!distil)
      wanted[dropout_site(layer + ".attention.output.dropout")] = kHidden;
    wanted[dropout_site(layer + (modern ? ".mlp.drop" : ".output.dropout"))] = modern ? kMlp : kHidden;
  }
  std::map<int64_t, double> of_answers = wanted;
  if (own_head) of_answers[dropout_site(modern ? "drop" : "qa_outputs.dropout")] = kAnswers;
  wanted[dropout_site(modern ? "drop" : "dropout")] = kClassifier;
  // After RoBERTa's and ELECTRA's dense layer and before it.
  if (!pools && !own_head) wanted[dropout_site("classifier.first_dropout")] = kClassifier;
  const Loaded l = load(1);
  const auto program = build_program(*l.model.model, ProgramKind::kStep, {64, 6}, {});
  EXPECT_EQ(dropout_of(*program), wanted);
  for (const Node& node : program->nodes()) attentions += node.op == &op::attention;
  EXPECT_EQ(attentions, config_.num_hidden_layers);
  const auto answers = make_model(config_, question_answering());
  EXPECT_EQ(dropout_of(*build_program(*answers, ProgramKind::kStep, {64, 6}, {})), of_answers);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

/// Errors relative to the norm of what they are errors of, added up along the model without cancelling.
/// bf16 rounds each tensor on the way by at most 2⁻⁸: in a layer at most 11 (q, k, v; turned; context; after
/// each of four products an output, a sum or an activation; two norms), and four in embeddings and head.
/// int8 rounds an element of a row of k by at most a/254, a the row's largest: uniformly, so by a/254 ·
/// √(k/3) over the row, whose norm is at least a.  Counted for both factors, of four products in a layer and
/// two after the layers.
TEST_P(Families, EvaluationInFewerBitsStaysNear) {
  const Loaded l = load(2);
  std::vector<float> full, bf16, int8;
  l.session->evaluate(batch(kAll), full);
  l.session->evaluate(batch(kAll), bf16, {}, DType::bf16);
  l.session->evaluate(batch(kAll), int8, {}, {}, nn::Quantization::kInt8);
  const double size = distance(full, std::vector<float>(full.size(), 0)),
               layers = static_cast<double>(config_.num_hidden_layers),
               k = static_cast<double>(std::max(config_.hidden_size, config_.intermediate_size));
  EXPECT_LE(distance(full, bf16), (11 * layers + 4) * 0x1p-8 * size);
  EXPECT_LE(distance(full, int8), (4 * layers + 2) * 2 * std::sqrt(k / 3) / 254 * size);
  EXPECT_GT(distance(full, bf16), 0);
  EXPECT_GT(distance(full, int8), 0);
  RecordProperty("bf16", fmt::format("{}", distance(full, bf16) / size));
  RecordProperty("int8", fmt::format("{}", distance(full, int8) / size));
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(kFolders), [](const auto& i) {
  std::string name = i.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
});

}  // namespace
}  // namespace lathe::families_test
