#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lathe/models/family_model.h"
#include "lathe/models/sentence/sentence_folder.h"

namespace lathe {

/// What makes a vector of a text: the pooling of its tokens, then Dense and Normalize, as the folder that the
/// configuration comes from says; without one the mean of the tokens.
class SentenceHead {
 public:
  /// Declares the Dense modules.  Errors: kInvalidData for a pooling of another width than the model's.
  SentenceHead(nn::Module& module, const ModelConfig& config);
  /// Numbers of a pooled vector, before the modules that follow.
  int64_t pooled_width() const { return pooling_.output_width(); }
  /// [B, pooled_width].  base: gives the wanted rows of the base's output; a pooling that reads one token of
  /// each text asks for no others.
  Value pool(nn::Inputs& inputs, const std::function<Value(const TokenRows&)>& base) const;
  /// x [B, pooled_width] → [B, width], f32: the modules round nothing.
  HeadOutput vectors(Value x) const;

 private:
  struct Step {
    std::optional<nn::Linear> dense;  ///< none: Normalize
    std::string activation;           ///< of activate(); empty: none
  };
  PoolingConfig pooling_;
  std::vector<Step> steps_;
};

}  // namespace lathe
