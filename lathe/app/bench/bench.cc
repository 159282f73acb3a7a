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
#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/version.h"
#include "lathe/io/file_system.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

using B = BenchSettings;

std::vector<Field<B>> rows() {
  return {{shared_row("device", "What runs it; auto: the best (infer, mlp, finetune: all that are there)."),
           &B::device},
          {shared_row("threads"), &B::threads},
          {"model", &B::model, "bert-base or minilm (random weights), or a model folder.", {.value = "NAME"}},
          {"batch", &B::batch, "Rows (infer, mlp, loss: several parted by commas).", {.value = "N"}},
          {"seq", &B::seq, "Tokens per row (finetune: at most).", {.low = 3, .value = "N"}},
          {"dtype",
           &B::dtype,
           "Of activations: bf16, fp16 or fp32; several parted by commas but for step and plan (infer: also "
           "int8; "
           "on cuda all but mlp and plan: fp8; both compared with the peak of bf16).",
           {.value = "NAME"}},
          {"steps", &B::steps, "Calls that are timed.", {.low = 1, .value = "N"}},
          {"layers", &B::layers, "Widths of the network, at least two.", {.value = "N,N,…"}},
          {"iterations",
           &B::iterations,
           "As many calls, however long they take; a terminal shows the time left.",
           {.low = 1, .value = "N"}},
          {"epochs", &B::epochs, "Passes over the data.", {.low = 1, .value = "N"}},
          {"data_dir", &B::trec_dir, "Where trec/ lies, if not in $LATHE_DATA_DIR.", {.value = "DIR"}},
          {"gradient_checkpointing", &B::recompute,
           "Compute each layer's activations anew in the backward pass."},
          {"profile", &B::profile, "Also the milliseconds of each op."},
          {"plan", &B::plan, "The same as `lathe bench plan`."},
          {"json", &B::json, "JSON lines instead of tables."},
          {"html",
           &B::html,
           "Also write a page with tables and charts; of step with --profile.",
           {.value = "FILE"}}};
}

bool takes(const Bench& bench, std::string_view flag) {
  constexpr std::string_view kAll[] = {"plan", "json", "html", "device", "threads"};
  return std::find(std::begin(kAll), std::end(kAll), flag) != std::end(kAll) ||
         std::find(bench.flags.begin(), bench.flags.end(), flag) != bench.flags.end();
}

std::string details() {
  std::string text =
      "Measures this machine; the peak that figures are compared with is measured first. Below are the "
      "defaults of "
      "step; the other benches have their own.\n\n";
  for (const Bench& bench : benches()) {
    std::string defaults;
    for (const Field<B>& row : rows())
      if (takes(bench, row.info.name) && row.info.kind != Kind::kBool && !row.info.optional)
        defaults +=
            fmt::format(" --{}{}{}", row.info.name, kGlue, value_text(row.info, row.get(bench.defaults)));
    text += fmt::format(" {:<9} {}\n {:<9} {}\n", bench.name, bench.summary, "",
                        wrapped("by default" + defaults, 11, 11, 98));
  }
  return text;
}

const Bench& find_bench(const B& given, const Call& call) {
  std::vector<std::string> names = call.words;
  if (given.plan) names.emplace_back("plan");
  if (names.size() == 1)
    for (const Bench& bench : benches())
      if (names[0] == bench.name) return bench;
  call.refuse(fmt::format("found '{}', expected the name of one bench", fmt::join(call.words, " ")));
}

/// Errors: kUsage if the value has several parts and the bench takes one.
void check_one(const Bench& bench, const std::string& flag, const std::string& value) {
  if (value.find(',') != std::string::npos &&
      std::find(bench.lists.begin(), bench.lists.end(), flag) == bench.lists.end())
    fail(ErrorCode::kUsage, "--{}: found {}, lathe bench {} takes one", flag, value, bench.name);
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

BenchSettings settings_of(const Bench& bench, const B& given, const Call& call) {
  BenchSettings s = bench.defaults;
  s.start = given.start;
  for (const Field<B>& row : rows()) {
    if (call.given.count(row.info.name) == 0) continue;
    if (!takes(bench, row.info.name))
      fail(ErrorCode::kUsage, "--{} means nothing to lathe bench {}", row.info.name, bench.name);
    row.set(s, row.get(given));
  }
  s.profile = s.profile || (s.html && bench.page_has_profile);
  s.data_dir = s.trec_dir.value_or(environment("LATHE_DATA_DIR"));
  check_one(bench, "batch", s.batch);
  check_one(bench, "dtype", s.dtype);
  s.batches(), s.widths();  // before anything is measured
  if (s.iterations && call.given.contains("steps"))
    fail(ErrorCode::kUsage, "--iterations and --steps: found both, expected one of them");
  return s;
}

bool is_profile(const BenchReport& report) {
  return !report.rows.empty() && report.rows[0].value("bench", "") == "profile";
}

int run_benches(B& given, const Call& call) {
  const TerminalPort port = standard_port();
  const Bench& bench = find_bench(given, call);
  const BenchSettings settings = settings_of(bench, given, call);
  const Stolen stolen;
  std::vector<BenchReport> reports = bench.run(settings);
  if (takes(bench, "steps") || takes(bench, "epochs")) stolen.tell(reports);  // else nothing ran
  for (BenchReport& report : reports) note_more_than_peak(report);
  for (const BenchReport& report : reports) {
    if (is_profile(report) && !given.profile) continue;  // only for the page
    port.out(given.json ? json_lines(report) : terminal_text(report, port.width(), port.unicode));
  }
  if (given.html) {
    const std::string page = html_page(reports, fmt::format("lathe {} bench {}", kVersion, bench.name));
    real_file_system().write_atomic(*given.html, page).check();
  }
  return 0;
}

std::vector<int> numbers_of(const std::string& flag, const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& part : split_at_commas(text)) numbers.push_back(whole_number(flag, part, 1));
  return numbers;
}

}  // namespace

std::vector<std::string> BenchSettings::dtypes() const { return split_at_commas(dtype); }

std::vector<int> BenchSettings::batches() const { return numbers_of("--batch", batch); }

std::vector<int> BenchSettings::widths() const {
  std::vector<int> widths = numbers_of("--layers", layers);
  if (widths.size() < 2)
    fail(ErrorCode::kUsage, "--layers: found {}, expected at least two widths, as in 784,128,10", layers);
  return widths;
}

const std::vector<Bench>& benches() {
  static const std::vector<Bench> list = [] {
    BenchSettings step, gemm, loss, plan, infer, mlp, finetune;
    plan.batch = "32";
    gemm.dtype = "bf16,fp32", gemm.steps = 5;
    loss.dtype = "bf16,fp32", loss.batch = "614", loss.steps = 5;  // 15 % of 32 x 128 tokens
    infer.batch = "1,2,4,8,16,32,64", infer.steps = 20;
    mlp.batch = "1024", mlp.steps = 30;
    finetune.model = "minilm", finetune.batch = "32", finetune.seq = 64;
    return std::vector<Bench>{
        {"step",
         "a training step of BERT: forward, backward, clipping, AdamW",
         bench_step,
         {"model", "batch", "seq", "dtype", "steps", "profile", "gradient_checkpointing"},
         {},
         step,
         true},
        {"gemm",
         "the matrix products within such a step, as shares of the peak",
         bench_gemm,
         {"model", "batch", "seq", "dtype", "steps"},
         {"dtype"},
         gemm},
        {"loss",
         "the loss over a vocabulary and its gradients, with all logits in memory and in chunks",
         bench_loss,
         {"model", "batch", "dtype", "steps"},
         {"batch", "dtype"},
         loss},
        {"plan",
         "the ops and launches of such a step, counted; what Apple's chips might take, predicted",
         bench_plan,
         {"model", "batch", "seq", "dtype", "gradient_checkpointing"},
         {},
         plan},
        {"infer",
         "forward passes at lengths of real questions (TREC's with a folder's tokenizer)",
         bench_infer,
         {"model", "batch", "dtype", "steps", "data_dir", "profile"},
         {"batch", "dtype"},
         infer},
        {"mlp",
         "forward and backward of a small network in fp32, on all devices of this machine",
         bench_mlp,
         {"layers", "batch", "steps", "iterations"},
         {"batch"},
         mlp},
        {"finetune",
         "the Trainer on 1,000 questions (TREC's, else made), all weights and only the head",
         bench_finetune,
         {"model", "batch", "seq", "dtype", "epochs", "data_dir"},
         {"dtype"},
         finetune},
    };
  }();
  return list;
}

Command bench_command() {
  Syntax syntax{.name = "bench",
                .summary = "measure this machine: training, inference, matrix products",
                .details = details(),
                .words = Words::kAny};
  for (const Bench& bench : benches()) syntax.choices.emplace_back(bench.name);
  syntax.synopsis = fmt::format("{} [flags]", fmt::join(syntax.choices, "|"));
  return make_command<B>(std::move(syntax), rows(), run_benches);
}

}  // namespace lathe
