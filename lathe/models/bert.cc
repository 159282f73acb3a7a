#include "lathe/models/bert.h"

#include <algorithm>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"

namespace lathe {
namespace {

/// gelu_python is the same function as gelu, by erf.
Value activate(const std::string& name, Value x) {
  if (name == "relu") return relu(x);
  return name == "tanh" ? tanh(x) : gelu(x);
}

struct Embeddings {
  nn::Embedding word, position, token_type;
  nn::LayerNorm norm;
  nn::Dropout dropout;

  Embeddings(nn::Module& m, const BertConfig& c)
      : word(m, "bert.embeddings.word_embeddings", c.vocab_size, c.hidden_size),
        position(m, "bert.embeddings.position_embeddings", c.max_position_embeddings, c.hidden_size),
        token_type(m, "bert.embeddings.token_type_embeddings", c.type_vocab_size, c.hidden_size),
        norm(m, "bert.embeddings.LayerNorm", c.hidden_size, c.layer_norm_eps),
        dropout(m, "bert.embeddings.dropout", c.hidden_dropout_prob) {}

  /// [N, C]
  Value operator()(const nn::Trace& t) const {
    const Value sum =
        add(add(word(t.batch.input_ids), token_type(t.batch.token_type_ids)), position(t.batch.position_ids));
    return dropout(cast(norm(sum), t.dtype));
  }
};

struct Layer {
  nn::Linear query_key_value, attention_output;
  nn::LayerNorm attention_norm;
  nn::Linear intermediate, output;
  nn::LayerNorm output_norm;
  nn::Attention attention;
  nn::Dropout attention_dropout, output_dropout;
  std::string act;

  Layer(nn::Module& m, const BertConfig& c, const std::string& name)
      : query_key_value(
            m, {name + ".attention.self.query", name + ".attention.self.key", name + ".attention.self.value"},
            c.hidden_size, c.hidden_size),
        attention_output(m, name + ".attention.output.dense", c.hidden_size, c.hidden_size),
        attention_norm(m, name + ".attention.output.LayerNorm", c.hidden_size, c.layer_norm_eps),
        intermediate(m, name + ".intermediate.dense", c.hidden_size, c.intermediate_size),
        output(m, name + ".output.dense", c.intermediate_size, c.hidden_size),
        output_norm(m, name + ".output.LayerNorm", c.hidden_size, c.layer_norm_eps),
        attention(m, name + ".attention.self", c.num_attention_heads, c.attention_probs_dropout_prob),
        attention_dropout(m, name + ".attention.output.dropout", c.hidden_dropout_prob),
        output_dropout(m, name + ".output.dropout", c.hidden_dropout_prob),
        act(c.hidden_act) {}

  /// [N, C] → [N, C]
  Value operator()(Value x) const {
    const Value context = attention(query_key_value(x));
    const Value attended = attention_norm(add(attention_dropout(attention_output(context)), x));
    const Value expanded = activate(act, intermediate(attended));
    return output_norm(add(output_dropout(output(expanded)), attended));
  }
};

/// What all BERT models share: configuration and encoder.
class Bert : public TaskModel {
 public:
  Bert(const BertConfig& config, Problem problem)
      : TaskModel(problem), config_(config), embeddings_(*this, config) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i)
      layers_.emplace_back(*this, config, fmt::format("bert.encoder.layer.{}", i));
  }
  std::string base_prefix() const override { return "bert."; }
  double base_dropout() const override {
    return std::max(config_.hidden_dropout_prob, config_.attention_probs_dropout_prob);
  }
  int64_t hidden_size() const override { return config_.hidden_size; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  int64_t type_vocab_size() const override { return config_.type_vocab_size; }
  double initializer_range() const override { return config_.initializer_range; }
  /// [N, C]
  Value base_output() override {
    Value x = embeddings_(trace());
    for (size_t i = 0; i < layers_.size(); ++i) {
      std::optional<SegmentScope> recomputed;
      const int64_t every = trace().recompute_every;
      if (every > 0 && static_cast<int64_t>(i) % every == 0) recomputed.emplace(*x.program);
      x = layers_[i](x);
    }
    return x;
  }

 protected:
  BertConfig config_;
  Embeddings embeddings_;

 private:
  std::vector<Layer> layers_;
};

class SequenceClassification : public Bert {
 public:
  SequenceClassification(const BertConfig& c, Problem problem, int64_t num_labels)
      : Bert(c, problem),
        pooler_(*this, "bert.pooler.dense", c.hidden_size, c.hidden_size),
        dropout_(*this, "dropout", c.classifier_dropout),
        classifier_(*this, "classifier", c.hidden_size, num_labels) {}
  /// The pooled output, [B, C].
  Value base_output() override {
    return tanh(pooler_(gather_rows(Bert::base_output(), trace().batch.cls_index)));
  }
  Value head(Value base) override { return cast(classifier_(dropout_.rows(base)), DType::f32); }

 private:
  nn::Linear pooler_;
  nn::Dropout dropout_;
  nn::Linear classifier_;
};

class QuestionAnswering : public Bert {
 public:
  explicit QuestionAnswering(const BertConfig& c)
      : Bert(c, Problem::kQuestionAnswering), outputs_(*this, "qa_outputs", c.hidden_size, 2) {}
  Value head(Value base) override { return cast(outputs_(base), DType::f32); }

 private:
  nn::Linear outputs_;
};

class MaskedLm : public Bert {
 public:
  explicit MaskedLm(const BertConfig& c)
      : Bert(c, Problem::kMaskedLm),
        bias_(add_parameter({"cls.predictions.bias", {c.vocab_size}, nn::Init::kZeros, false})),
        transform_(*this, "cls.predictions.transform.dense", c.hidden_size, c.hidden_size),
        norm_(*this, "cls.predictions.transform.LayerNorm", c.hidden_size, c.layer_norm_eps) {}
  Value head(Value base) override {
    const Value x = norm_(activate(config_.hidden_act, transform_(base)));
    return cast(linear(x, embeddings_.word.table(), trace().blocks[static_cast<size_t>(bias_)]), DType::f32);
  }

 private:
  int bias_;
  nn::Linear transform_;
  nn::LayerNorm norm_;
};

}  // namespace

std::unique_ptr<TaskModel> make_bert(const BertConfig& config, Problem problem, int64_t num_labels) {
  switch (problem) {
    case Problem::kQuestionAnswering:
      return std::make_unique<QuestionAnswering>(config);
    case Problem::kMaskedLm:
      return std::make_unique<MaskedLm>(config);
    default:
      return std::make_unique<SequenceClassification>(config, problem, num_labels);
  }
}

std::string bert_architecture(Problem problem) {
  switch (problem) {
    case Problem::kQuestionAnswering:
      return "BertForQuestionAnswering";
    case Problem::kMaskedLm:
      return "BertForMaskedLM";
    default:
      return "BertForSequenceClassification";
  }
}

}  // namespace lathe
