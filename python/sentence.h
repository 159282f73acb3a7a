#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/backends/register.h"
#include "lathe/train/sentence/saved_sentence.h"
#include "lathe/train/sentence/text_encoder.h"

namespace lathe {

/// A model that gives vectors of texts, on a device, for any thread.
class SentenceEncoder {
 public:
  SentenceEncoder(const std::string& folder, const std::string& device, bool bf16)
      : model_(sentence_model(real_file_system(), folder)),
        folder_(folder),
        backend_(open_device(device, {})),
        encoder_(*backend_, model_, pool_, {.dtype = bf16 ? DType::bf16 : DType::f32}) {}

  /// Vectors one after the other, and the numbers of each.
  std::pair<std::vector<float>, int64_t> encode(const std::vector<std::string>& texts,
                                                const std::optional<std::string>& prompt,
                                                const std::optional<std::string>& prompt_name,
                                                std::optional<int64_t> truncate_dim, bool normalize) {
    const VectorForm form{truncate_dim, normalize};
    const std::string before = chosen_prompt(model_, prompt, prompt_name);
    const std::lock_guard<std::mutex> turn(mutex_);
    return {encoder_.encode(encoder_.tokenize(texts, before), form), encoder_.width(form)};
  }
  int longest() const { return encoder_.longest(); }
  int64_t width() const { return encoder_.width({}); }
  std::string similarity() const { return modules_of(model_).similarity; }
  std::map<std::string, std::string> prompts() const { return modules_of(model_).prompts; }
  const std::string& folder() const { return folder_; }

 private:
  AutoModel model_;
  std::string folder_;
  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  TextEncoder encoder_;
  std::mutex mutex_;
};

}  // namespace lathe
