#pragma once
#include <string>
#include <vector>

#include "lathe/models/model_config.h"

namespace lathe {

/// Keys of config.json that families spell differently; null: the family has none, the default holds.
struct ConfigKeys {
  const char* hidden_size = "hidden_size";
  const char* num_hidden_layers = "num_hidden_layers";
  const char* num_attention_heads = "num_attention_heads";
  const char* intermediate_size = "intermediate_size";
  const char* type_vocab_size = "type_vocab_size";
  const char* hidden_act = "hidden_act";
  const char* hidden_dropout_prob = "hidden_dropout_prob";
  const char* attention_probs_dropout_prob = "attention_probs_dropout_prob";
  const char* layer_norm_eps = "layer_norm_eps";
  const char* classifier_dropout = "classifier_dropout";
  const char* qa_dropout = nullptr;
  const char* embedding_size = nullptr;
  const char* mlp_dropout = nullptr;
};

/// Names of the weights of one layer, which follow the layer's own name.
struct LayerNames {
  const char* query = ".attention.self.query";
  const char* key = ".attention.self.key";
  const char* value = ".attention.self.value";
  const char* attention_output = ".attention.output.dense";
  const char* attention_norm = ".attention.output.LayerNorm";
  const char* intermediate = ".intermediate.dense";
  const char* output = ".output.dense";
  const char* output_norm = ".output.LayerNorm";
};

/// What stands between the encoder and the classifier's last layer.
struct ClassifierHead {
  const char* dense;       ///< name of the dense layer over the first token
  bool in_base;            ///< it belongs to the base (BERT's pooler) rather than to the head
  bool dropout_first;      ///< dropout stands before the dense layer too
  const char* activation;  ///< after the dense layer
  const char* output;      ///< name of the last layer
};

/// Where the dropout before the score of a choice comes from.
enum class ChoiceDropout { kClassifier, kHidden, kSummary };

/// What stands between the encoder and the score of a choice: "classifier", one output for each row.
struct ChoiceHead {
  const char* dense = nullptr;  ///< name of the dense layer over the first token
  bool in_base = true;          ///< it is the base's pooler
  const char* activation = "tanh";
  ChoiceDropout dropout = ChoiceDropout::kHidden;
};

/// A head over the vocabulary, tied to the word embeddings.
struct MaskedLmHead {
  const char *bias, *dense, *norm, *decoder;
  const char* activation = nullptr;  ///< null: hidden_act
  bool bias_last = false;            ///< declared after the norm
};

/// What sets one family of decoders apart from Llama.
struct DecoderFamily {
  bool query_biases = false;            ///< queries, keys and values always have biases, nothing else does
  bool head_norms = false;              ///< queries and keys are normalised by head
  bool norms_after = false;             ///< each sublayer's result is normalised, too
  bool plus_one = false;                ///< a norm's weight is 1 + what the file holds
  bool scales_words = false;            ///< word embeddings are multiplied by √hidden_size
  bool windows_by_flag = false;         ///< "use_sliding_window" says whether there are windows
  bool all_local = false;               ///< without "layer_types" every layer has the window, if there is one
  const char* writer_prefix = nullptr;  ///< of the class that writes, if it is not class_prefix
  int64_t global_every = 0;  ///< without "layer_types" every so many layers sees all; 0: by all_local
};

/// What sets one family of encoders apart from BERT: numbers and names.  All but `modern` ones normalise
/// after each sublayer and have absolute, learnt positions.  Decoders have a row of their own.
struct Family {
  const char* model_type;    ///< in config.json
  const char* class_prefix;  ///< of transformers' classes: "BertFor…"
  const char* base;          ///< name of the base within a model with a head
  const char* layers;        ///< name of the list of layers within the base
  ModelConfig defaults;      ///< of keys that config.json leaves out
  ConfigKeys keys;
  LayerNames layer;
  /// Positions are numbered from the padding token's id + 1, and padding tokens all have its id.
  bool positions_after_padding = false;
  bool positions_last = false;  ///< the position table is declared after the norm of the embeddings
  bool head_first = false;      ///< the head is declared before the base
  /// The heads' dropout has its own defaults; false: it is hidden_dropout_prob.
  bool own_head_dropout = false;
  bool attention_output_dropout = true;  ///< hidden_dropout_prob holds for the attention's output too
  ClassifierHead classifier;
  ChoiceHead choice = {};
  const MaskedLmHead* masked_lm = nullptr;  ///< null: Lathe has none for this family
  /// Keys that must have this value if they are in config.json.
  std::vector<std::pair<const char*, bool>> flags;
  /// ModernBERT's layers and heads, whose names are in modern_bert.cc.
  bool modern = false;
  const DecoderFamily* decoder = nullptr;  ///< null: an encoder
};

extern const Family kBert, kRoberta, kXlmRoberta, kCamembert, kDistilBert, kElectra, kModernBert, kLlama,
    kMistral, kQwen2, kQwen3, kGemma3;

/// All families, BERT first.
const std::vector<const Family*>& families();
/// The family of a model_type.  Errors: kUnsupported, naming those that there are, and for DeBERTa why not.
const Family& family_of(const std::string& model_type, const std::string& file);

}  // namespace lathe
