#include "lathe/engine/session.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/ops/fused.h"

namespace lathe {
namespace {

/// Adds what the device and its group decide.
Session::Options on_device(Session::Options options, const Backend& backend) {
  ProgramOptions& program = options.program;
  if (backend.group() != nullptr)
    program.ranks = backend.group()->size(), program.rank = backend.group()->rank();
  // A device that stores such products as bf16 gains from fewer bytes; for others it would be one more pass.
  if (!backend.implementations(op::linear_bwd_weight_cast).empty()) program.rounded_gradients = true;
  return options;
}

ProgramOptions with_shards(ProgramOptions options, const Shards& shards) {
  options.shards = shards;
  return options;
}

}  // namespace

Session::Session(Backend& backend, TaskModel& model, const Options& options)
    : backend_(backend),
      model_(model),
      options_(on_device(options, backend)),
      parameters_(backend, model, options.program.optimizer, options.shard_states, options.program.storage),
      programs_(backend, model, parameters_, with_shards(options_.program, parameters_.shards()),
                options.cached_programs),
      inputs_(model, options.program.optimizer, options_.program.ranks, options_.program.rank) {}

Session::Pending Session::step(const PackedBatch& batch, const StepScalars& scalars, BaseRows base) {
  return run({.kind = ProgramKind::kStep}, &batch, scalars, base);
}

Session::Pending Session::accumulate(const PackedBatch& batch, const StepScalars& scalars, BaseRows base) {
  if (model_.task().cached_samples() > 0) return accumulate_parts(batch, scalars);
  return run({.kind = ProgramKind::kAccumulate}, &batch, scalars, base);
}

Session::Pending Session::accumulate_parts(const PackedBatch& batch, const StepScalars& scalars) {
  const int samples = batch.sample_count(), each = static_cast<int>(model_.task().cached_samples());
  const auto& first_rows = batch.tensors.ints(kFirstRows);
  int64_t width = 0;
  // f: gets the numbers of the head's output that belong to part_.
  const auto for_parts = [&](auto f) {
    for (int first = 0; first < samples; first += each) {
      const int count = std::min(each, samples - first);
      part_of_batch(batch, first, count, token_rounding(), part_);
      f(first, first_rows[static_cast<size_t>(first)]);
    }
  };
  vectors_.clear();
  for_parts([&](int, int) {
    const Pending given = run({.kind = ProgramKind::kForward}, &part_, scalars);
    const Type& type = given.compiled->type(kLogits);
    width = type.shape[1];
    vectors_.resize(vectors_.size() + static_cast<size_t>(elements(type)));
    given.compiled
        ->read(given.event, kLogits,
               std::as_writable_bytes(std::span(vectors_).last(static_cast<size_t>(elements(type)))))
        .check();
  });
  inputs_.give_head({vectors_, {}});
  Pending loss = run({.kind = ProgramKind::kLoss, .head_width = width}, &batch, scalars);
  gradients_.resize(vectors_.size());
  loss.compiled->read(loss.event, kLogitsGradient, std::as_writable_bytes(std::span(gradients_))).check();
  StepScalars of_part = scalars;
  for_parts([&](int first, int row) {
    of_part.first_micro = scalars.first_micro && first == 0;
    inputs_.give_head(
        {{},
         std::span(gradients_)
             .subspan(static_cast<size_t>(row * width), static_cast<size_t>(part_.rows * width))});
    const Pending added = run({.kind = ProgramKind::kAccumulate, .gradient_given = true}, &part_, of_part);
    added.compiled->executable->wait(added.event).check();  // part_ is filled anew
  });
  return loss;
}

Session::Pending Session::update(const StepScalars& scalars) {
  return run({.kind = ProgramKind::kUpdate}, nullptr, scalars);
}

Session::Outcome Session::collect(const Pending& pending) const {
  Outcome outcome;
  const auto take = [&](const char* output, float& value) {
    if (pending.gives(output))
      pending.compiled->read(pending.event, output, std::as_writable_bytes(std::span(&value, 1))).check();
  };
  take(kLoss, outcome.loss);
  take(kStop, outcome.stop);
  take(kGradNorm, outcome.grad_norm);
  return outcome;
}

void Session::run_base(const PackedBatch& batch, std::vector<std::byte>& rows) {
  const Pending pending = run({.kind = ProgramKind::kBase, .targets = false}, &batch, {});
  const int count = model_.per_scored() ? batch.scored : model_.per_token() ? batch.tokens : batch.rows;
  rows.resize(static_cast<size_t>(count) * base_row_bytes());
  pending.compiled->read(pending.event, kBaseRows, rows).check();
}

size_t Session::base_row_bytes() const {
  return static_cast<size_t>(model_.hidden_size()) * size_of(options_.program.dtype);
}

Work Session::evaluation(const PackedBatch& batch, bool scores, std::optional<DType> dtype,
                         nn::Quantization quantization) const {
  if (dtype == options_.program.dtype) dtype.reset();
  return {.kind = ProgramKind::kEvaluate,
          .targets = model_.task().is_labelled(batch.tensors),
          .scores = scores,
          .quantization = quantization,
          .dtype = dtype};
}

float Session::evaluate(const PackedBatch& batch, std::vector<float>& logits, BaseRows base,
                        std::optional<DType> dtype, nn::Quantization quantization) {
  const Pending pending = run(evaluation(batch, true, dtype, quantization), &batch, {}, base);
  const Type& type = pending.compiled->type(kLogits);
  logits.resize(static_cast<size_t>(elements(type)));
  pending.compiled->read(pending.event, kLogits, std::as_writable_bytes(std::span(logits))).check();
  logits.resize(static_cast<size_t>(rows_of_scores(batch) * type.shape[1]));
  return collect(pending).loss;
}

Session::Counted Session::count(const PackedBatch& batch, BaseRows base, std::optional<DType> dtype,
                                nn::Quantization quantization) {
  const Pending pending = run(evaluation(batch, false, dtype, quantization), &batch, {}, base);
  Counted found{.loss = collect(pending).loss};
  pending.compiled->read(pending.event, kCorrect, std::as_writable_bytes(std::span(&found.correct, 1)))
      .check();
  return found;
}

int64_t Session::rows_of_scores(const PackedBatch& batch) const {
  if (batch.scored > 0) return batch.real_scored;
  return model_.per_token() ? batch.real_tokens() : batch.rows;
}

int64_t Session::rows_of_bucket(ProgramKind kind, int64_t rows) {
  if (!model_.rows_may_be_empty()) return rows;
  int64_t& most = most_rows_[kind];
  return most = std::max(most, rows);
}

Session::Ready Session::ready(Work work, const PackedBatch* batch, const StepScalars& scalars,
                              BaseRows base) {
  const bool learns = work.kind == ProgramKind::kStep || work.kind == ProgramKind::kAccumulate ||
                      work.kind == ProgramKind::kLoss;
  if (learns && !model_.task().is_labelled(batch->tensors))
    fail(ErrorCode::kInvalidData, "a batch has no {}, from which its task learns",
         model_.task().targets()[0].words);
  if (batch != nullptr && model_.per_scored() && batch->scored == 0)
    fail(ErrorCode::kInvalidData,
         "a batch has no tokens that are scored, which is all that a head over the vocabulary looks at");
  inputs_.set(batch, scalars, base);
  work.base_given = !base.empty();
  if (batch != nullptr) {
    const int samples = batch->has_several_rows() ? batch->sample_count() : 0;
    work.bucket = {batch->tokens, rows_of_bucket(work.kind, batch->rows), batch->scored, samples};
    inputs_.fill_rows(work.bucket.rows);
  }
  if ((work.base_given && !model_.per_token()) || work.kind == ProgramKind::kLoss)
    work.bucket.tokens = 0;  // one program for batches of any length
  const int64_t longest = programs_.longest_row(work.kind);
  if (longest > 0 && batch != nullptr && batch->longest_row > longest)
    fail(ErrorCode::kUsage, "a batch has a row of {} tokens, expected at most {}, which expect_rows was told",
         batch->longest_row, longest);
  auto compiled = programs_.compile(work);
  const Slot& slot = inputs_.slot(*compiled->program);
  return {std::move(compiled), slot};
}

Session::StepPlan Session::plan_step(const PackedBatch& batch, const StepScalars& scalars) {
  Ready step = ready({.kind = ProgramKind::kStep}, &batch, scalars, {});
  Launches launches = step.compiled->executable->launches(step.slot).value();
  return {std::move(step.compiled), std::move(launches)};
}

Session::Pending Session::run(const Work& work, const PackedBatch* batch, const StepScalars& scalars,
                              BaseRows base) {
  Ready it = ready(work, batch, scalars, base);
  Pending pending{std::move(it.compiled), {}};
  pending.compiled->executable->run(it.slot, &pending.event).check();
  return pending;
}

}  // namespace lathe
