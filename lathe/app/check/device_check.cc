#include "lathe/app/check/device_check.h"

#include <fmt/format.h>

#include <cmath>

#include "lathe/app/bench/bench.h"
#include "lathe/app/check/kernel_check.h"
#include "lathe/app/commands/demo.h"
#include "lathe/backends/conformance.h"
#include "lathe/backends/register.h"
#include "lathe/core/cache_file.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

constexpr size_t kShownFailures = 10;
constexpr int kUpdates = 50;

struct Trace {
  std::vector<double> losses, grad_norms;
};

/// What the reference, at some ten million operations a second, gets through in seconds.
ModelConfig small_config(const Tokenizer& tokenizer) {
  ModelConfig config;
  config.vocab_size = tokenizer.vocab_size();
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = 64;
  config.pad_token_id = tokenizer.pad_id();
  return config;
}

Trace train(Backend& backend, int updates) {
  const Tokenizer tokenizer = demo_tokenizer();
  AutoModel model = from_config(small_config(tokenizer), {single_label, demo_labels(), false}, tokenizer);
  TrainingArguments args;
  args.per_device_train_batch_size = 8;
  args.learning_rate = 1e-4;
  args.max_steps = updates;
  args.logging_steps = 1;
  args.save_strategy = "no";
  validate(args);
  ThreadPool pool(1);
  const TokenizedDataset data =
      tokenize_dataset(demo_dataset(demo_train(static_cast<size_t>(8 * updates), 1)), tokenizer, 64, pool);
  Trace trace;
  TrainerHooks hooks;
  hooks.on_log = [&](const nlohmann::ordered_json& entry) {
    if (!entry.contains("loss")) return;
    trace.losses.push_back(entry["loss"]);
    trace.grad_norms.push_back(entry["grad_norm"]);
  };
  Trainer(backend, model, args, &data, nullptr, hooks).train();
  return trace;
}

/// Before all else, so that the rest sees the device as runs will; not where a setting decides.
void try_own_kernels(const std::string& device, const std::function<void(const std::string&)>& say) {
  if (!kernel_setting().empty()) return;
  setenv(kKernelSetting, "all", 1);
  const struct Unset {
    ~Unset() { unsetenv(kKernelSetting); }
  } unset;
  check_kernels(*open_device(device), cache_path(KernelVerdicts::kFile), say);
}

std::string verdict(bool good, const std::string& fact) { return (good ? "[GOOD] " : "[BAD]  ") + fact; }

}  // namespace

OpsVerdict check_ops(Backend& backend) {
  OpsVerdict verdict;
  conformance_test(backend, {}, [&](const ConformanceResult& result) {
    ++(result.passed ? verdict.passed : verdict.failed);
    if (!result.passed && verdict.failures.size() < kShownFailures)
      verdict.failures.push_back(result.id + ": " + result.detail);
  });
  return verdict;
}

TraceVerdict check_training(Backend& backend, int updates) {
  const Trace measured = train(backend, updates), wanted = train(*open_device("ref"), updates);
  TraceVerdict verdict;
  verdict.updates = static_cast<int>(measured.losses.size());
  for (size_t i = 0; i < measured.losses.size(); ++i) {
    const double norm = wanted.grad_norms.at(i);
    verdict.loss = std::max(verdict.loss, std::abs(measured.losses[i] - wanted.losses.at(i)));
    verdict.grad_norm = std::max(verdict.grad_norm, std::abs(measured.grad_norms[i] - norm) / norm);
  }
  verdict.good = verdict.updates == updates && verdict.loss <= 5e-6 && verdict.grad_norm <= 1e-5;
  return verdict;
}

bool check_device(const std::string& device, const std::function<void(const std::string&)>& say,
                  const std::function<void(const BenchReport&)>& show) {
  bool good = true;
  std::string kind;
  try_own_kernels(device, say);
  {
    const auto backend = open_device(device);
    kind = backend->info().kind;
    say(fmt::format("{}: every op, {} updates, then three tables; this takes minutes", kind, kUpdates));
    const OpsVerdict ops = check_ops(*backend);
    good = ops.failed == 0;
    say(verdict(good, fmt::format("{}: ops against the reference: {} passed, {} failed", kind, ops.passed,
                                  ops.failed)));
    for (const std::string& failure : ops.failures) say("       " + failure);
    const TraceVerdict trace = check_training(*backend, kUpdates);
    good = good && trace.good;
    say(verdict(trace.good, fmt::format("{}: {} updates with dropout against the reference: losses within "
                                        "{:.1e} (bound 5e-6), gradient norms within {:.1e} (bound 1e-5)",
                                        kind, trace.updates, trace.loss, trace.grad_norm)));
  }
  for (const Bench& bench : benches()) {
    if (std::string_view(bench.name) != "step" && std::string_view(bench.name) != "infer" &&
        std::string_view(bench.name) != "mlp")
      continue;
    BenchSettings settings = bench.defaults;
    settings.device = kind;
    for (const BenchReport& report : bench.run(settings)) show(report);
  }
  return good;
}

}  // namespace lathe
