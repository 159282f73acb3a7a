#include "lathe/engine/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

std::string gib(uint64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); }

/// What a batch size counts.
int64_t samples_of(const Bucket& bucket) { return bucket.samples > 0 ? bucket.samples : bucket.rows; }

/// A bucket of `samples` samples whose length and rows are the mean of those in `bucket`.
Bucket with_samples(Bucket bucket, int64_t samples, TokenRounding rounding) {
  // In double: the product of two large sizes may exceed 64 bits.
  const auto exact = [&](int64_t of) {
    const double part = static_cast<double>(of) / static_cast<double>(samples_of(bucket));
    return static_cast<int64_t>(std::ceil(part * static_cast<double>(samples)));
  };
  const bool several = bucket.samples > 0;
  return {rounding(exact(bucket.tokens)), several ? exact(bucket.rows) : samples,
          bucket.scored > 0 ? rounding(exact(bucket.scored)) : 0, several ? samples : 0};
}

/// The most samples, up to `most`, that fit.  By halving: more take more memory.
int64_t samples_that_fit(const MemoryShortage& s, int64_t most, bool recompute) {
  int64_t fit = 0;
  while (fit < most) {
    const int64_t samples = fit + (most - fit + 1) / 2;
    if (s.need_of(with_samples(s.bucket, samples, s.rounding), recompute) <= s.free)
      fit = samples;
    else
      most = samples - 1;
  }
  return fit;
}

std::string way_out(const MemoryShortage& s) {
  if (s.need.states + s.need.prepared > s.free)
    return "no batch is small enough: it needs more memory or a smaller model";
  const bool trains = s.kind == ProgramKind::kStep || s.kind == ProgramKind::kAccumulate;
  const int64_t fit = samples_that_fit(s, samples_of(s.bucket) - 1, s.recomputes);
  const int64_t recomputed = trains && !s.recomputes ? samples_that_fit(s, samples_of(s.bucket), true) : 0;
  if (fit == 0 && recomputed == 0) return "not one such row fits: it needs a smaller model or shorter rows";
  std::string text = fit > 0 ? fmt::format("a batch of {} fits", fit) : "";
  if (recomputed > fit)
    text += fmt::format("{}with --gradient_checkpointing one of {}{}", fit > 0 ? ", " : "", recomputed,
                        fit > 0 ? "" : " fits");
  return trains ? text + "; more --gradient_accumulation_steps make up for a smaller batch" : text;
}

}  // namespace

std::string to_string(const MemoryShortage& s) {
  const bool evaluates = s.kind == ProgramKind::kEvaluate || s.kind == ProgramKind::kBase;
  std::string parts = gib(s.need.activations) + " for activations";
  if (s.need.states > 0) parts += fmt::format(", {} for optimizer and gradients", gib(s.need.states));
  if (s.need.prepared > 0)
    parts += fmt::format(", {} for weights as products read them", gib(s.need.prepared));
  const std::string each = s.sharers > 1 ? fmt::format(" for each of {} processes", s.sharers) : "";
  const std::string more = s.remedy.empty() ? "" : "; " + s.remedy;
  return fmt::format("out of memory: {} a batch of {} ({} tokens) needs {}: {}; {} has {} free{}; {}{}",
                     evaluates ? "evaluating" : "training on", samples_of(s.bucket), s.bucket.tokens,
                     gib(s.need.total()), parts, s.device, gib(s.free), each, way_out(s), more);
}

}  // namespace lathe
