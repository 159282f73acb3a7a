#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/io/file_system.h"

namespace lathe {

/// How the vectors of a text's tokens become one.  Names of sentence-transformers: cls, max, mean,
/// mean_sqrt_len_tokens, weightedmean, lasttoken.
enum class PoolingMode { kCls, kMax, kMean, kMeanSqrtLength, kWeightedMean, kLastToken };
const char* name_of(PoolingMode mode);

/// 1_Pooling/config.json.  Several modes: their vectors one after the other.
struct PoolingConfig {
  int64_t width = 0;  ///< of a token's vector
  std::vector<PoolingMode> modes = {PoolingMode::kMean};
  bool include_prompt = true;  ///< whether tokens of the prompt count

  int64_t output_width() const { return width * static_cast<int64_t>(modes.size()); }
};

/// 2_Dense: activation(x · weightᵀ + bias).
struct DenseConfig {
  int64_t in = 0, out = 0;
  std::string activation = "Tanh";  ///< Tanh, Identity, ReLU or GELU
  std::vector<float> weight;        ///< [out, in]
  std::vector<float> bias;          ///< [out]; empty: none
};

/// What comes after the pooling: a Dense, or where there is none a Normalize.
struct SentenceStep {
  std::optional<DenseConfig> dense;
};

/// A folder of sentence-transformers, without the files of its transformer.
struct SentenceFolder {
  std::string transformer_path;           ///< within the folder; "" is the folder itself
  std::optional<int64_t> max_seq_length;  ///< none: as the tokenizer says
  bool do_lower_case = false;
  PoolingConfig pooling;
  std::vector<SentenceStep> steps;
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt_name;
  std::string similarity = "cosine";
  std::optional<int64_t> truncate_dim;
};

/// Which keys and names of classes are written.
enum class SentenceFormat {
  kOld,  ///< every version reads them
  kNew   ///< those of version 6
};

/// Whether the folder has a modules.json.
bool is_sentence_folder(FileSystem& fs, const std::string& folder);

/// Reads modules.json and what it names, with old keys (pooling_mode_mean_tokens …) and new ones.
/// Errors: kNotFound or kIo for a file that cannot be read; kInvalidData, naming file and key, for what is
/// malformed or does not fit together; kUnsupported for a module, pooling or activation that Lathe lacks, by
/// its name.
SentenceFolder read_sentence_folder(FileSystem& fs, const std::string& folder);

/// Writes modules.json, sentence_bert_config.json, config_sentence_transformers.json and the folders of the
/// modules.  transformer_path is not written: the transformer's files stand in the folder itself.
void write_sentence_folder(FileSystem& fs, const std::string& folder, const SentenceFolder& model,
                           SentenceFormat format = SentenceFormat::kOld);

/// The settings of a CrossEncoder.
struct CrossEncoderFolder {
  std::string activation;  ///< of the scores: Sigmoid or Identity
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt_name;
};

/// Whether a folder's files say that it is a CrossEncoder's: "model_type" of
/// config_sentence_transformers.json (version 6), else the keys of config.json that read_cross_encoder_folder
/// reads.
bool is_cross_encoder_folder(FileSystem& fs, const std::string& folder);

/// Reads config_sentence_transformers.json (version 6), else config.json's
/// sentence_transformers.activation_fn (4, 5) or sbert_ce_default_activation_function (before).  Without any:
/// Sigmoid of one label, else Identity. Errors: as read_sentence_folder.
CrossEncoderFolder read_cross_encoder_folder(FileSystem& fs, const std::string& folder, int64_t labels);

/// sentence_bert_config.json, config_sentence_transformers.json and modules.json as version 6 has them, and
/// the same written into a folder; all else of it is the classifier's.
std::vector<std::pair<std::string, std::string>> cross_encoder_files(const CrossEncoderFolder& model);
void write_cross_encoder_folder(FileSystem& fs, const std::string& folder, const CrossEncoderFolder& model);

}  // namespace lathe
