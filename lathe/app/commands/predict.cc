// lathe predict: classify texts with a model that was fine-tuned before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/commands.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/backends/register.h"
#include "lathe/data/table.h"
#include "lathe/settings/options.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

constexpr const char* kPredictUsage =
    "usage: lathe predict MODEL_DIR [--file FILE | TEXT…] [--json] [--bf16|--fp16] [--int8|--fp8]\n"
    "                     [--threads N] [--device auto|cpu|cuda|mps] [--batch_size 32] [--max_seq_length "
    "128]\n"
    "  Classifies each text, or each line of FILE (a tab parts the two texts of a pair; then every line is a "
    "pair).  For\n"
    "  every text it prints the label, its probability and the text, parted by tabs; of a regression the "
    "values,\n"
    "  of several labels those above one half, each with its probability; nan where the model says nothing,\n"
    "  because a logit is not finite (with --json null, the label, too). With\n"
    "  --json one object per line with all probabilities or values.  --int8 predicts with linear layers in "
    "8-bit\n"
    "  integers, --fp8 (cuda) with them in fp8; both say on stderr how often that agrees with what comes "
    "without it.\n";

/// Adds a line to the texts, which are all single or all pairs.  place: for messages, "file:3".
void add_line(TextDataset& data, const std::string& line, const std::string& place,
              const std::string& first_place) {
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  const auto wanted = data.first.empty() ? std::min<ptrdiff_t>(tabs, 1) : ptrdiff_t{data.has_pairs()};
  if (tabs != wanted)
    fail(ErrorCode::kInvalidData,
         "{}: found {} texts parted by tabs, wants {}; write each line as one text, or each as two parted by "
         "one tab",
         place, tabs + 1,
         data.first.empty() ? "one or two" : fmt::format("{} as in {}", wanted + 1, first_place));
  const size_t tab = line.find('\t');
  data.first.push_back(line.substr(0, tab));
  if (tab != std::string::npos) data.second.push_back(line.substr(tab + 1));
}

TextDataset read_texts(const Options& options) {
  TextDataset data;
  std::string first_place;
  const auto add = [&](const std::string& line, const std::string& place) {
    if (first_place.empty()) first_place = place;
    add_line(data, line, place, first_place);
  };
  for (size_t i = 1; i < options.rest.size(); ++i) {
    check_utf8(options.rest[i], fmt::format("text {}", i));
    add(options.rest[i], fmt::format("text {}", i));
  }
  if (!options.has("--file")) return data;
  const std::string path = options.get("--file");
  const std::vector<std::string> lines = read_lines(path);
  if (const auto kind = table_format_of(path);
      kind == TableFormat::kCsv || kind == TableFormat::kJson || kind == TableFormat::kJsonLines)
    print_error(fmt::format(
        "{0}: each line is taken for a text; for a table: lathe glue --do_predict --test_file {0}\n", path));
  size_t number = 0;
  for (const std::string& line : lines) add(line, fmt::format("{}:{}", path, ++number));
  return data;
}

/// Softmax over classes; a sigmoid each for several labels; the value itself for regression.  NaN, all of
/// them, where a logit is not finite.
std::vector<double> probabilities(Problem problem, const float* logits, size_t count) {
  std::vector<double> p(logits, logits + count);
  if (!std::all_of(p.begin(), p.end(), [](double x) { return std::isfinite(x); }))
    return std::vector<double>(count, NAN);
  if (problem == Problem::kRegression) return p;
  if (problem == Problem::kMultiLabel) {
    for (double& x : p) x = 1 / (1 + std::exp(-x));
    return p;
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - largest);
  for (double& x : p) x /= sum;
  return p;
}

std::string line_of(const AutoModel& model, const std::string& text, const std::vector<double>& p) {
  const Problem problem = model.model->problem();
  if (std::isnan(p[0])) return fmt::format("{}nan\t{}", problem == Problem::kSingleLabel ? "-\t" : "", text);
  if (problem == Problem::kRegression && p.size() == 1) return fmt::format("{:.4f}\t{}", p[0], text);
  if (problem == Problem::kRegression || problem == Problem::kMultiLabel) {
    std::string names;
    for (size_t k = 0; k < p.size(); ++k)
      if (problem == Problem::kRegression || p[k] > 0.5)
        names += fmt::format("{}{} {:.4f}", names.empty() ? "" : ", ", model.labels[k], p[k]);
    return fmt::format("{}\t{}", names.empty() ? "-" : names, text);
  }
  const size_t best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  return fmt::format("{}\t{:.4f}\t{}", model.labels[best], p[best], text);
}

std::string json_of(const AutoModel& model, const TextDataset& data, size_t row,
                    const std::vector<double>& p) {
  nlohmann::ordered_json json;
  json["text"] = data.first[row];
  if (data.has_pairs()) json["text_pair"] = data.second[row];
  const auto number = [](double x) -> nlohmann::ordered_json {
    if (std::isnan(x)) return nullptr;
    return x;
  };
  const auto put_all = [&](const char* key) {
    nlohmann::ordered_json::object_t values;  // labels are distinct: json[label] would look through all
    for (size_t k = 0; k < p.size(); ++k) values.emplace_back(model.labels[k], number(p[k]));
    json[key] = std::move(values);
  };
  if (model.model->problem() != Problem::kRegression) {
    const auto best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
    json["label"] = std::isnan(p[0]) ? nlohmann::ordered_json() : nlohmann::ordered_json(model.labels[best]);
    put_all("probabilities");
  } else if (p.size() == 1) {
    json["value"] = number(p[0]);
  } else {
    put_all("values");
  }
  return python_json(json, -1, false);
}

}  // namespace

Syntax predict_syntax() {
  return {kPredictUsage,
          {{"--file", "FILE"},
           device_flag(),
           {"--threads", "N"},
           {"--batch_size", "N"},
           {"--max_seq_length", "N"},
           {"--json"},
           {"--bf16"},
           {"--fp16"},
           {"--int8"},
           {"--fp8"}}};
}

int run_predict(const std::vector<std::string>& args) {
  const Options options = parse_options(args, predict_syntax());
  if (options.has("--help")) {
    fmt::print("{}", kPredictUsage);
    return 0;
  }
  if (options.rest.empty()) fail(ErrorCode::kUsage, "lathe predict: wants a model folder\n{}", kPredictUsage);
  if (options.rest.size() == 1 && !options.has("--file"))
    fail(ErrorCode::kUsage, "lathe predict: wants texts or --file\n{}", kPredictUsage);
  if (options.has("--bf16") && options.has("--fp16"))
    fail(ErrorCode::kUsage, "lathe predict: --bf16 and --fp16: found both, wants at most one");
  if (options.has("--fp8") && (options.has("--fp16") || options.has("--int8")))
    fail(ErrorCode::kUsage, "lathe predict: --fp8 and {}: found both, wants at most one",
         options.has("--fp16") ? "--fp16" : "--int8");
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(options.rest[0]);
  const ModelConfig config = read_model_config(fs, folder);
  const Problem problem = saved_problem(config);
  if (problem == Problem::kQuestionAnswering || problem == Problem::kMaskedLm)
    fail(ErrorCode::kUnsupported, "{}: a {}; lathe predict classifies texts. {}", folder,
         architecture(config, problem),
         problem == Problem::kMaskedLm ? "Fine-tune it first: lathe glue --do_train"
                                       : "For question answering: lathe qa --do_predict --test_file FILE");
  AutoModel model = from_pretrained(fs, folder, {problem, {}, false});
  const TextDataset data = read_texts(options);
  const int threads = whole_number(options, "--threads", 0, 0);
  TrainingArguments training;
  training.bf16 = options.has("--bf16");
  training.fp16 = options.has("--fp16");
  training.int8 = options.has("--int8");
  training.fp8 = options.has("--fp8");
  training.per_device_eval_batch_size = whole_number(options, "--batch_size", 32, 1);
  ThreadPool pool(threads);
  const int length = std::min(whole_number(options, "--max_seq_length", 128, 3), longest_text(model));
  const TokenizedDataset tokens = tokenize_dataset(data, *model.tokenizer, length, pool);
  const auto warn = [](const std::string& text) { print_error(text + "\n"); };
  const auto backend = open_device(options.get("--device", "auto"), {threads, false, warn});
  TrainerHooks hooks;
  hooks.message = [&](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarning) warn(text);
  };
  Trainer trainer(*backend, model, training, nullptr, nullptr, hooks);
  if (!trainer.load_report().missing.empty())
    fail(ErrorCode::kInvalidData, "{}\nSuch a model predicts at random; fine-tune it first.",
         to_string(trainer.load_report(), *model.model, folder));
  if (!trainer.load_report().unexpected.empty()) warn(to_string(trainer.load_report(), *model.model, folder));
  const Predictions p = trainer.predict(tokens);
  if (evaluation_quantization(training) != nn::Quantization::kNone)
    warn(trainer.compare(p, trainer.predict(tokens, nn::Quantization::kNone)));
  const size_t columns = static_cast<size_t>(p.columns);
  for (size_t row = 0; row < data.size(); ++row) {
    const std::string text = data.first[row] + (data.has_pairs() ? "\t" + data.second[row] : "");
    const std::vector<double> scores = probabilities(problem, &p.logits[row * columns], columns);
    const bool as_json = options.has("--json");
    fmt::print("{}\n",
               text_for_stdout(as_json ? json_of(model, data, row, scores) : line_of(model, text, scores)));
  }
  return 0;
}

}  // namespace lathe
