// One training step as a PyTorch user runs it: BERT with a classifier over rows of full length, dropout,
// clipping, AdamW.  Prints one JSON line; with --profile also the time of each op, summed over the step.
//   step_bench [base|minilm] [batch] [seq] [bf16|fp32] [threads] [steps] [--profile]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "lathe/backends/register.h"
#include "lathe/core/error.h"
#include "lathe/train/auto_model.h"

using namespace lathe;

namespace {

BertConfig config_of(const std::string& model) {
  BertConfig config;
  if (model == "minilm") {
    config.hidden_size = 384, config.num_hidden_layers = 6, config.intermediate_size = 1536;
  } else if (model != "base") {
    fail(ErrorCode::kUsage, "step_bench: model {} is unknown; wants base or minilm", model);
  }
  return config;
}

PackedBatch make_batch(int rows, int length) {
  PackedBatch batch;
  batch.rows = rows, batch.longest_row = length;
  batch.tokens =
      (rows * length + Session::kTokenMultiple - 1) / Session::kTokenMultiple * Session::kTokenMultiple;
  batch.cu_seqlens = {0};
  for (int row = 0; row < rows; ++row) {
    batch.cls_index.push_back(row * length);
    batch.labels.push_back(row % 2);
    for (int t = 0; t < length; ++t) {
      batch.input_ids.push_back(1000 + (row * 7919 + t * 104729) % 29000);
      batch.position_ids.push_back(t);
      batch.sample_ids.push_back(row);
    }
    batch.cu_seqlens.push_back((row + 1) * length);
  }
  for (auto* v : {&batch.input_ids, &batch.position_ids, &batch.sample_ids, &batch.token_type_ids})
    v->resize(static_cast<size_t>(batch.tokens), 0);
  return batch;
}

/// Matrix products of forward and backward, attention included, as peers/bert_train.py counts them.
double flops(const BertConfig& c, double rows, double length) {
  const double h = static_cast<double>(c.hidden_size), layers = static_cast<double>(c.num_hidden_layers);
  return 6 * layers * (4 * h * h + 2 * h * static_cast<double>(c.intermediate_size)) * rows * length +
         12 * layers * rows * length * length * h;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool profile = argc > 1 && std::strcmp(argv[argc - 1], "--profile") == 0;
    const int words = profile ? argc - 1 : argc;
    const auto word = [&](int i, const char* fallback) {
      return std::string(words > i ? argv[i] : fallback);
    };
    const std::string model_name = word(1, "base"), dtype = word(4, "bf16");
    const int rows = std::stoi(word(2, "8")), length = std::stoi(word(3, "128"));
    const int threads = std::stoi(word(5, "0")), steps = std::stoi(word(6, "10"));
    const auto backend = open_device("cpu", {threads});
    AutoModel model = from_config(config_of(model_name), {Problem::kSingleLabel, {"a", "b"}}, std::nullopt);
    Session::Options options;
    options.program.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
    Session session(*backend, *model.model, options);
    initialize(session, model, 42);
    const PackedBatch batch = make_batch(rows, length);
    StepScalars scalars;
    scalars.learning_rate = 2e-5;
    std::vector<double> ms;
    Session::Pending last;
    for (int step = 0; step < steps + 2; ++step) {
      scalars.update_step = step + 1;
      const auto begin = std::chrono::steady_clock::now();
      last = session.step(batch, scalars);
      session.collect(last);
      if (profile) last.executable->profile(true);
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
      if (step >= 2) ms.push_back(took.count());
    }
    std::sort(ms.begin(), ms.end());
    const double median = ms[ms.size() / 2];
    fmt::print(
        "{{\"bench\": \"step\", \"device\": \"{}\", \"model\": \"{}\", \"batch\": {}, \"seq\": {}, "
        "\"dtype\": \"{}\", \"ms\": {:.2f}, \"min_ms\": {:.2f}, \"tflops\": {:.3f}, \"arena_mb\": {}}}\n",
        backend->info().name, model_name, rows, length, dtype, median, ms[0],
        flops(model.config, rows, length) / median * 1e-9, session.arena_bytes() >> 20);
    if (!profile) return 0;
    std::map<std::string, double> by_op;
    const Program& program = session.program(last);
    for (const Span& span : last.executable->timeline())
      by_op[program.nodes()[static_cast<size_t>(span.node)].op->name] +=
          static_cast<double>(span.end_ns - span.begin_ns) * 1e-6;
    for (const auto& [name, total] : by_op)
      fmt::print("  {:<28} {:9.2f} ms {:5.1f} %\n", name, total, 100 * total / median);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return exit_code(error.code());
  }
}
