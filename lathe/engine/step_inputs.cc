#include "lathe/engine/step_inputs.h"

#include <fmt/format.h>

#include <utility>

#include "lathe/core/error.h"
#include "lathe/engine/programs.h"

namespace lathe {
namespace {

template <typename Container>
std::span<const std::byte> bytes(const Container& values) {
  return std::as_bytes(std::span(values));
}

void check(const PackedBatch& batch, const TaskModel& model) {
  const std::vector<int32_t>& begins = batch.cu_seqlens;
  if (batch.rows < 1 || std::ssize(begins) != int64_t{batch.rows} + 1 || begins.front() != 0 ||
      begins.back() > batch.tokens)
    fail(ErrorCode::kInvalidData,
         "a batch of {} rows and {} tokens has {} cu_seqlens{}; expected one more than rows, from 0 to at "
         "most "
         "the tokens",
         batch.rows, batch.tokens, begins.size(),
         begins.empty() ? "" : fmt::format(", from {} to {}", begins.front(), begins.back()));
  if (std::ssize(batch.sample_ids) != batch.tokens)
    fail(ErrorCode::kInvalidData, "a batch of {} tokens has {} sample_ids, expected as many", batch.tokens,
         batch.sample_ids.size());
  if (model.position_padding() && batch.position_ids.size() != batch.input_ids.size())
    fail(ErrorCode::kInvalidData, "a batch of {} input_ids has {} position_ids, expected as many",
         batch.input_ids.size(), batch.position_ids.size());
  for (const int32_t first : batch.cls_index)
    if (first < 0 || first >= batch.tokens)
      fail(ErrorCode::kInvalidData, "cls_index {} lies outside of a batch of {} tokens", first, batch.tokens);
  const auto within = [](const char* what, const std::vector<int32_t>& values, int64_t limit) {
    for (int32_t value : values)
      if (value < 0 || value >= limit)
        fail(ErrorCode::kInvalidData,
             "{} {} lies outside of the model's {}; do tokenizer and model belong together?", what, value,
             limit);
  };
  within("token id", batch.input_ids, model.vocab_size());
  within("token id", batch.all_input_ids, model.vocab_size());
  if (model.type_vocab_size() > 1) within("token type", batch.token_type_ids, model.type_vocab_size());
  within("position", batch.position_ids, model.max_positions());
  for (size_t row = 0; row + 1 < batch.cu_seqlens.size(); ++row)
    if (batch.cu_seqlens[row] >= batch.cu_seqlens[row + 1])
      fail(ErrorCode::kInvalidData, "row {} of a batch has no tokens; expected at least one", row);
}

}  // namespace

void StepInputs::set(const PackedBatch* batch, const StepScalars& scalars, BaseRows base) {
  batch_ = batch;
  base_ = base;
  rng_ = {scalars.seed, static_cast<uint32_t>(scalars.update_step)};
  const StepFactors factors = step_factors(optimizer_, scalars.adam_step);
  const auto hyper = [&](Hyper h) -> float& { return hyper_[static_cast<size_t>(h)]; };
  hyper(Hyper::kLearningRate) = static_cast<float>(scalars.learning_rate);
  hyper(Hyper::kBiasCorrection1) = static_cast<float>(factors.first);
  hyper(Hyper::kBiasCorrection2) = static_cast<float>(factors.second);
  hyper(Hyper::kMaxGradNorm) = static_cast<float>(scalars.max_grad_norm);
  hyper(Hyper::kInverseScale) = static_cast<float>(1 / scalars.loss_scale);
  head_hyper_ = hyper_;
  head_hyper_[static_cast<size_t>(Hyper::kLearningRate)] = static_cast<float>(scalars.head_learning_rate);
  loss_weight_ = static_cast<float>(scalars.loss_weight * scalars.loss_scale / ranks_);
  keep_ = scalars.first_micro ? 0.0f : 1.0f;
  stop_ = scalars.stop ? 1.0f : 0.0f;
  if (batch == nullptr) return;
  check(*batch, model_);
  columns_.set(batch->tensors.ints(kFirstRows), rank_);
  pooling_.set(batch->cu_seqlens, batch->tensors.ints(kPromptLength));
  if (model_.type_vocab_size() == 1) one_type_.assign(batch->token_type_ids.size(), 0);
  begins_ = batch->cu_seqlens;
  row_ids_.resize(static_cast<size_t>(batch->rows));
  for (size_t row = 0; row < row_ids_.size(); ++row)
    row_ids_[row] = batch->sample_ids[static_cast<size_t>(batch->cu_seqlens[row])];
  scored_sample_ids_.clear(), scored_position_ids_.clear();
  for (const int32_t token : std::as_const(batch->tensors).ints("scored_index")) {
    scored_sample_ids_.push_back(batch->sample_ids.at(static_cast<size_t>(token)));
    scored_position_ids_.push_back(batch->position_ids.at(static_cast<size_t>(token)));
  }
  if (model_.position_padding()) number_positions(static_cast<int32_t>(*model_.position_padding()));
}

void StepInputs::fill_rows(int64_t rows) {
  row_ids_.resize(static_cast<size_t>(rows), 0);
  begins_.resize(static_cast<size_t>(rows + 1), begins_.back());
}

/// Source: RobertaEmbeddings.create_position_ids_from_input_ids.
void StepInputs::number_positions(int32_t padding) {
  position_rows_.assign(batch_->input_ids.size(), padding);
  int32_t next = padding;
  for (size_t i = 0; i < position_rows_.size(); ++i) {
    if (batch_->position_ids[i] == 0) next = padding;
    if (batch_->input_ids[i] != padding) position_rows_[i] = ++next;
  }
}

const std::vector<int32_t>& StepInputs::ids_of_all_ranks() const {
  const size_t wanted = static_cast<size_t>(ranks_) * batch_->input_ids.size();
  if (batch_->all_input_ids.size() != wanted)
    fail(ErrorCode::kUsage,
         "a batch has {} token ids of all ranks, expected {}: those of {} batches of one size",
         batch_->all_input_ids.size(), wanted, ranks_);
  return batch_->all_input_ids;
}

std::span<const std::byte> StepInputs::content(const ValueInfo& value) {
  const std::string& input = value.name;
  if (input == "rng") return bytes(rng_);
  if (input == "hyper") return bytes(hyper_);
  if (input == "head_hyper") return bytes(head_hyper_);
  if (input == "loss_weight") return std::as_bytes(std::span(&loss_weight_, 1));
  if (input == "keep") return std::as_bytes(std::span(&keep_, 1));
  if (input == "one") return std::as_bytes(std::span(&one_, 1));
  if (input == "stop") return std::as_bytes(std::span(&stop_, 1));
  if (input == "row_ids") return bytes(row_ids_);
  if (input == "input_ids") return bytes(batch_->input_ids);
  if (input == "all_input_ids") return bytes(ids_of_all_ranks());
  if (input == "token_type_ids") return bytes(one_type_.empty() ? batch_->token_type_ids : one_type_);
  if (input == "position_ids") return bytes(batch_->position_ids);
  if (input == "position_rows") return bytes(position_rows_);
  if (input == "sample_ids") return bytes(batch_->sample_ids);
  if (input == "scored_sample_ids") return bytes(scored_sample_ids_);
  if (input == "scored_position_ids") return bytes(scored_position_ids_);
  if (input == "base") return base_;
  if (input == kLogits) return std::as_bytes(head_.given);
  if (input == kLogitsGradient) return std::as_bytes(head_.gradient);
  if (input == "cu_seqlens") return bytes(begins_);
  if (input == "cls_index") return bytes(batch_->cls_index);
  if (const Tensor* tensor = batch_->tensors.find(input)) return tensor->bytes();
  if (const auto of_columns = columns_.find(input, elements(value.type))) return *of_columns;
  if (const auto* of_pooling = pooling_.find(input, elements(value.type))) return bytes(*of_pooling);
  fail(ErrorCode::kInternal, "the session has no content for the program's input {}", input);
}

const Slot& StepInputs::slot(const Program& program) {
  slot_.inputs.clear();
  for (const ValueInfo& value : program.values())
    if (value.kind == ValueKind::kInput) slot_.inputs.push_back(content(value));
  return slot_;
}

}  // namespace lathe
