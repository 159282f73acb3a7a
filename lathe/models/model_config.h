#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lathe/io/file_system.h"
#include "lathe/models/decoders/rope.h"

namespace lathe {

struct SentenceFolder;

/// What ModernBERT's config.json says beyond the others'.
struct ModernBertConfig {
  std::vector<bool> local;  ///< by layer: it attends within the window
  int64_t window = 64;      ///< tokens that a query sees on either side: half of "local_attention"
  double global_theta = 160000, local_theta = 10000;
  double initializer_cutoff_factor = 2;
  bool norm_bias = false, attention_bias = false, mlp_bias = false, classifier_bias = false;
  bool decoder_bias = true, mean_pooling = false;
  std::string classifier_activation = "gelu";
};

/// What a decoder's config.json says beyond the others'.
struct DecoderConfig {
  int64_t kv_heads = 0;     ///< heads of keys and values; each serves heads / kv_heads of the queries
  int64_t head_width = 0;   ///< columns of a head
  RopeConfig rope;          ///< of layers that see all tokens before them
  RopeConfig local_rope;    ///< of those that see a window
  std::vector<bool> local;  ///< by layer: it sees a window
  int64_t window = 0;       ///< tokens that it sees, its own among them
  bool tied = false;        ///< the head over the vocabulary is the word table
  bool query_bias = false, output_bias = false, mlp_bias = false;
  double query_scale = 0;  ///< what scores are multiplied by; 0: 1/√head_width
};

/// An object without keys.
std::shared_ptr<const nlohmann::json> no_json_keys();

/// config.json of a model, under BERT's names and with its defaults.  `json` keeps all keys of the file,
/// so that what Lathe does not use is written back as it was.
struct ModelConfig {
  std::string model_type = "bert";
  int64_t vocab_size = 30522, hidden_size = 768;
  int64_t embedding_size = 0;  ///< columns of the embeddings; 0: hidden_size
  int64_t num_hidden_layers = 12, num_attention_heads = 12;
  int64_t intermediate_size = 3072, max_position_embeddings = 512;
  int64_t type_vocab_size = 2;  ///< 0: the family has no token types
  int64_t pad_token_id = 0;     ///< -1: none
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1;
  double classifier_dropout = 0.1, qa_dropout = 0, mlp_dropout = 0;
  double initializer_range = 0.02, layer_norm_eps = 1e-12;
  ModernBertConfig modern = {};
  DecoderConfig decoder = {};
  /// The modules of sentence-transformers that follow, for a task of vectors; null: the mean of the tokens.
  std::shared_ptr<const SentenceFolder> sentence = nullptr;
  std::shared_ptr<const nlohmann::json> json = no_json_keys();  ///< never null
  std::string file = "config.json";                             ///< where it was read from, for messages
};

/// Reads and checks a configuration; `file` is for messages.  Errors: kInvalidData for a missing or malformed
/// key, for sizes that are not positive or that no model has, for heads that do not divide hidden_size;
/// kUnsupported for another model_type, hidden_act, position_embedding_type, or an encoder that is_decoder;
/// the message names what there is.
ModelConfig parse_model_config(const nlohmann::json& json, const std::string& file);

/// The part that only ModernBERT has; `config` has the rest.  Errors: as parse_model_config.
ModernBertConfig parse_modern_bert_config(const nlohmann::json& json, const ModelConfig& config);

/// The same of a decoder (models/decoders).
DecoderConfig parse_decoder_config(const nlohmann::json& json, const ModelConfig& config);

/// Puts into json what `config` says otherwise than `there`, which json gives when it is read.
void put_decoder_config(nlohmann::json& json, const DecoderConfig& config, const DecoderConfig& there);
void put_modern_bert_config(nlohmann::json& json, const ModernBertConfig& config,
                            const ModernBertConfig& there);

/// The configuration of a model folder.  Errors: kNotFound if there is none; as parse_model_config.
ModelConfig read_model_config(FileSystem& fs, const std::string& folder);

/// Whether it names labels, as that of a model with a classification head does: an id2label that is not null.
bool names_labels(const ModelConfig& config);

/// Labels of a classification head: names by id, from id2label, numbers as their JSON, booleans as True and
/// False; num_labels times "LABEL_0" … if that is absent or null.  Errors: kInvalidData if either is not one
/// that a head can have.
std::vector<std::string> config_labels(const ModelConfig& config);

/// The config.json to write: the keys that were read, with architecture, labels and problem type brought up
/// to date. problem_type is left out if empty. Without labels, as for question answering, those of another
/// head than one of two outputs, an answer's start and end, are left out.
nlohmann::json config_to_write(const ModelConfig& config, const std::string& architecture,
                               const std::vector<std::string>& labels, const std::string& problem_type);

/// The part of it that the model computes with, under the names of its family: the same for two files that
/// make the same model of given weights.
nlohmann::json used_settings(const ModelConfig& config);

}  // namespace lathe
