// The step of a masked language model of BERT-base's sizes: the head over the masked tokens only, whose
// scores never exist whole, beside the head over all tokens with their scores.  mlm_step_bench DEVICE [ROWS
// TOKENS STEPS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>

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

/// Milliseconds of a step, the median.
double measure(const std::string& device, DType dtype, bool all, int rows, int tokens, int steps) {
  const auto backend = open_device(device);
  AutoModel model = from_config(ModelConfig(), {masked_lm, {}, false}, {});
  if (all) model.model = make_model(model.config, std::make_shared<AllScores>());
  Session::Options options;
  options.program.dtype = dtype;
  Session session(*backend, *model.model, options);
  initialize(session.parameters(), model, 42);
  PackedBatch batch = random_batch(rows, tokens, session.token_rounding());
  if (all) batch = of_all_tokens(std::move(batch));
  StepScalars scalars{.learning_rate = 1e-5};
  std::vector<double> times;
  float loss = 0;
  for (int step = -2; step < steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    scalars.update_step = scalars.adam_step = step + 3;
    loss = session.collect(session.step(batch, scalars)).loss;
    if (step >= 0)
      times.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  fmt::print("{} {} {}: {} rows of the head, {:.1f} ms a step ({:.1f} to {:.1f}), loss {:.6f}\n", device,
             name_of(dtype), all ? "all tokens" : "masked tokens", batch.scored, median, times.front(),
             times.back(), loss);
  const Work work[] = {{.kind = ProgramKind::kStep, .bucket = {batch.tokens, batch.rows, batch.scored}}};
  fmt::print("  memory: {:.2f} GiB\n",
             static_cast<double>(session.programs().memory_need(work).total()) / (1 << 30));
  std::fflush(stdout);
  return median;
}

}  // namespace
}  // namespace lathe

int main(int count, char** words) {
  using namespace lathe;
  const std::string device = count > 1 ? words[1] : "cpu";
  const auto number = [&](int at, int otherwise) { return count > at ? std::atoi(words[at]) : otherwise; };
  const int rows = number(2, 32), tokens = number(3, 128), steps = number(4, 5);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double before = measure(device, dtype, true, rows, tokens, steps),
                 now = measure(device, dtype, false, rows, tokens, steps);
    fmt::print("{} {}: {:.3f} of the time\n", device, name_of(dtype), now / before);
  }
}
