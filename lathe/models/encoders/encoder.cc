#include "lathe/models/encoders/encoder.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"
#include "lathe/models/encoders/modern_bert.h"
#include "lathe/models/encoders/sentence_head.h"
#include "lathe/models/family_model.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"

namespace lathe {
namespace {

int64_t embedding_size(const ModelConfig& c) {
  return c.embedding_size > 0 ? c.embedding_size : c.hidden_size;
}

struct Embeddings {
  nn::Embedding word;
  std::optional<nn::Embedding> position, token_type;
  std::optional<nn::LayerNorm> norm;
  nn::Dropout dropout;
  std::optional<nn::Linear> projection;
  const char* positions;  ///< the input that numbers them

  Embeddings(nn::Module& m, const ModelConfig& c, const Family& family)
      : word(m, part(family, "word_embeddings"), c.vocab_size, embedding_size(c), c.pad_token_id),
        dropout(m, part(family, "dropout"), c.hidden_dropout_prob),
        positions(family.positions_after_padding ? "position_rows" : "position_ids") {
    const int64_t width = embedding_size(c);
    const auto add_positions = [&] {
      position.emplace(m, part(family, "position_embeddings"), c.max_position_embeddings, width,
                       family.positions_after_padding ? c.pad_token_id : -1);
    };
    if (!family.positions_last) add_positions();
    if (c.type_vocab_size > 0)
      token_type.emplace(m, part(family, "token_type_embeddings"), c.type_vocab_size, width);
    norm.emplace(m, part(family, "LayerNorm"), width, c.layer_norm_eps);
    if (family.positions_last) add_positions();
    if (width != c.hidden_size)
      projection.emplace(m, std::string(family.base) + ".embeddings_project", width, c.hidden_size);
  }

  static std::string part(const Family& family, const char* name) {
    return fmt::format("{}.embeddings.{}", family.base, name);
  }

  /// [N, C]
  Value operator()(const nn::Trace& t) const {
    nn::Inputs& inputs = *t.inputs;
    Value sum = word(inputs.token("input_ids"));
    if (token_type) sum = add(sum, (*token_type)(inputs.token("token_type_ids")));
    sum = add(sum, (*position)(inputs.token(positions)));
    const Value x = dropout(cast((*norm)(sum), t.dtype));
    return projection ? (*projection)(x) : x;
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

  Layer(nn::Module& m, const ModelConfig& c, const Family& family, const std::string& name)
      : Layer(m, c, family.layer, name, family.attention_output_dropout ? c.hidden_dropout_prob : 0) {}
  Layer(nn::Module& m, const ModelConfig& c, const LayerNames& names, const std::string& name,
        double attention_output_p)
      : query_key_value(m, {name + names.query, name + names.key, name + names.value}, c.hidden_size,
                        c.hidden_size),
        attention_output(m, name + names.attention_output, c.hidden_size, c.hidden_size),
        attention_norm(m, name + names.attention_norm, c.hidden_size, c.layer_norm_eps),
        intermediate(m, name + names.intermediate, c.hidden_size, c.intermediate_size),
        output(m, name + names.output, c.intermediate_size, c.hidden_size),
        output_norm(m, name + names.output_norm, c.hidden_size, c.layer_norm_eps),
        attention(m, name + ".attention.self", heads_of(c),
                  {.p = c.attention_probs_dropout_prob, .longest = c.max_position_embeddings}),
        attention_dropout(m, name + ".attention.output.dropout", attention_output_p),
        output_dropout(m, name + ".output.dropout", c.hidden_dropout_prob),
        act(c.hidden_act) {}

  /// [N, C] → [N, C], or those of `wanted`
  Value operator()(Value x, const TokenRows& wanted) const {
    const Value context = wanted.of(attention(query_key_value(x)));
    // Before dropout: its gradient then follows the norm's, and is fused into it.
    const Value residual = wanted.of(x);
    const Value attended =
        attention_norm(add(wanted.drop(attention_dropout, attention_output(context)), residual));
    const Value expanded = activate(act, intermediate(attended));
    return output_norm(add(wanted.drop(output_dropout, output(expanded)), attended));
  }
};

/// Family's embeddings and layers, which normalise after each sublayer.
class Encoder : public FamilyModel {
 public:
  using FamilyModel::FamilyModel;
  /// [N, C]
  Value base_output() override { return base_output_of({}); }

 protected:
  /// [N, C], or the wanted rows of it.
  Value base_output_of(const TokenRows& wanted) const {
    return through(layers_, (*embeddings_)(trace()), wanted);
  }
  /// For constructors: declares the base, and the head by `declare_head`, in the family's order.
  void declare_all(const std::function<void()>& declare_head) {
    if (family_.head_first) declare_head();
    embeddings_.emplace(*this, config_, family_);
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i)
      layers_.emplace_back(*this, config_, family_, fmt::format("{}{}{}", family_.base, family_.layers, i));
    if (!family_.head_first) declare_head();
  }

  std::optional<Embeddings> embeddings_;

 private:
  std::vector<Layer> layers_;
};

/// Scores of each row from its first token: a dense layer, its activation, dropout, the last layer.
class RowScores : public Encoder {
 public:
  /// The first token's row, [B, C]; pooled where the pooler is the base's.
  Value base_output() override {
    const Value first = base_output_of({trace().inputs->row("cls_index")});
    return in_base_ ? pooled(first) : first;
  }
  HeadOutput head(Value base) override {
    return cast((*output_)(dropout_.rows(in_base_ ? base : pooled(base))), DType::f32);
  }

 protected:
  /// in_base: the dense layer is the base's pooler.
  RowScores(const ModelConfig& c, const TaskPtr& task, bool in_base, const char* activation, double dropout)
      : Encoder(c, task), in_base_(in_base), activation_(activation), dropout_(*this, "dropout", dropout) {}
  virtual Value before_dense(Value first) const { return first; }

  std::optional<nn::Linear> dense_, output_;

 private:
  Value pooled(Value first) const { return activate(activation_, (*dense_)(before_dense(first))); }

  bool in_base_;
  const char* activation_;
  nn::Dropout dropout_;
};

class SequenceClassification : public RowScores {
 public:
  SequenceClassification(const ModelConfig& c, const TaskPtr& task)
      : SequenceClassification(c, task, family_of(c.model_type, c.file).classifier) {}

 protected:
  Value before_dense(Value first) const override {
    return dropout_first_ ? first_dropout_.rows(first) : first;
  }

 private:
  SequenceClassification(const ModelConfig& c, const TaskPtr& task, const ClassifierHead& names)
      : RowScores(c, task, names.in_base, names.activation, c.classifier_dropout),
        dropout_first_(names.dropout_first),
        first_dropout_(*this, "classifier.first_dropout", c.classifier_dropout) {
    declare_all([&] {
      dense_.emplace(*this, names.dense, c.hidden_size, c.hidden_size);
      output_.emplace(*this, names.output, c.hidden_size, task->head().labels);
    });
  }

  bool dropout_first_;
  nn::Dropout first_dropout_;
};

/// ELECTRA's summary of a text.  Errors: kUnsupported for one that Lathe does not compute.
double summary_dropout(const ModelConfig& c) {
  const auto needs = [&](const char* key, const nlohmann::json& wanted) {
    const auto found = c.json->find(key);
    if (found != c.json->end() && *found != wanted)
      fail(ErrorCode::kUnsupported, "{}: {} is {}, expected {} for multiple choice", c.file, key,
           found->dump(), wanted.dump());
  };
  needs("summary_type", "first");
  needs("summary_use_proj", true);
  needs("summary_activation", "gelu");
  return value_or<double>(*c.json, "summary_last_dropout", 0.1, c.file);
}

/// A score for each row.
class MultipleChoice : public RowScores {
 public:
  MultipleChoice(const ModelConfig& c, const TaskPtr& task)
      : MultipleChoice(c, task, family_of(c.model_type, c.file).choice) {}

 private:
  MultipleChoice(const ModelConfig& c, const TaskPtr& task, const ChoiceHead& names)
      : RowScores(c, task, names.in_base, names.activation, dropout_of(c, names)) {
    const bool pooler_last = names.in_base && family_.head_first;
    const auto declare_dense = [&] { dense_.emplace(*this, names.dense, c.hidden_size, c.hidden_size); };
    declare_all([&] {
      if (!pooler_last) declare_dense();
      output_.emplace(*this, "classifier", c.hidden_size, task->head().labels);
    });
    if (pooler_last) declare_dense();
  }
  static double dropout_of(const ModelConfig& c, const ChoiceHead& names) {
    if (names.dropout == ChoiceDropout::kSummary) return summary_dropout(c);
    return names.dropout == ChoiceDropout::kHidden ? c.hidden_dropout_prob : c.classifier_dropout;
  }
};

/// Scores of each token: transformers' classes for questions and for token labels.
class TokenScores : public Encoder {
 public:
  TokenScores(const ModelConfig& c, const TaskPtr& task) : TokenScores(c, task, names_of(c, task)) {}
  HeadOutput head(Value base) override { return cast((*outputs_)(dropout_(base)), DType::f32); }

 private:
  struct Names {
    const char *output, *dropout_site;
    double dropout;
  };
  static Names names_of(const ModelConfig& c, const TaskPtr& task) {
    if (task->head().kind == HeadKind::kQuestionAnswering)
      return {"qa_outputs", "qa_outputs.dropout", c.qa_dropout};
    // DistilBERT's own dropout is that of its heads over samples.
    const bool own = family_of(c.model_type, c.file).own_head_dropout;
    return {"classifier", "dropout", own ? c.hidden_dropout_prob : c.classifier_dropout};
  }
  TokenScores(const ModelConfig& c, const TaskPtr& task, const Names& names)
      : Encoder(c, task), dropout_(*this, names.dropout_site, names.dropout) {
    declare_all([&] { outputs_.emplace(*this, names.output, c.hidden_size, task->head().labels); });
  }

  nn::Dropout dropout_;
  std::optional<nn::Linear> outputs_;
};

class MaskedLm : public Encoder {
 public:
  MaskedLm(const ModelConfig& c, const TaskPtr& task, const MaskedLmHead& names)
      : Encoder(c, task), names_(names) {
    const auto add_bias = [&] {
      bias_ = add_parameter({names.bias, {c.vocab_size}, nn::Init::kZeros, false});
    };
    declare_all([&] {
      if (!names.bias_last) add_bias();
      transform_.emplace(*this, names.dense, c.hidden_size, c.hidden_size);
      norm_.emplace(*this, names.norm, c.hidden_size, c.layer_norm_eps);
      if (names.bias_last) add_bias();
    });
  }
  /// [M, C]
  Value base_output() override { return base_output_of({trace().inputs->scored("scored_index"), true}); }
  HeadOutput head(Value base) override {
    const std::string act = names_.activation != nullptr ? names_.activation : config_.hidden_act;
    return {(*norm_)(activate(act, (*transform_)(base))), embeddings_->word.table(),
            trace().blocks[static_cast<size_t>(bias_)]};
  }
  std::vector<Tie> ties() const override {
    const std::string decoder = names_.decoder;
    std::vector<Tie> all{{decoder + ".weight", Embeddings::part(family_, "word_embeddings.weight")}};
    if (decoder + ".bias" != names_.bias) all.push_back({decoder + ".bias", names_.bias});
    return all;
  }

 private:
  const MaskedLmHead& names_;
  int bias_ = -1;
  std::optional<nn::Linear> transform_;
  std::optional<nn::LayerNorm> norm_;
};

/// A vector of each text.
class SentenceVectors : public Encoder {
 public:
  SentenceVectors(const ModelConfig& c, const TaskPtr& task) : Encoder(c, task) {
    declare_all([&] { head_.emplace(*this, c); });
  }
  int64_t hidden_size() const override { return head_->pooled_width(); }
  /// [B, hidden_size]
  Value base_output() override {
    return head_->pool(*trace().inputs, [this](const TokenRows& wanted) { return base_output_of(wanted); });
  }
  HeadOutput head(Value base) override { return head_->vectors(base); }

 private:
  std::optional<SentenceHead> head_;
};

void check_masked_lm(const ModelConfig& config, const Family& family) {
  if (family.masked_lm == nullptr && !family.modern)
    fail(ErrorCode::kUnsupported,
         "{}: Lathe has no masked-LM head for \"{}\"; it classifies and answers questions", config.file,
         config.model_type);
  // Its decoder has weights of its own, which a tied head would drop.
  if (!value_or<bool>(*config.json, "tie_word_embeddings", true, config.file))
    fail(ErrorCode::kUnsupported,
         "{}: \"tie_word_embeddings\" is false, expected true: Lathe's masked-LM head has no weights of its "
         "own; "
         "take a model whose head is tied",
         config.file);
}

}  // namespace

std::unique_ptr<TaskModel> make_encoder(const ModelConfig& config, const TaskPtr& task) {
  const Family& family = family_of(config.model_type, config.file);
  const HeadKind kind = task->head().kind;
  if (kind == HeadKind::kCausalLM)
    fail(ErrorCode::kUnsupported,
         "{}: \"{}\" is an encoder, expected a decoder, as of {}ForCausalLM: an encoder sees what comes "
         "after a "
         "token; lathe mlm trains it on texts",
         config.file, config.model_type, kLlama.class_prefix);
  if (kind == HeadKind::kMaskedLM) check_masked_lm(config, family);
  if (family.modern) return make_modern_bert(config, task);
  if (kind == HeadKind::kMaskedLM) return std::make_unique<MaskedLm>(config, task, *family.masked_lm);
  if (kind == HeadKind::kSentenceVector) return std::make_unique<SentenceVectors>(config, task);
  if (kind == HeadKind::kSequenceClassification)
    return std::make_unique<SequenceClassification>(config, task);
  if (kind == HeadKind::kMultipleChoice) return std::make_unique<MultipleChoice>(config, task);
  return std::make_unique<TokenScores>(config, task);
}

}  // namespace lathe
