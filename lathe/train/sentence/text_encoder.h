#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/engine/session.h"
#include "lathe/train/auto_model.h"

namespace lathe {

/// The model of a folder of sentence-transformers, or of an encoder, whose tokens' mean is then the vector,
/// as there.  Nothing of it is trained.  Errors: as from_pretrained and read_sentence_folder.
/// fetch: gives the folder of an adapter's base by its name; empty: adapters are refused.
AutoModel sentence_model(FileSystem& fs, const std::string& folder,
                         const std::function<std::string(const std::string& base)>& fetch = {});

/// What comes before each text: the prompt that is given, else the folder's of that name, else its default
/// one. Errors: kUsage for a name that the folder lacks, with those that it has.
std::string chosen_prompt(const AutoModel& model, const std::optional<std::string>& prompt,
                          const std::optional<std::string>& name);

/// Numbers of a model's vectors.
int64_t vector_width(const AutoModel& model);
/// The tokens of a prompt that the model's pooling leaves out: all but the closing special one; 0 where they
/// count.
int32_t prompt_tokens(const AutoModel& model, const std::string& prompt, int longest);

struct TextEncoderOptions {
  int max_seq_length = 0;    ///< tokens of a text, longer ones are cut; 0: as the model says
  int64_t batch_tokens = 0;  ///< of a batch, about; 0: as the device likes it
  DType dtype = DType::f32;  ///< of activations
  nn::Quantization quantization = nn::Quantization::kNone;
};

/// What is kept of vectors.
struct VectorForm {
  std::optional<int64_t> truncate_dim;  ///< so many numbers; none: as the model says
  bool normalize = false;               ///< what is kept is divided by its length
};

/// Vectors of texts: what SentenceTransformer.encode gives.  One thread may tokenise while another one
/// encodes; not for several threads otherwise.
class TextEncoder {
 public:
  /// All must outlive it; the weights are loaded.  Errors: those of Session; kInvalidData for weights that
  /// are missing.
  TextEncoder(Backend& backend, AutoModel& model, ThreadPool& pool, const TextEncoderOptions& options);
  /// The same with the weights that a session has; dtype and quantization of the options are not read.
  TextEncoder(Session& session, const AutoModel& model, ThreadPool& pool, const TextEncoderOptions& options);

  /// Numbers of a vector.  Errors: kUsage for more truncate_dim than the vectors have.
  int64_t width(const VectorForm& form) const;
  /// The most tokens of a text.
  int longest() const { return longest_; }
  /// The prompt comes before each text.
  TokenizedDataset tokenize(std::vector<std::string> texts, const std::string& prompt) const;
  /// [samples, width].  done: told how many samples are; may throw.  Errors: as `width`.
  std::vector<float> encode(TokenizedDataset data, const VectorForm& form,
                            const std::function<void(int64_t)>& done = {});

 private:
  /// Rows of one vector with filler rows of one token, so that few sizes need a program of their own.
  struct Batch {
    std::vector<int32_t> samples;
    int64_t texts = 0, tokens = 0;
  };
  std::vector<Batch> batches_of(const TokenizedDataset& data, int32_t filler) const;

  const AutoModel& model_;
  ThreadPool& pool_;
  TextEncoderOptions options_;
  std::unique_ptr<Session> own_;  // null: the session is another's
  Session& session_;
  int longest_;
  int64_t full_width_;
};

}  // namespace lathe
