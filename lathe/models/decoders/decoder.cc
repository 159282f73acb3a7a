#include "lathe/models/decoders/decoder.h"

#include <cmath>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/models/encoders/sentence_head.h"
#include "lathe/models/family_model.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"

namespace lathe {
namespace {

/// The name that op::gated has for an activation of config.json.
std::string gate_of(const std::string& name) { return name == "gelu_pytorch_tanh" ? "gelu_tanh" : name; }

const DecoderFamily& decoder_of(const ModelConfig& c) { return *family_of(c.model_type, c.file).decoder; }

nn::RmsNorm norm_in(nn::Module& m, const ModelConfig& c, const std::string& name) {
  return {m, name, c.hidden_size, c.layer_norm_eps, decoder_of(c).plus_one};
}

/// Its parameters are declared in the order of transformers' classes.
struct DecoderLayer {
  nn::Linear query_key_value, attention_output;
  std::optional<nn::HeadNorms> head_norms;
  nn::Linear gate_and_up, down;
  nn::RmsNorm attention_norm, attended_norm;
  std::optional<nn::RmsNorm> mlp_norm, fed_norm;  ///< of families that normalise after each sublayer, too
  nn::Rotary rotary;
  nn::Attention attention;
  std::string gate;

  DecoderLayer(nn::Module& m, const ModelConfig& c, const std::string& name, size_t index)
      : query_key_value(m, query_parts(c, name), c.hidden_size, {.bias = c.decoder.query_bias}),
        attention_output(m, name + ".self_attn.o_proj", c.num_attention_heads * c.decoder.head_width,
                         c.hidden_size, {.bias = c.decoder.output_bias}),
        head_norms(decoder_of(c).head_norms
                       ? std::optional(nn::HeadNorms(m, name + ".self_attn", heads_of(c), c.layer_norm_eps,
                                                     decoder_of(c).plus_one))
                       : std::nullopt),
        gate_and_up(m, std::vector<std::string>{name + ".mlp.gate_proj", name + ".mlp.up_proj"},
                    c.hidden_size, c.intermediate_size, {.bias = c.decoder.mlp_bias}),
        down(m, name + ".mlp.down_proj", c.intermediate_size, c.hidden_size, {.bias = c.decoder.mlp_bias}),
        attention_norm(norm_in(m, c, name + ".input_layernorm")),
        attended_norm(norm_in(m, c, name + ".post_attention_layernorm")),
        rotary(rotary_of(m, c, index)),
        attention(m, name + ".self_attn", heads_of(c), attention_of(c, index)),
        gate(gate_of(c.hidden_act)) {
    if (!decoder_of(c).norms_after) return;
    mlp_norm = norm_in(m, c, name + ".pre_feedforward_layernorm");
    fed_norm = norm_in(m, c, name + ".post_feedforward_layernorm");
  }

  /// [N, C] → [N, C], or those of `wanted`
  Value operator()(Value x, const TokenRows& wanted) const {
    Value qkv = query_key_value(attention_norm(x));
    if (head_norms) qkv = (*head_norms)(qkv);
    Value context = attention_output(wanted.of(attention(rotary(qkv))));
    if (mlp_norm) context = attended_norm(context);
    const Value attended = add(context, wanted.of(x));
    const Value normal = mlp_norm ? (*mlp_norm)(attended) : attended_norm(attended);
    Value fed = down(gated(gate_and_up(normal), gate.c_str()));
    if (fed_norm) fed = (*fed_norm)(fed);
    return add(fed, attended);
  }

 private:
  static nn::Rotary rotary_of(nn::Module& m, const ModelConfig& c, size_t index) {
    const RopeConfig& rope = c.decoder.local[index] ? c.decoder.local_rope : c.decoder.rope;
    const RopeTable table = rope_table(rope, c.decoder.head_width);
    return {m, heads_of(c), {table.frequencies.begin(), table.frequencies.end()}, table.attention_factor};
  }
  static std::vector<nn::Linear::Part> query_parts(const ModelConfig& c, const std::string& name) {
    const int64_t of_query = c.num_attention_heads * c.decoder.head_width;
    const int64_t of_key = c.decoder.kv_heads * c.decoder.head_width;
    return {{name + ".self_attn.q_proj", of_query},
            {name + ".self_attn.k_proj", of_key},
            {name + ".self_attn.v_proj", of_key}};
  }
  static nn::AttentionOptions attention_of(const ModelConfig& c, size_t index) {
    return {.p = c.attention_probs_dropout_prob,
            .causal = true,
            // a query's own token is one of its window, and none of those before it
            .window = c.decoder.local[index] ? c.decoder.window - 1 : 0,
            .scale = c.decoder.query_scale};
  }
};

class Decoder : public FamilyModel {
 public:
  Decoder(const ModelConfig& c, const TaskPtr& task)
      : FamilyModel(c, task),
        words_(*this, "model.embed_tokens", c.vocab_size, c.hidden_size, c.pad_token_id),
        layers_(layers(c)),
        norm_(norm_in(*this, c, "model.norm")) {}
  /// [N, C]
  Value base_output() override { return base_output_of({}); }

 protected:
  /// [N, C], or the wanted rows of it.
  Value base_output_of(const TokenRows& wanted) const {
    Value words = words_(trace().inputs->token("input_ids"));
    if (decoder_of(config_).scales_words)
      words = scale(words, std::sqrt(static_cast<double>(config_.hidden_size)));
    return norm_(through(layers_, cast(words, trace().dtype), wanted));
  }

  nn::Embedding words_;

 private:
  std::vector<DecoderLayer> layers(const ModelConfig& c) {
    std::vector<DecoderLayer> all;
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      all.emplace_back(*this, c, fmt::format("{}{}{}", family_.base, family_.layers, i),
                       static_cast<size_t>(i));
    return all;
  }

  std::vector<DecoderLayer> layers_;
  nn::RmsNorm norm_;
};

/// The token after each that is scored.
class CausalLm : public Decoder {
 public:
  CausalLm(const ModelConfig& c, const TaskPtr& task)
      : Decoder(c, task),
        table_(c.decoder.tied ? -1
                              : add_parameter({.name = "lm_head.weight",
                                               .shape = {c.vocab_size, c.hidden_size},
                                               .init = nn::Init::kNormal,
                                               .of_linear = true})) {}
  /// [M, C]
  Value base_output() override { return base_output_of({trace().inputs->scored("scored_index"), true}); }
  HeadOutput head(Value base) override {
    return {base, table_ < 0 ? words_.table() : trace().blocks[static_cast<size_t>(table_)], Value{}};
  }
  std::vector<Tie> ties() const override {
    if (table_ >= 0) return {};
    return {{"lm_head.weight", "model.embed_tokens.weight"}};
  }
  bool divides_by_items() const override { return true; }

 private:
  int table_;  // −1: the words'
};

/// Scores of a text, made of its last token.
class DecoderClassification : public Decoder {
 public:
  DecoderClassification(const ModelConfig& c, const TaskPtr& task)
      : Decoder(c, task), score_(*this, "score", c.hidden_size, task->head().labels, {.bias = false}) {}
  /// [B, C]
  Value base_output() override { return base_output_of({trace().inputs->row(kLastIndex)}); }
  HeadOutput head(Value base) override { return cast(score_(base), DType::f32); }

 private:
  nn::Linear score_;
};

/// A vector of each text.
class DecoderVectors : public Decoder {
 public:
  DecoderVectors(const ModelConfig& c, const TaskPtr& task) : Decoder(c, task), head_(*this, c) {}
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

std::unique_ptr<TaskModel> make_decoder(const ModelConfig& config, const TaskPtr& task) {
  switch (task->head().kind) {
    case HeadKind::kCausalLM:
      return std::make_unique<CausalLm>(config, task);
    case HeadKind::kSequenceClassification:
      return std::make_unique<DecoderClassification>(config, task);
    case HeadKind::kSentenceVector:
      return std::make_unique<DecoderVectors>(config, task);
    default:
      fail(
          ErrorCode::kUnsupported,
          "{}: Lathe has no such head for \"{}\": it learns to write, scores texts and gives vectors of them",
          config.file, config.model_type);
  }
}

}  // namespace lathe
