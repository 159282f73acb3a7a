#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/models/family.h"
#include "lathe/models/task_model.h"
#include "lathe/nn/layers.h"
#include "lathe/ops/functional.h"

namespace lathe {

/// The tokens for which a layer's result is needed.  A classifier reads only first tokens, a head over the
/// vocabulary those that are scored: the last layer computes no others after the attention, in either
/// direction.
struct TokenRows {
  Value index;          ///< [B] i32: the row of each sample's first token; none: all tokens
  bool scored = false;  ///< index is [M]: those of the tokens that are scored

  /// x [N, C] → [N, C], [B, C] or [M, C]
  Value of(Value x) const { return index ? gather_rows(x, index) : x; }
  /// Dropout of rows that `of` gave; a first token's mask is that of its sample.
  Value drop(const nn::Dropout& dropout, Value x) const {
    return scored ? dropout.scored(x) : index ? dropout.rows(x) : dropout(x);
  }
};

/// The heads of an attention layer.
nn::Heads heads_of(const ModelConfig& config);

/// What the models of all families share: the configuration and what follows from it.
class FamilyModel : public TaskModel {
 public:
  FamilyModel(const ModelConfig& config, TaskPtr task)
      : TaskModel(std::move(task)), config_(config), family_(family_of(config.model_type, config.file)) {}
  std::string base_prefix() const override { return std::string(family_.base) + "."; }
  double base_dropout() const override;
  int64_t hidden_size() const override { return config_.hidden_size; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override;
  std::optional<int64_t> position_padding() const override;
  int64_t type_vocab_size() const override { return config_.type_vocab_size; }
  double initializer_range() const override { return config_.initializer_range; }

 protected:
  /// x through the layers, [N, C] → [N, C] or the wanted rows of it, in segments where the trace computes
  /// activations anew.
  template <typename Layer>
  Value through(const std::vector<Layer>& layers, Value x, const TokenRows& wanted) const {
    for (size_t i = 0; i < layers.size(); ++i) {
      std::optional<SegmentScope> recomputed;
      const int64_t every = trace().recompute_every;
      if (every > 0 && static_cast<int64_t>(i) % every == 0) recomputed.emplace(*x.program);
      x = layers[i](x, i + 1 == layers.size() ? wanted : TokenRows{});
    }
    return x;
  }

  ModelConfig config_;
  const Family& family_;
};

/// The activation of that name in config.json: gelu, gelu_python (the same function), relu or tanh.
/// Errors: kUnsupported for others.
Value activate(const std::string& name, Value x);

}  // namespace lathe
