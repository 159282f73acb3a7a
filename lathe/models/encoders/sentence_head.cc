#include "lathe/models/encoders/sentence_head.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/models/sentence/pooling_inputs.h"
#include "lathe/models/sentence/sentence_checkpoint.h"
#include "lathe/ops/functional.h"

namespace lathe {
namespace {

PoolingConfig pooling_of(const ModelConfig& config) {
  if (config.sentence == nullptr) return {.width = config.hidden_size};
  const PoolingConfig& pooling = config.sentence->pooling;
  if (pooling.width != config.hidden_size)
    fail(ErrorCode::kInvalidData,
         "the pooling takes vectors of {} numbers, but {} says that tokens have {}; take modules and "
         "transformer of one model",
         pooling.width, config.file, config.hidden_size);
  return pooling;
}

/// The name of torch's module in small letters, as configurations of models have it.
std::string activation_of(const DenseConfig& dense) {
  if (dense.activation == "Identity") return "";
  std::string name = dense.activation;
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

/// The first token of each row that counts.
Value first_of(bool include_prompt, nn::Inputs& inputs) {
  return inputs.row(include_prompt ? "cls_index" : kFirstCounted);
}

/// The row of the token that a mode takes; none: it reads all of them.
Value token_of(PoolingMode mode, bool include_prompt, nn::Inputs& inputs) {
  if (mode == PoolingMode::kLastToken) return inputs.row(kLastIndex);
  return mode == PoolingMode::kCls ? first_of(include_prompt, inputs) : Value{};
}

Value pooled(PoolingMode mode, Value tokens, Value first, nn::Inputs& inputs) {
  if (mode == PoolingMode::kMax) return segment_max(tokens, first, inputs.bounds());
  const char* weights = mode == PoolingMode::kMeanSqrtLength ? "sqrt"
                        : mode == PoolingMode::kWeightedMean ? "place"
                                                             : "mean";
  return segment_sum(tokens, first, inputs.bounds(), weights);
}

/// Matrices [B, c] → [B, all c]: their rows one after the other, then in the order of the rows.
Value side_by_side(const std::vector<Value>& parts, nn::Inputs& inputs) {
  const int64_t rows = parts[0].type().shape[0], cols = parts[0].type().shape[1], count = std::ssize(parts);
  const Value below = slice(concat(parts), 0, {count * rows, cols});
  const Value ordered = gather_rows(below, inputs.rows(kPooledOrder, count));
  return slice(concat({ordered}), 0, {rows, count * cols});
}

}  // namespace

SentenceHead::SentenceHead(nn::Module& module, const ModelConfig& config) : pooling_(pooling_of(config)) {
  if (config.sentence == nullptr) return;
  const std::vector<SentenceStep>& steps = config.sentence->steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps_.emplace_back();
    if (!steps[i].dense) continue;
    const DenseConfig& dense = *steps[i].dense;
    step.activation = activation_of(dense);
    step.dense.emplace(module, dense_layer(i), dense.in, dense.out,
                       nn::LinearOptions{.bias = !dense.bias.empty()});
  }
}

Value SentenceHead::pool(nn::Inputs& inputs, const std::function<Value(const TokenRows&)>& base) const {
  const auto& modes = pooling_.modes;
  if (modes.size() == 1)
    if (const Value index = token_of(modes[0], pooling_.include_prompt, inputs)) return base({index});
  const Value tokens = base({});
  std::vector<Value> parts;
  for (const PoolingMode mode : modes) {
    const Value index = token_of(mode, pooling_.include_prompt, inputs);
    parts.push_back(index ? gather_rows(tokens, index)
                          : pooled(mode, tokens, first_of(pooling_.include_prompt, inputs), inputs));
  }
  return parts.size() == 1 ? parts[0] : side_by_side(parts, inputs);
}

HeadOutput SentenceHead::vectors(Value x) const {
  x = cast(x, DType::f32);
  for (const Step& step : steps_) {
    if (step.dense)
      x = (*step.dense)(x);
    else
      x = l2_normalize(x);
    if (!step.activation.empty()) x = activate(step.activation, x);
  }
  return x;
}

}  // namespace lathe
