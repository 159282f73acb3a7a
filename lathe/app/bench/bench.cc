// lathe bench: how fast this machine trains and infers.
#include "lathe/app/bench/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "lathe/app/commands/commands.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/core/cpu_limits.h"
#include "lathe/core/error.h"
#include "lathe/core/version.h"
#include "lathe/io/file_system.h"
#include "lathe/settings/help.h"
#include "lathe/settings/options.h"

namespace lathe {
namespace {

struct BenchFlag : Flag {
  std::string (*show)(const BenchSettings&);  ///< the default; null: none
};

std::string joined(const auto& values) { return fmt::format("{}", fmt::join(values, ",")); }
std::string whole(int value, const char* zero) { return value == 0 ? zero : std::to_string(value); }

/// All flags, in the order of help.  Those without default are taken by every bench.
const std::vector<BenchFlag>& flags() {
  static const std::vector<BenchFlag> list = {
      {{"--device", "auto|cpu|…", "what runs it; auto: the best (infer, mlp, finetune: all that are there)"},
       [](const BenchSettings& s) { return s.device; }},
      {{"--threads", "N", "threads of the CPU"},
       [](const BenchSettings& s) { return whole(s.threads, "one per core"); }},
      {{"--model", "NAME", "bert-base or minilm (random weights), or a model folder"},
       [](const BenchSettings& s) { return s.model; }},
      {{"--batch", "N", "rows (infer, mlp: several parted by commas)"},
       [](const BenchSettings& s) { return joined(s.batches); }},
      {{"--seq", "N", "tokens per row (finetune: at most)"},
       [](const BenchSettings& s) { return std::to_string(s.seq); }},
      {{"--dtype", "bf16|fp16|fp32",
        "of activations; several parted by commas but for step and plan (infer: also int8; on cuda all but "
        "mlp and plan: fp8; both compared with the peak of bf16)"},
       [](const BenchSettings& s) { return joined(s.dtypes); }},
      {{"--steps", "N", "calls that are timed"},
       [](const BenchSettings& s) { return std::to_string(s.steps); }},
      {{"--epochs", "N", "passes over the data"},
       [](const BenchSettings& s) { return std::to_string(s.epochs); }},
      {{"--data_dir", "DIR", "where trec/ lies"},
       [](const BenchSettings&) { return std::string("$LATHE_DATA_DIR"); }},
      {{"--gradient_checkpointing", "", "compute each layer's activations anew in the backward pass"},
       nullptr},
      {{"--profile", "", "also the milliseconds of each op"}, nullptr},
      {{"--plan", "", "the same as `lathe bench plan`"}, nullptr},
      {{"--json", "", "JSON lines instead of tables"}, nullptr},
      {{"--html", "FILE", "also writes a page with tables and charts; of step with --profile"}, nullptr},
  };
  return list;
}

bool takes(const Bench& bench, const std::string& flag) {
  return flag == "--plan" || flag == "--json" || flag == "--html" || flag == "--device" ||
         flag == "--threads" || std::find(bench.flags.begin(), bench.flags.end(), flag) != bench.flags.end();
}

std::string usage() {
  std::string text = "usage: lathe bench";
  const char* separator = " ";
  for (const Bench& bench : benches()) text += separator + std::string(bench.name), separator = "|";
  text += " [flags]\n  Measures this machine; the peak that figures are compared with is measured first.\n\n";
  for (const Bench& bench : benches()) {
    text += fmt::format("  {:<9} {}\n", bench.name, bench.summary);
    std::string defaults;
    for (const BenchFlag& flag : flags())
      if (takes(bench, flag.name) && flag.show != nullptr)
        defaults += fmt::format(" {}{}{}", flag.name, kGlue, flag.show(bench.defaults));
    text += fmt::format("            {}\n", wrapped("by default" + defaults, 12, 12));
  }
  text += "\n";
  for (const BenchFlag& flag : flags())
    text += fmt::format("  {:<25} {}\n", fmt::format("{} {}", flag.name, flag.value),
                        wrapped(flag.meaning, 28, 28));
  return text;
}

const Bench& find_bench(const Options& options) {
  std::vector<std::string> names = options.rest;
  if (options.has("--plan")) names.emplace_back("plan");
  if (names.size() == 1)
    for (const Bench& bench : benches())
      if (names[0] == bench.name) return bench;
  fail(ErrorCode::kUsage, "lathe bench: found '{}', wants the name of one bench\n{}",
       fmt::join(options.rest, " "), usage());
}

/// The values of a flag, parted by commas.  Errors: kUsage if there are several and the bench takes one.
std::vector<std::string> values_of(const Bench& bench, const Options& options, const std::string& flag) {
  const std::string text = options.get(flag);
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  const bool list = std::find(bench.lists.begin(), bench.lists.end(), flag) != bench.lists.end();
  if (parts.size() > 1 && !list)
    fail(ErrorCode::kUsage, "{}: found {}, lathe bench {} takes one", flag, text, bench.name);
  return parts;
}

/// What the host of a virtual machine takes of its CPUs from now on.
class Stolen {
 public:
  void tell(std::vector<BenchReport>& reports) const {
    const std::optional<double> now = stolen_seconds();
    if (!before_ || !now) return;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin_;
    const double cpus = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));  // also those not allowed here
    const double stolen = std::max(0., *now - *before_);  // a guest that moved to another host may count anew
    const double percent = 100 * stolen / (wall.count() * cpus);
    for (BenchReport& report : reports)
      for (auto& row : report.rows) row["stolen_percent"] = six_digits(percent);
    if (percent >= kWorthTelling)
      reports.front().notes.push_back(fmt::format(
          "the host of this virtual machine took {:.0f} % of the CPUs' time: the figures are of the rest",
          percent));
  }

 private:
  static constexpr double kWorthTelling = 2;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<double> before_ = stolen_seconds();
};

BenchSettings settings_of(const Bench& bench, const Options& options) {
  for (const auto& [flag, value] : options.values)
    if (!takes(bench, flag)) fail(ErrorCode::kUsage, "{} means nothing to lathe bench {}", flag, bench.name);
  BenchSettings s = bench.defaults;
  s.start = std::chrono::steady_clock::now();
  const char* data_dir = std::getenv("LATHE_DATA_DIR");
  s.device = options.get("--device", s.device);
  s.model = options.get("--model", s.model);
  s.data_dir = options.get("--data_dir", data_dir == nullptr ? "" : data_dir);
  s.threads = whole_number(options, "--threads", s.threads, 0);
  s.seq = whole_number(options, "--seq", s.seq, 3);
  s.steps = whole_number(options, "--steps", s.steps, 1);
  s.epochs = whole_number(options, "--epochs", s.epochs, 1);
  s.profile = options.has("--profile") || (options.has("--html") && bench.page_has_profile);
  s.recompute = options.has("--gradient_checkpointing");
  if (options.has("--batch")) {
    s.batches.clear();
    for (const std::string& value : values_of(bench, options, "--batch"))
      s.batches.push_back(whole_number("--batch", value, 1));
  }
  if (options.has("--dtype")) s.dtypes = values_of(bench, options, "--dtype");
  return s;
}

bool is_profile(const BenchReport& report) {
  return !report.rows.empty() && report.rows[0].value("bench", "") == "profile";
}

}  // namespace

const std::vector<Bench>& benches() {
  static const std::vector<Bench> list = [] {
    BenchSettings step{.model = "bert-base", .dtypes = {"bf16"}, .batches = {8}, .seq = 128, .steps = 10};
    BenchSettings gemm = step, plan = step, infer = step, mlp, finetune;
    plan.batches = {32};
    gemm.dtypes = {"bf16", "fp32"}, gemm.steps = 5;
    infer.batches = {1, 2, 4, 8, 16, 32, 64}, infer.steps = 20;
    mlp.batches = {1024}, mlp.steps = 30;
    finetune.model = "minilm", finetune.dtypes = {"bf16"}, finetune.batches = {32};
    finetune.seq = 64, finetune.epochs = 3;
    return std::vector<Bench>{
        {"step",
         "a training step of BERT: forward, backward, clipping, AdamW",
         bench_step,
         {"--model", "--batch", "--seq", "--dtype", "--steps", "--profile", "--gradient_checkpointing"},
         {},
         step,
         true},
        {"gemm",
         "the matrix products within such a step, as shares of the peak",
         bench_gemm,
         {"--model", "--batch", "--seq", "--dtype", "--steps"},
         {"--dtype"},
         gemm},
        {"plan",
         "the ops and launches of such a step, counted; what Apple's chips might take, predicted",
         bench_plan,
         {"--model", "--batch", "--seq", "--dtype", "--gradient_checkpointing"},
         {},
         plan},
        {"infer",
         "forward passes at lengths of real questions (TREC's with a folder's tokenizer)",
         bench_infer,
         {"--model", "--batch", "--dtype", "--steps", "--data_dir", "--profile"},
         {"--batch", "--dtype"},
         infer},
        {"mlp",
         "forward and backward of a small network, fp32",
         bench_mlp,
         {"--batch", "--steps"},
         {"--batch"},
         mlp},
        {"finetune",
         "the Trainer on 1,000 questions (TREC's, else made), all weights and the head alone",
         bench_finetune,
         {"--model", "--batch", "--seq", "--dtype", "--epochs", "--data_dir"},
         {"--dtype"},
         finetune},
    };
  }();
  return list;
}

Syntax bench_syntax() {
  Syntax syntax{usage(), {flags().begin(), flags().end()}};
  for (const Bench& bench : benches()) syntax.words.emplace_back(bench.name);
  return syntax;
}

int run_bench(const std::vector<std::string>& args) {
  const Options options = parse_options(args, bench_syntax());
  const TerminalPort port = standard_port();
  if (options.has("--help")) {
    port.out(usage());
    return 0;
  }
  const Bench& bench = find_bench(options);
  const Stolen stolen;
  std::vector<BenchReport> reports = bench.run(settings_of(bench, options));
  if (takes(bench, "--steps") || takes(bench, "--epochs")) stolen.tell(reports);  // else nothing ran
  for (BenchReport& report : reports) note_more_than_peak(report);
  for (const BenchReport& report : reports) {
    if (is_profile(report) && !options.has("--profile")) continue;  // drawn for the page alone
    port.out(options.has("--json") ? json_lines(report) : terminal_text(report, port.width(), port.unicode));
  }
  if (options.has("--html")) {
    const std::string page = html_page(reports, fmt::format("lathe {} bench {}", kVersion, bench.name));
    real_file_system().write_atomic(options.get("--html"), page).check();
  }
  return 0;
}

}  // namespace lathe
