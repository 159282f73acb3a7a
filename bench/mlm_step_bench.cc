// The step of a masked language model of BERT-base's sizes: the head over the masked tokens only, whose
// scores never exist whole, beside the head over all tokens with their scores.  mlm_step_bench DEVICE [ROWS
// TOKENS STEPS THREADS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <numeric>
#include <optional>

#include "lathe/backends/register.h"
#include "lathe/data/lm/batch_masks.h"
#include "lathe/engine/session.h"
#include "lathe/ops/functional.h"
#include "lathe/ops/losses.h"
#include "lathe/train/auto_model.h"

namespace lathe {
namespace {

/// As Lathe trained it before: scores of all tokens.
class AllScores : public Task {
 public:
  AllScores() : Task({HeadKind::kMaskedLM, 0}, {{.name = "labels", .extent = Extent::kScored}}) {}
  LossAndCorrect loss(const HeadOutput& out, nn::Inputs& inputs, const LossOptions&) const override {
    const Value scores = cast(linear(out.rows, out.table, out.bias), DType::f32);
    return {
        scores.program->emit(op::cross_entropy, {scores, inputs.scored("labels")}, {{"smoothing", 0.0}})[0],
        {}};
  }
};

/// Random tokens, of which 15 % are masked.
PackedBatch random_batch(int rows, int tokens, TokenRounding rounding) {
  TorchGenerator generator(1);
  std::vector<int64_t> words(static_cast<size_t>(rows) * tokens);
  generator.randint(30000, words);
  std::vector<int32_t> ids;
  for (const int64_t word : words) ids.push_back(static_cast<int32_t>(word) + 200);
  std::vector<int64_t> begins;
  for (int row = 0; row <= rows; ++row) begins.push_back(int64_t{row} * tokens);
  const TokenizedDataset data = masked_lm_samples(std::move(ids), std::move(begins), {});
  std::vector<int32_t> samples(static_cast<size_t>(rows));
  std::iota(samples.begin(), samples.end(), 0);
  PackedBatch batch;
  pack_batch(data, samples, {.rounding = rounding}, batch);
  BatchMasks masks({.mask_id = 103, .vocab_size = 30522, .special_ids = {}}, 42);
  masks.mask(batch, rounding);
  return batch;
}

/// All tokens are rows of the head, those without a label ignored.
PackedBatch of_all_tokens(PackedBatch batch) {
  std::vector<int32_t> labels(static_cast<size_t>(batch.tokens), -100), index(labels.size());
  const auto &places = std::as_const(batch.tensors).ints("scored_index"),
             &scored = std::as_const(batch.tensors).ints("labels");
  for (int i = 0; i < batch.real_scored; ++i)
    labels[static_cast<size_t>(places[static_cast<size_t>(i)])] = scored[static_cast<size_t>(i)];
  std::iota(index.begin(), index.end(), 0);
  batch.tensors.ints("labels", Extent::kScored) = labels;
  batch.tensors.ints("scored_index", Extent::kScored) = index;
  batch.scored = batch.tokens;
  return batch;
}

/// A model with one of the two heads, and what its steps took.
class Way {
 public:
  Way(Backend& backend, DType dtype, bool all, int rows, int tokens)
      : all_(all), model_(from_config(ModelConfig(), {masked_lm, {}, false}, {})) {
    if (all) model_.model = make_model(model_.config, std::make_shared<AllScores>());
    Session::Options options;
    options.program.dtype = dtype;
    session_.emplace(backend, *model_.model, options);
    batch_ = random_batch(rows, tokens, session_->token_rounding());
    if (all) batch_ = of_all_tokens(std::move(batch_));
    const Work work[] = {{.kind = ProgramKind::kStep, .bucket = {batch_.tokens, batch_.rows, batch_.scored}}};
    bytes_ = session_->programs().memory_need(work).total();
    initialize(session_->parameters(), model_, 42);
  }

  void step(bool counts) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t worked = std::clock();
    ++scalars_.update_step, ++scalars_.adam_step;
    loss_ = session_->collect(session_->step(batch_, scalars_)).loss;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (!counts) return;
    times_.push_back(took.count());
    processor_ = std::min(processor_, 1e3 * static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC);
  }

  double least() const { return *std::min_element(times_.begin(), times_.end()); }
  /// What all threads worked in the step that took the least of it; other work on the machine changes it
  /// less.
  double processor() const { return processor_; }
  void print() const {
    fmt::print(
        "  {}: {} rows of the head, at least {:.1f} ms a step, {:.1f} of the processor; {:.2f} GiB for "
        "programs; loss {:.6f}\n",
        all_ ? "all tokens" : "masked tokens", batch_.scored, least(), processor(),
        static_cast<double>(bytes_) / (1 << 30), loss_);
  }

 private:
  bool all_;
  AutoModel model_;
  std::optional<Session> session_;
  PackedBatch batch_;
  StepScalars scalars_{.learning_rate = 1e-5, .update_step = 0, .adam_step = 0};
  uint64_t bytes_ = 0;
  float loss_ = 0;
  std::vector<double> times_;
  double processor_ = std::numeric_limits<double>::max();
};

}  // namespace
}  // namespace lathe

int main(int count, char** words) {
  using namespace lathe;
  const std::string device = count > 1 ? words[1] : "cpu";
  const auto number = [&](int at, int otherwise) { return count > at ? std::atoi(words[at]) : otherwise; };
  const int rows = number(2, 32), tokens = number(3, 128), steps = number(4, 5);
  const auto backend = open_device(device, {number(5, 0), false, {}});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Way before(*backend, dtype, true, rows, tokens), now(*backend, dtype, false, rows, tokens);
    for (int step = -1; step < steps; ++step)  // in turn, so that other work on the machine slows both
      for (Way* way : {&before, &now}) way->step(step >= 0);
    fmt::print("{} {}, {} x {}:\n", device, name_of(dtype), rows, tokens);
    for (Way* way : {&before, &now}) way->print();
    fmt::print("  {:.3f} of the time, {:.3f} of the processor's\n", now.least() / before.least(),
               now.processor() / before.processor());
    std::fflush(stdout);
  }
}
