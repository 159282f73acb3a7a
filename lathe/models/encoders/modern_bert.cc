#include "lathe/models/encoders/modern_bert.h"

#include <cmath>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/models/encoders/sentence_head.h"
#include "lathe/models/family_model.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/rotary.h"

namespace lathe {

const Family kModernBert{
    .model_type = "modernbert",
    .class_prefix = "ModernBert",
    .base = "model",
    .layers = ".layers.",
    .defaults = {.model_type = "modernbert",
                 .vocab_size = 50368,
                 .num_hidden_layers = 22,
                 .intermediate_size = 1152,
                 .max_position_embeddings = 8192,
                 .type_vocab_size = 0,
                 .pad_token_id = 50283,
                 .hidden_dropout_prob = 0,
                 .attention_probs_dropout_prob = 0,
                 .classifier_dropout = 0,
                 .layer_norm_eps = 1e-5},
    .keys = {.type_vocab_size = nullptr,
             .hidden_act = "hidden_activation",
             .hidden_dropout_prob = "embedding_dropout",
             .attention_probs_dropout_prob = "attention_dropout",
             .layer_norm_eps = "norm_eps",
             .qa_dropout = "classifier_dropout",
             .mlp_dropout = "mlp_dropout"},
    .own_head_dropout = true,
    .modern = true,
};

namespace {

// How transformers starts what leads back into the residual stream, and the last layer of a head.
nn::LinearOptions leading_out(const ModelConfig& c, bool bias) {
  return {bias, nn::Init::kTruncated,
          c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers))};
}
nn::LinearOptions leading_in(const ModelConfig& c, bool bias) {
  return {bias, nn::Init::kTruncated, c.initializer_range};
}
nn::LinearOptions last(const ModelConfig& c) {
  return {true, nn::Init::kTruncated, 1 / std::sqrt(static_cast<double>(c.hidden_size))};
}

nn::LayerNorm norm_of(nn::Module& m, const ModelConfig& c, const std::string& name) {
  return {m, name, c.hidden_size, c.layer_norm_eps, c.modern.norm_bias};
}

struct ModernLayer {
  std::optional<nn::LayerNorm> attention_norm;  ///< the first layer has none: the embeddings are normalised
  nn::Linear query_key_value, attention_output;
  nn::LayerNorm mlp_norm;
  nn::Linear input_and_gate, output;
  nn::Rotary rotary;
  nn::Attention attention;
  nn::Dropout attention_dropout, mlp_dropout;

  ModernLayer(nn::Module& m, const ModelConfig& c, const std::string& name, size_t index)
      : attention_norm(index == 0 ? std::nullopt : std::optional(norm_of(m, c, name + ".attn_norm"))),
        query_key_value(m, name + ".attn.Wqkv", c.hidden_size, 3 * c.hidden_size,
                        leading_in(c, c.modern.attention_bias)),
        attention_output(m, name + ".attn.Wo", c.hidden_size, c.hidden_size,
                         leading_out(c, c.modern.attention_bias)),
        mlp_norm(norm_of(m, c, name + ".mlp_norm")),
        input_and_gate(m, name + ".mlp.Wi", c.hidden_size, 2 * c.intermediate_size,
                       leading_in(c, c.modern.mlp_bias)),
        output(m, name + ".mlp.Wo", c.intermediate_size, c.hidden_size, leading_out(c, c.modern.mlp_bias)),
        rotary(m, heads_of(c),
               rotary_frequencies(heads_of(c).width,
                                  c.modern.local[index] ? c.modern.local_theta : c.modern.global_theta)),
        attention(m, name + ".attn", heads_of(c),
                  {.p = c.attention_probs_dropout_prob,
                   .window = c.modern.local[index] ? c.modern.window : 0,
                   .longest = c.max_position_embeddings}),
        attention_dropout(m, name + ".attn.out_drop", c.attention_probs_dropout_prob),
        mlp_dropout(m, name + ".mlp.drop", c.mlp_dropout) {}

  /// [N, C] → [N, C], or those of `wanted`
  Value operator()(Value x, const TokenRows& wanted) const {
    const Value qkv = query_key_value(attention_norm ? (*attention_norm)(x) : x);
    const Value context = wanted.of(attention(rotary(qkv)));
    const Value residual = wanted.of(x);
    const Value attended = add(wanted.drop(attention_dropout, attention_output(context)), residual);
    const Value expanded = wanted.drop(mlp_dropout, gated(input_and_gate(mlp_norm(attended)), "gelu"));
    return add(output(expanded), attended);
  }
};

/// transformers' ModernBertPredictionHead.
struct PredictionHead {
  nn::Linear dense;
  nn::LayerNorm norm;
  std::string act;

  PredictionHead(nn::Module& m, const ModelConfig& c)
      : dense(m, "head.dense", c.hidden_size, c.hidden_size, leading_out(c, c.modern.classifier_bias)),
        norm(norm_of(m, c, "head.norm")),
        act(c.modern.classifier_activation) {}
  Value operator()(Value x) const { return norm(activate(act, dense(x))); }
};

class ModernEncoder : public FamilyModel {
 public:
  ModernEncoder(const ModelConfig& c, const TaskPtr& task)
      : FamilyModel(c, task),
        words_(*this, "model.embeddings.tok_embeddings", c.vocab_size, c.hidden_size, c.pad_token_id,
               nn::Init::kTruncated),
        embedding_norm_(norm_of(*this, c, "model.embeddings.norm")),
        embedding_dropout_(*this, "model.embeddings.drop", c.hidden_dropout_prob),
        layers_(layers(c)),
        final_norm_(norm_of(*this, c, "model.final_norm")) {}
  /// [N, C]
  Value base_output() override { return base_output_of({}); }

 protected:
  /// [N, C], or the wanted rows of it.
  Value base_output_of(const TokenRows& wanted) const {
    const Value words = embedding_norm_(words_(trace().inputs->token("input_ids")));
    return final_norm_(through(layers_, embedding_dropout_(cast(words, trace().dtype)), wanted));
  }

  nn::Embedding words_;

 private:
  std::vector<ModernLayer> layers(const ModelConfig& c) {
    std::vector<ModernLayer> all;
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      all.emplace_back(*this, c, fmt::format("{}{}{}", family_.base, family_.layers, i),
                       static_cast<size_t>(i));
    return all;
  }

  nn::LayerNorm embedding_norm_;
  nn::Dropout embedding_dropout_;
  std::vector<ModernLayer> layers_;
  nn::LayerNorm final_norm_;
};

class ModernClassification : public ModernEncoder {
 public:
  ModernClassification(const ModelConfig& c, const TaskPtr& task)
      : ModernEncoder(c, task),
        prediction_(*this, c),
        dropout_(*this, "drop", c.classifier_dropout),
        output_(*this, "classifier", c.hidden_size, task->head().labels, last(c)) {}
  /// The first token's row, or the mean of all, [B, C].
  Value base_output() override {
    nn::Inputs& inputs = *trace().inputs;
    return config_.modern.mean_pooling ? segment_mean(ModernEncoder::base_output(), inputs.bounds())
                                       : base_output_of({inputs.row("cls_index")});
  }
  HeadOutput head(Value base) override { return cast(output_(dropout_.rows(prediction_(base))), DType::f32); }

 private:
  PredictionHead prediction_;
  nn::Dropout dropout_;
  nn::Linear output_;
};

/// Scores of each token: transformers' classes for questions and for token labels.
class ModernTokens : public ModernEncoder {
 public:
  ModernTokens(const ModelConfig& c, const TaskPtr& task)
      : ModernEncoder(c, task),
        prediction_(*this, c),
        dropout_(*this, "drop", c.qa_dropout),
        output_(*this, "classifier", c.hidden_size, task->head().labels, last(c)) {}
  HeadOutput head(Value base) override { return cast(output_(dropout_(prediction_(base))), DType::f32); }

 private:
  PredictionHead prediction_;
  nn::Dropout dropout_;
  nn::Linear output_;
};

class ModernMaskedLm : public ModernEncoder {
 public:
  ModernMaskedLm(const ModelConfig& c, const TaskPtr& task)
      : ModernEncoder(c, task),
        prediction_(*this, c),
        bias_(c.modern.decoder_bias ? add_parameter({"decoder.bias", {c.vocab_size}, nn::Init::kZeros, false})
                                    : -1) {}
  /// [M, C]
  Value base_output() override { return base_output_of({trace().inputs->scored("scored_index"), true}); }
  HeadOutput head(Value base) override {
    const Value bias = bias_ < 0 ? Value{} : trace().blocks[static_cast<size_t>(bias_)];
    return {prediction_(base), words_.table(), bias};
  }
  std::vector<Tie> ties() const override {
    return {{"decoder.weight", "model.embeddings.tok_embeddings.weight"}};
  }
  bool divides_by_items() const override { return true; }

 private:
  PredictionHead prediction_;
  int bias_;  // −1: none
};

/// A vector of each text.
class ModernVectors : public ModernEncoder {
 public:
  ModernVectors(const ModelConfig& c, const TaskPtr& task) : ModernEncoder(c, task), head_(*this, c) {}
  int64_t hidden_size() const override { return head_.pooled_width(); }
  /// [B, hidden_size]
  Value base_output() override {
    return head_.pool(*trace().inputs, [this](const TokenRows& wanted) { return base_output_of(wanted); });
  }
  HeadOutput head(Value base) override { return head_.vectors(base); }

 private:
  SentenceHead head_;
};

}  // namespace

std::unique_ptr<TaskModel> make_modern_bert(const ModelConfig& config, const TaskPtr& task) {
  switch (task->head().kind) {
    case HeadKind::kSequenceClassification:
    case HeadKind::kMultipleChoice:
      return std::make_unique<ModernClassification>(config, task);
    case HeadKind::kMaskedLM:
      return std::make_unique<ModernMaskedLm>(config, task);
    case HeadKind::kSentenceVector:
      return std::make_unique<ModernVectors>(config, task);
    default:
      return std::make_unique<ModernTokens>(config, task);
  }
}

}  // namespace lathe
