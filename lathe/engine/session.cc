#include "lathe/engine/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lathe/ops/first_attention.h"
#include "lathe/ops/fused.h"

namespace lathe {
namespace {

template <typename Container>
std::span<const std::byte> bytes(const Container& values) {
  return std::as_bytes(std::span(values));
}

/// Bytes of a state that are copied at once where they go by way of memory of their own.
constexpr size_t kPart = size_t{1} << 20;

const nn::Parameter& parameter(const TaskModel& model, int index) {
  const std::vector<nn::Parameter>& all = model.parameters();
  if (index < 0 || index >= std::ssize(all))
    fail(ErrorCode::kUsage, "the model has no parameter {}, wants 0 to {}", index, std::ssize(all) - 1);
  return all[static_cast<size_t>(index)];
}

bool has_targets(const PackedBatch& batch) {
  return !batch.labels.empty() || !batch.targets.empty() || !batch.start_positions.empty();
}

}  // namespace

Session::Session(Backend& backend, TaskModel& model, const Options& options)
    : backend_(backend), model_(model), options_(options), layout_(nn::flat_layout(model.parameters())) {
  if (backend.group() != nullptr) options_.program.ranks = backend.group()->size();
  // Who stores a product as bf16 gains from fewer bytes; for the others it would be one more pass.
  if (!backend.implementations(op::linear_bwd_weight_cast).empty()) options_.program.rounded_gradients = true;
  options_.program.first_attention = !backend.implementations(op::first_attention).empty();
  if (options.shard_states && group() != nullptr)
    options_.program.shards = shards_of(layout_.trainable, group()->size(), group()->rank());
  const auto allocate = [&](const char* name, int64_t count) {
    bindings_.states[name] =
        backend.allocate(static_cast<size_t>(count) * sizeof(float), Memory::kDevice).value();
  };
  allocate("parameters", layout_.trainable);
  if (layout_.frozen > 0) allocate("frozen", layout_.frozen);
}

void Session::write_parameter(int index, std::span<const float> values) {
  const nn::Parameter& p = parameter(model_, index);
  if (static_cast<int64_t>(values.size()) != elements(p.shape))
    fail(ErrorCode::kShape, "parameter {}: {} values given, wants {}", p.name, values.size(),
         to_string(p.shape));
  const Buffer& buffer = bindings_.states.at(p.trainable ? "parameters" : "frozen");
  const size_t at = static_cast<size_t>(layout_.offset[static_cast<size_t>(index)]) * sizeof(float);
  if (!p.trainable && !holds(buffer, at, bytes(values))) ++frozen_version_;
  backend_.copy_in(buffer, at, bytes(values)).check();
}

bool Session::holds(const Buffer& buffer, size_t begin, std::span<const std::byte> values) const {
  std::vector<std::byte> part(std::min(values.size(), kPart));
  for (; !values.empty(); values = values.subspan(part.size()), begin += part.size()) {
    part.resize(std::min(values.size(), kPart));
    backend_.copy_out(part, buffer, begin).check();
    if (std::memcmp(part.data(), values.data(), part.size()) != 0) return false;
  }
  return true;
}

std::vector<float> Session::read_parameter(int index) const {
  std::vector<float> values(static_cast<size_t>(elements(parameter(model_, index).shape)));
  read_parameter(index, 0, std::as_writable_bytes(std::span(values))).check();
  return values;
}

Status Session::read_parameter(int index, size_t begin, std::span<std::byte> out) const {
  const nn::Parameter& p = parameter(model_, index);
  const size_t at = static_cast<size_t>(layout_.offset[static_cast<size_t>(index)]) * sizeof(float);
  return backend_.copy_out(out, bindings_.states.at(p.trainable ? "parameters" : "frozen"), at + begin);
}

std::vector<OptimizerState> Session::optimizer_states() const {
  return lathe::optimizer_states(options_.program.optimizer, flat_parameters(model_));
}

int64_t Session::state_size(const std::string& name) const {
  for (const OptimizerState& state : optimizer_states())
    if (state.name == name) return state.size;
  return layout_.trainable;
}

/// States with an element per parameter are; others are small.
bool Session::is_sharded(const std::string& name) const {
  if (options_.program.shards.empty()) return false;
  const std::vector<OptimizerState> states = optimizer_states();
  return std::ranges::any_of(states, [&](const OptimizerState& state) {
    return state.name == name && state.size == layout_.trainable;
  });
}

std::vector<float> Session::read_state(const std::string& name) const {
  const int64_t count = is_sharded(name) ? options_.program.shards.count() : state_size(name);
  std::vector<float> values(static_cast<size_t>(count));
  read_state(name, 0, std::as_writable_bytes(std::span(values))).check();
  return values;
}

Status Session::read_state(const std::string& name, size_t begin, std::span<std::byte> out) const {
  const auto it = bindings_.states.find(name);
  if (it != bindings_.states.end()) return backend_.copy_out(out, it->second, begin);
  std::ranges::fill(out, std::byte{0});  // nothing was trained yet
  return {};
}

void Session::write_state(const std::string& name, std::span<const float> values) {
  if (const int64_t wanted = state_size(name); static_cast<int64_t>(values.size()) != wanted)
    fail(ErrorCode::kShape, "state {}: {} values given, wants {}", name, values.size(), wanted);
  write_state(name, 0, values);
}

void Session::write_state(const std::string& name, size_t begin, std::span<const float> values) {
  const auto wanted = static_cast<size_t>(state_size(name));
  if (begin > wanted || values.size() > wanted - begin)
    fail(ErrorCode::kShape, "state {}: values from {} to {} given, it has {}", name, begin,
         begin + values.size(), wanted);
  size_t own = 0, own_end = wanted;
  if (is_sharded(name)) {
    const Shards& shards = options_.program.shards;
    own = static_cast<size_t>(shards.begin());
    own_end = own + static_cast<size_t>(shards.count());
  }
  Buffer& buffer = bindings_.states[name];
  if (buffer.data == nullptr)
    buffer = backend_.allocate((own_end - own) * sizeof(float), Memory::kDevice).value();
  const size_t first = std::max(begin, own), end = std::min(begin + values.size(), own_end);
  if (first >= end) return;
  const auto mine = values.subspan(first - begin, end - first);
  backend_.copy_in(buffer, (first - own) * sizeof(float), bytes(mine)).check();
}

void Session::clear_state(const std::string& name) {
  const auto it = bindings_.states.find(name);
  if (it == bindings_.states.end()) return;  // nothing was trained yet: it comes as zeros
  const size_t size = it->second.bytes;
  const std::vector<std::byte> zeros(std::min(size, kPart));
  for (size_t at = 0; at < size; at += kPart)
    backend_.copy_in(it->second, at, std::span(zeros).first(std::min(kPart, size - at))).check();
}

void Session::clear_states() {
  for (const OptimizerState& state : optimizer_states()) clear_state(state.name);
}

Status Session::read_whole_state(const std::string& name, size_t begin, std::span<std::byte> out) const {
  if (!is_sharded(name)) return read_state(name, begin, out);
  const std::vector<OptimizerState> states = optimizer_states();
  const auto state = std::ranges::find(states, name, &OptimizerState::name);
  const Shards& shards = options_.program.shards;
  Status status;
  for (int r = 0; r < ranks() && status.ok(); ++r) {
    const size_t first = static_cast<size_t>(shards.begin(r)) * sizeof(float);
    const size_t last = first + static_cast<size_t>(shards.counts[static_cast<size_t>(r)]) * sizeof(float);
    const size_t from = std::max(begin, first), to = std::min(begin + out.size(), last);
    if (from >= to) continue;
    const auto part = out.subspan(from - begin, to - from);
    PartRequest request{state - states.begin(), r, static_cast<int64_t>(from - first), std::ssize(part)};
    if (r != shards.rank) status = group()->broadcast(std::as_writable_bytes(std::span(&request, 1)), 0);
    if (status.ok()) status = exchange(request, part);
  }
  return status;
}

Status Session::serve_states() const {
  std::vector<std::byte> part;
  while (!options_.program.shards.empty()) {
    PartRequest request;
    Status status = group()->broadcast(std::as_writable_bytes(std::span(&request, 1)), 0);
    if (!status.ok() || request.bytes == 0) return status;
    part.resize(static_cast<size_t>(request.bytes));
    if (status = exchange(request, part); !status.ok()) return status;
  }
  return {};
}

Status Session::end_reads() const {
  if (options_.program.shards.empty()) return {};
  PartRequest none;
  return group()->broadcast(std::as_writable_bytes(std::span(&none, 1)), 0);
}

/// Its owner reads the part, and it goes to all, but for what rank 0 itself has.
Status Session::exchange(const PartRequest& request, std::span<std::byte> part) const {
  if (request.rank == options_.program.shards.rank) {
    const std::string name = optimizer_states()[static_cast<size_t>(request.state)].name;
    const Status status = read_state(name, static_cast<size_t>(request.begin), part);
    if (!status.ok() || request.rank == 0) return status;
  }
  return group()->broadcast(part, static_cast<int>(request.rank));
}

Session::Pending Session::step(const PackedBatch& batch, const StepScalars& scalars, BaseRows base) {
  return run(ProgramKind::kStep, &batch, scalars, base);
}

Session::Pending Session::accumulate(const PackedBatch& batch, const StepScalars& scalars, BaseRows base) {
  return run(ProgramKind::kAccumulate, &batch, scalars, base);
}

Session::Pending Session::update(const StepScalars& scalars) {
  return run(ProgramKind::kUpdate, nullptr, scalars);
}

Session::Outcome Session::collect(const Pending& pending) const {
  Outcome outcome;
  size_t index = 0;
  const auto take = [&](float& value) {
    pending.executable->read(pending.event, index++, std::as_writable_bytes(std::span(&value, 1))).check();
  };
  if (pending.has_loss) take(outcome.loss);
  if (pending.has_stop) take(outcome.stop);
  if (pending.has_norm) take(outcome.grad_norm);
  return outcome;
}

void Session::run_base(const PackedBatch& batch, std::vector<std::byte>& rows) {
  const Pending pending = run(ProgramKind::kBase, &batch, {});
  rows.resize(static_cast<size_t>(model_.per_token() ? batch.tokens : batch.rows) * base_row_bytes());
  pending.executable->read(pending.event, 0, rows).check();
}

size_t Session::base_row_bytes() const {
  return static_cast<size_t>(model_.hidden_size()) * size_of(options_.program.dtype);
}

float Session::evaluate(const PackedBatch& batch, std::vector<float>& logits, BaseRows base,
                        std::optional<DType> dtype, nn::Quantization quantization) {
  const Pending pending = run(ProgramKind::kEvaluate, &batch, {}, base, dtype, quantization);
  const Program& program = this->program(pending);
  const Type& type = program.type(program.outputs()[0].second);
  logits.resize(static_cast<size_t>(elements(type)));
  pending.executable->read(pending.event, 0, std::as_writable_bytes(std::span(logits))).check();
  if (type.shape[0] == batch.tokens) logits.resize(static_cast<size_t>(batch.real_tokens() * type.shape[1]));
  float loss = 0;
  if (pending.has_loss)
    pending.executable->read(pending.event, 1, std::as_writable_bytes(std::span(&loss, 1))).check();
  return loss;
}

void Session::check(const PackedBatch& batch) const {
  const std::vector<int32_t>& begins = batch.cu_seqlens;
  if (batch.rows < 1 || std::ssize(begins) != int64_t{batch.rows} + 1 || begins.front() != 0 ||
      begins.back() > batch.tokens)
    fail(ErrorCode::kInvalidData,
         "a batch of {} rows and {} tokens has {} cu_seqlens{}; wants one more than rows, from 0 to at most "
         "the tokens",
         batch.rows, batch.tokens, begins.size(),
         begins.empty() ? "" : fmt::format(", from {} to {}", begins.front(), begins.back()));
  if (std::ssize(batch.sample_ids) != batch.tokens)
    fail(ErrorCode::kInvalidData, "a batch of {} tokens has {} sample_ids, wants as many", batch.tokens,
         batch.sample_ids.size());
  if (model_.position_padding() && batch.position_ids.size() != batch.input_ids.size())
    fail(ErrorCode::kInvalidData, "a batch of {} input_ids has {} position_ids, wants as many",
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
  within("token id", batch.input_ids, model_.vocab_size());
  within("token id", batch.all_input_ids, model_.vocab_size());
  if (model_.type_vocab_size() > 1) within("token type", batch.token_type_ids, model_.type_vocab_size());
  within("position", batch.position_ids, model_.max_positions());
  for (size_t row = 0; row + 1 < batch.cu_seqlens.size(); ++row)
    if (batch.cu_seqlens[row] >= batch.cu_seqlens[row + 1])
      fail(ErrorCode::kInvalidData, "row {} of a batch has no tokens; wants at least one", row);
}

void Session::prepare(const PackedBatch* batch, const StepScalars& scalars) {
  rng_ = {scalars.seed, static_cast<uint32_t>(scalars.update_step)};
  const StepFactors factors = step_factors(options_.program.optimizer, scalars.adam_step);
  const auto hyper = [&](Hyper h) -> float& { return hyper_[static_cast<size_t>(h)]; };
  hyper(Hyper::kLearningRate) = static_cast<float>(scalars.learning_rate);
  hyper(Hyper::kBiasCorrection1) = static_cast<float>(factors.first);
  hyper(Hyper::kBiasCorrection2) = static_cast<float>(factors.second);
  hyper(Hyper::kMaxGradNorm) = static_cast<float>(scalars.max_grad_norm);
  hyper(Hyper::kInverseScale) = static_cast<float>(1 / scalars.loss_scale);
  loss_weight_ = static_cast<float>(scalars.loss_weight * scalars.loss_scale / ranks());
  keep_ = scalars.first_micro ? 0.0f : 1.0f;
  stop_ = scalars.stop ? 1.0f : 0.0f;
  if (batch == nullptr) return;
  check(*batch);
  if (model_.type_vocab_size() == 1) one_type_.assign(batch->token_type_ids.size(), 0);
  row_ids_.resize(static_cast<size_t>(batch->rows));
  for (size_t row = 0; row < row_ids_.size(); ++row)
    row_ids_[row] = batch->sample_ids[static_cast<size_t>(batch->cu_seqlens[row])];
  if (model_.position_padding()) number_positions(*batch, static_cast<int32_t>(*model_.position_padding()));
}

/// Source: RobertaEmbeddings.create_position_ids_from_input_ids.
void Session::number_positions(const PackedBatch& batch, int32_t padding) {
  position_rows_.assign(batch.input_ids.size(), padding);
  int32_t next = padding;
  for (size_t i = 0; i < position_rows_.size(); ++i) {
    if (batch.position_ids[i] == 0) next = padding;
    if (batch.input_ids[i] != padding) position_rows_[i] = ++next;
  }
}

const std::vector<int32_t>& Session::ids_of_all_ranks(const PackedBatch& batch) const {
  const size_t wanted = static_cast<size_t>(ranks()) * batch.input_ids.size();
  if (batch.all_input_ids.size() != wanted)
    fail(ErrorCode::kUsage,
         "a batch has {} token ids of all ranks, wants {}: those of {} batches of one size",
         batch.all_input_ids.size(), wanted, ranks());
  return batch.all_input_ids;
}

std::span<const std::byte> Session::content(const std::string& input, const PackedBatch* batch) const {
  if (input == "rng") return bytes(rng_);
  if (input == "hyper") return bytes(hyper_);
  if (input == "loss_weight") return std::as_bytes(std::span(&loss_weight_, 1));
  if (input == "keep") return std::as_bytes(std::span(&keep_, 1));
  if (input == "stop") return std::as_bytes(std::span(&stop_, 1));
  if (input == "row_ids") return bytes(row_ids_);
  if (input == "input_ids") return bytes(batch->input_ids);
  if (input == "all_input_ids") return bytes(ids_of_all_ranks(*batch));
  if (input == "token_type_ids") return bytes(one_type_.empty() ? batch->token_type_ids : one_type_);
  if (input == "position_ids") return bytes(batch->position_ids);
  if (input == "position_rows") return bytes(position_rows_);
  if (input == "sample_ids") return bytes(batch->sample_ids);
  if (input == "base") return base_;
  if (input == "cu") return bytes(batch->cu_seqlens);
  if (input == "cls_index") return bytes(batch->cls_index);
  if (input == "labels") return bytes(batch->labels);
  if (input == "values") return bytes(batch->targets);
  if (input == "starts") return bytes(batch->start_positions);
  if (input == "ends") return bytes(batch->end_positions);
  fail(ErrorCode::kInternal, "the session has no content for the program's input {}", input);
}

Session::Compiled& Session::ready(ProgramKind kind, const PackedBatch* batch, const StepScalars& scalars,
                                  BaseRows base, std::optional<DType> dtype, nn::Quantization quantization) {
  prepare(batch, scalars);
  base_ = base;
  if (dtype == options_.program.dtype) dtype.reset();
  Work key{kind, {}, kind != ProgramKind::kBase, !base.empty(), quantization, dtype};
  if (batch != nullptr) key.bucket = {batch->tokens, batch->rows};
  if (key.base_given && !model_.per_token()) key.bucket.tokens = 0;  // one program for batches of any length
  if (kind == ProgramKind::kEvaluate) key.targets = has_targets(*batch);
  const int64_t longest = longest_row(kind);
  if (longest > 0 && batch != nullptr && batch->longest_row > longest)
    fail(ErrorCode::kUsage, "a batch has a row of {} tokens, wants at most {}, which expect_rows was told",
         batch->longest_row, longest);
  Compiled& it = compiled(key);
  slot_.inputs.clear();
  for (const ValueInfo& value : it.program->values())
    if (value.kind == ValueKind::kInput) slot_.inputs.push_back(content(value.name, batch));
  return it;
}

Session::StepPlan Session::plan_step(const PackedBatch& batch, const StepScalars& scalars) {
  const Compiled& it = ready(ProgramKind::kStep, &batch, scalars, {}, {}, nn::Quantization::kNone);
  return {*it.program, it.executable->launches(slot_).value()};
}

Session::Pending Session::run(ProgramKind kind, const PackedBatch* batch, const StepScalars& scalars,
                              BaseRows base, std::optional<DType> dtype, nn::Quantization quantization) {
  const Compiled& it = ready(kind, batch, scalars, base, dtype, quantization);
  const auto& outputs = it.program->outputs();
  const auto gives = [&](const char* name) {
    return std::any_of(outputs.begin(), outputs.end(), [&](const auto& o) { return o.first == name; });
  };
  Pending pending{it.executable, {}, gives("loss"), gives("stop"), gives("grad_norm")};
  it.executable->run(slot_, &pending.event).check();
  return pending;
}

}  // namespace lathe
