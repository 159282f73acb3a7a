#include "lathe/models/family_model.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/ops/functional.h"

namespace lathe {

double FamilyModel::base_dropout() const {
  return std::max({config_.hidden_dropout_prob, config_.attention_probs_dropout_prob, config_.mlp_dropout});
}

int64_t FamilyModel::max_positions() const {
  return config_.max_position_embeddings - (position_padding() ? *position_padding() + 1 : 0);
}

std::optional<int64_t> FamilyModel::position_padding() const {
  return family_.positions_after_padding ? std::optional(config_.pad_token_id) : std::nullopt;
}

nn::Heads heads_of(const ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  if (config.decoder.kv_heads > 0) return {heads, config.decoder.kv_heads, config.decoder.head_width};
  return {heads, heads, config.hidden_size / heads};
}

Value activate(const std::string& name, Value x) {
  if (name == "relu") return relu(x);
  if (name == "tanh") return tanh(x);
  if (name == "gelu" || name == "gelu_python") return gelu(x);
  fail(ErrorCode::kUnsupported, "activation: found \"{}\", expected gelu, gelu_python, relu or tanh", name);
}

}  // namespace lathe
