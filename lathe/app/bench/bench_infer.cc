// lathe bench infer: forward passes at the lengths of real questions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "lathe/app/bench/bench_data.h"
#include "lathe/app/bench/bench_profile.h"
#include "lathe/app/bench/bench_work.h"
#include "lathe/engine/session.h"

namespace lathe {
namespace {

constexpr int kWarmup = 3;
const std::vector<std::string> kLabels{"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"};  // TREC's coarse classes

using Turn = std::array<int, 16>;
/// Lengths of questions as BERT's tokenizer cuts them, special tokens included; in turns.
constexpr Turn kLengths = {11, 9, 14, 7, 13, 22, 10, 12, 8, 16, 15, 31, 9, 11, 13, 10};

/// kLengths, cut where the model ends.
Turn fixed_lengths(const AutoModel& model) {
  Turn turn = kLengths;
  for (int& length : turn) length = static_cast<int>(std::min<int64_t>(length, model.model->max_positions()));
  return turn;
}

std::vector<int> in_turns(const Turn& turn, int batch) {
  std::vector<int> lengths;
  for (int i = 0; i < batch; ++i) lengths.push_back(turn[static_cast<size_t>(i) % turn.size()]);
  return lengths;
}

int64_t tokens_of(const Turn& turn, int batch) {
  const auto rest = turn.begin() + batch % std::ssize(turn);
  return batch / std::ssize(turn) * std::accumulate(turn.begin(), turn.end(), int64_t{0}) +
         std::accumulate(turn.begin(), rest, int64_t{0});
}

/// Rows of TREC with the model's own tokenizer, where both are there; else empty.
std::vector<int> real_lengths(const BenchSettings& s, const AutoModel& model, int batch) {
  const std::optional<TextDataset> trec = read_trec(s.data_dir);
  if (!trec || !model.tokenizer) return {};
  TextDataset rows = *trec;
  rows.truncate(static_cast<size_t>(batch));
  ThreadPool pool(1);
  const TokenizedDataset tokens =
      tokenize_dataset(rows, *model.tokenizer, static_cast<int>(model.model->max_positions()), pool);
  const std::vector<int32_t> lengths = tokens.lengths();
  return {lengths.begin(), lengths.end()};
}

void add_device(const BenchSettings& s, const BenchDevice& device, const std::string& dtype,
                BenchReport& report, OpProfile* profile) {
  AutoModel model = bench_model(s.model, kLabels);
  const auto note = [&](const std::string& text) { report.notes.push_back(dtype + ": " + text); };
  const auto backend = open_device(device.kind, {device.threads, false, note});
  Session::Options options;
  options.program.dtype = bench_dtype(dtype, {"int8", "fp8"});
  const nn::Quantization quantization = bench_quantization(dtype, *backend);
  Session session(*backend, *model.model, options);
  write_weights(session, model);
  std::vector<float> logits;
  const TokenRounding rounding = session.token_rounding();
  const auto work_of = [&](int64_t tokens, int64_t rows) {
    return Work{.kind = ProgramKind::kEvaluate,
                .bucket = bench_bucket(tokens, rows, rounding),
                .targets = false,
                .quantization = quantization};
  };
  for (const int batch : s.batches()) {
    std::vector<int> lengths = real_lengths(s, model, batch);
    const bool real = !lengths.empty();
    if (!real) {
      const Turn turn = fixed_lengths(model);
      // What cannot fit is refused before the host lists its lengths.
      session.programs().reserve({{work_of(tokens_of(turn, batch), batch)}});
      lengths = in_turns(turn, batch);
    }
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    session.programs().expect_rows(ProgramCache::Rows::kEvaluated, *std::ranges::max_element(lengths));
    const Work work = work_of(tokens, std::ssize(lengths));
    session.programs().reserve({{work}});
    const PackedBatch packed = bench_batch(lengths, model.config.vocab_size, false, rounding);
    const auto run = [&] { session.evaluate(packed, logits, {}, {}, quantization); };
    const BenchTimes times = time_calls(kWarmup, s.steps, run);
    for (const float logit : logits)
      if (!std::isfinite(logit)) fail(ErrorCode::kNonFinite, "bench: a score is {}", logit);
    nlohmann::ordered_json row = bench_row("infer", device, s.model, dtype);
    row["batch"] = lengths.size();
    row["tokens"] = packed.real_tokens();
    row["longest"] = packed.longest_row;
    row["lengths_from"] = real ? "trec" : "fixed";
    row["lengths"] = lengths;
    add_speed(row, times, forward_flops(model.config, lengths), device, options.program.dtype);
    row["tokens_per_s"] = six_digits(packed.real_tokens() / times.median_ms * 1e3);
    row["texts_per_s"] = six_digits(static_cast<double>(lengths.size()) / times.median_ms * 1e3);
    report.rows.push_back(std::move(row));
    if (profile == nullptr) continue;
    nlohmann::ordered_json op_row = bench_row("profile", device, s.model, dtype);
    op_row["batch"] = lengths.size();
    const auto compiled = session.programs().compile(work);
    profile->add(op_row, *compiled->program,
                 node_times(*compiled->executable, *compiled->program, s.steps, run));
  }
}

}  // namespace

std::vector<BenchReport> bench_infer(const BenchSettings& s) {
  BenchReport report{fmt::format("infer: {}, one forward pass over texts of real lengths", s.model),
                     {},
                     {{"device", "device"},
                      {"dtype", "dtype"},
                      {"batch", "batch"},
                      {"tokens", "tokens"},
                      {"ms", "median ms", 2},
                      {"min_ms", "least ms", 2},
                      {"texts_per_s", "texts/s", 1},
                      {"tokens_per_s", "tokens/s", 0},
                      {"flops_per_s", "TFLOP/s", 3, 1e-12},
                      {"percent_of_peak", "% of peak", 1},
                      {"peak_memory_bytes", "memory GiB", 2, 1.0 / (1 << 30)}},
                     {},
                     {"texts/s", {"device", "dtype", "batch"}, {"texts_per_s", "texts/s", 1}}};
  std::vector<OpProfile> profiles;
  for (const BenchDevice& device : bench_devices(s, true)) {
    report.notes.push_back(device.note());
    OpProfile* const profile = s.profile ? &profiles.emplace_back(s.model, device) : nullptr;
    for (const std::string& dtype : s.dtypes()) add_device(s, device, dtype, report, profile);
  }
  std::vector<BenchReport> reports{std::move(report)};
  for (const OpProfile& profile : profiles) reports.push_back(profile.report());  // once all rows are there
  for (BenchReport& each : reports) note_few_calls(each, s.steps);
  return reports;
}

}  // namespace lathe
