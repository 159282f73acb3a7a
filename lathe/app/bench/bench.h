#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/app/bench/bench_report.h"

namespace lathe {

/// The flags of `lathe bench`.  Each bench has its own defaults; those written here are step's.
struct BenchSettings {
  std::string device = "auto";              ///< infer, mlp and finetune: all that are there
  std::string model = "bert-base";          ///< infer, mlp and finetune: all available devices
  std::string dtype = "bf16", batch = "8";  ///< several values are separated by commas
  int seq = 128, threads = 0, steps = 10, epochs = 3;
  std::string layers = "1024,512,256,10";  ///< of mlp: the widths
  std::optional<int64_t> iterations;       ///< of mlp: all of them, in place of steps
  bool profile = false;
  bool recompute = false;               ///< gradient checkpointing
  std::optional<std::string> trec_dir;  ///< --data_dir
  bool plan = false, json = false;
  std::optional<std::string> html;

  std::string data_dir;  ///< folder of trec/ and vocab/; "": none
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();  ///< of the command

  std::vector<std::string> dtypes() const;
  /// Errors: kUsage.
  std::vector<int> batches() const;
  std::vector<int> widths() const;
};

/// One of the benches: its name, a line for --help, the flags that it uses, those of them that take several
/// values, and its defaults.
struct Bench {
  const char* name;
  const char* summary;
  std::vector<BenchReport> (*run)(const BenchSettings&);
  std::vector<std::string> flags, lists;
  BenchSettings defaults;
  bool page_has_profile = false;  ///< also without --profile: otherwise there is nothing to draw
};
const std::vector<Bench>& benches();

/// A whole training step (forward, backward, clip, AdamW) of BERT on rows of full length.  With `profile` it
/// adds a second report: milliseconds of each op.
std::vector<BenchReport> bench_step(const BenchSettings& settings);
/// The matrix products within such a step, each as a share of the peak.
std::vector<BenchReport> bench_gemm(const BenchSettings& settings);
/// The loss over a vocabulary and its gradients, by an op for each part and by one op for all.
std::vector<BenchReport> bench_loss(const BenchSettings& settings);
/// The ops of such a step, the launches of the device for them, and a prediction for Apple's chips; runs
/// nothing.
std::vector<BenchReport> bench_plan(const BenchSettings& settings);
/// Forward passes of a classifier at the lengths of real questions.  With `profile` it adds a second report,
/// as above.
std::vector<BenchReport> bench_infer(const BenchSettings& settings);
/// Forward and backward of linear layers with ReLU between them.
std::vector<BenchReport> bench_mlp(const BenchSettings& settings);
/// Fine-tuning by the Trainer on 1,000 questions: all weights, and only the head.
std::vector<BenchReport> bench_finetune(const BenchSettings& settings);

}  // namespace lathe
