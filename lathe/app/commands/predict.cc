// lathe predict: classify texts with a model that was fine-tuned before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/commands.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/app/terminal/terminal.h"
#include "lathe/backends/register.h"
#include "lathe/data/table.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"
#include "lathe/train/trainer.h"

namespace lathe {
namespace {

struct PredictSettings : TrainingArguments {
  PredictSettings() { per_device_eval_batch_size = 32; }
  std::string device_kind = "auto";  ///< not the trainer's device, which knows no "ref"
  int pool_threads = 0;
  std::optional<std::string> file;
  bool json = false;
  int max_seq_length = 128;
};
using P = PredictSettings;

/// Adds a line to the texts, which are all single or all pairs.  place: for messages, "file:3".
void add_line(TextDataset& data, const std::string& line, const std::string& place,
              const std::string& first_place) {
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  const auto wanted = data.first.empty() ? std::min<ptrdiff_t>(tabs, 1) : ptrdiff_t{data.has_pairs()};
  if (tabs != wanted)
    fail(ErrorCode::kInvalidData,
         "{}: found {} texts parted by tabs, expected {}; write each line as one text, or each as two parted "
         "by "
         "one tab",
         place, tabs + 1,
         data.first.empty() ? "one or two" : fmt::format("{} as in {}", wanted + 1, first_place));
  const size_t tab = line.find('\t');
  data.first.push_back(line.substr(0, tab));
  if (tab != std::string::npos) data.second.push_back(line.substr(tab + 1));
}

TextDataset read_texts(const std::vector<std::string>& words, const std::optional<std::string>& file) {
  TextDataset data;
  std::string first_place;
  const auto add = [&](const std::string& line, const std::string& place) {
    if (first_place.empty()) first_place = place;
    add_line(data, line, place, first_place);
  };
  for (size_t i = 1; i < words.size(); ++i) {
    check_utf8(words[i], fmt::format("text {}", i));
    add(words[i], fmt::format("text {}", i));
  }
  if (!file) return data;
  const std::vector<std::string> lines = read_lines(*file);
  if (const auto kind = table_format_of(*file);
      kind == TableFormat::kCsv || kind == TableFormat::kJson || kind == TableFormat::kJsonLines)
    print_error(fmt::format(
        "{0}: each line is taken for a text; for a table: lathe glue --do_predict --test_file {0}\n", *file));
  size_t number = 0;
  for (const std::string& line : lines) add(line, fmt::format("{}:{}", *file, ++number));
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
  if (model.model->problem() == Problem::kMultiLabel) {
    auto above_half = nlohmann::ordered_json::array();
    for (size_t k = 0; k < p.size(); ++k)
      if (p[k] > 0.5) above_half.push_back(model.labels[k]);
    json["labels"] = std::isnan(p[0]) ? nlohmann::ordered_json() : above_half;
    put_all("scores");
  } else if (model.model->problem() != Problem::kRegression) {
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

int predict(PredictSettings& settings, const Call& call) {
  if (call.words.empty()) call.refuse("expected a model folder");
  if (call.words.size() == 1 && !settings.file) call.refuse("expected texts or --file");
  if (settings.bf16 && settings.fp16) call.refuse("--bf16 and --fp16: found both, expected at most one");
  if (settings.fp8 && (settings.fp16 || settings.int8))
    call.refuse(
        fmt::format("--fp8 and {}: found both, expected at most one", settings.fp16 ? "--fp16" : "--int8"));
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(call.words[0]);
  const ModelConfig config = read_model_config(fs, folder);
  const Problem problem = saved_problem(config);
  if (problem == Problem::kQuestionAnswering || problem == Problem::kMaskedLm)
    fail(ErrorCode::kUnsupported, "{}: a {}; lathe predict classifies texts. {}", folder,
         architecture(config, problem),
         problem == Problem::kMaskedLm ? "Fine-tune it first: lathe glue --do_train"
                                       : "For question answering: lathe qa --do_predict --test_file FILE");
  AutoModel model = from_pretrained(fs, folder, {problem, {}, false});
  const TextDataset data = read_texts(call.words, settings.file);
  ThreadPool pool(settings.pool_threads);
  const int length = std::min(settings.max_seq_length, longest_text(model));
  const TokenizedDataset tokens = tokenize_dataset(data, *model.tokenizer, length, pool);
  const auto warn = [](const std::string& text) { print_error(text + "\n"); };
  const auto backend = open_device(settings.device_kind, {settings.pool_threads, false, warn});
  TrainerHooks hooks;
  hooks.message = [&](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarning) warn(text);
  };
  Trainer trainer(*backend, model, settings, nullptr, nullptr, hooks);
  if (!trainer.load_report().missing.empty())
    fail(ErrorCode::kInvalidData, "{}\nSuch a model predicts at random; fine-tune it first.",
         to_string(trainer.load_report(), *model.model, folder));
  if (!trainer.load_report().unexpected.empty()) warn(to_string(trainer.load_report(), *model.model, folder));
  const Predictions p = trainer.predict(tokens);
  if (evaluation_quantization(settings) != nn::Quantization::kNone)
    warn(trainer.compare(p, trainer.predict(tokens, nn::Quantization::kNone)));
  const size_t columns = static_cast<size_t>(p.columns);
  for (size_t row = 0; row < data.size(); ++row) {
    const std::string text = data.first[row] + (data.has_pairs() ? "\t" + data.second[row] : "");
    const std::vector<double> scores = probabilities(problem, &p.logits[row * columns], columns);
    fmt::print("{}\n", text_for_stdout(settings.json ? json_of(model, data, row, scores)
                                                     : line_of(model, text, scores)));
  }
  return 0;
}

}  // namespace

Command predict_command() {
  constexpr double kMost = std::numeric_limits<int>::max();
  return make_command<P>(
      {.name = "predict",
       .summary = "classify texts with a fine-tuned model",
       .synopsis = "MODEL_DIR TEXT… [flags]\nMODEL_DIR --file FILE [flags]",
       .details =
           "Classifies each text. For every text it prints the label, its probability and the text, parted "
           "by "
           "tabs; of a regression the values; of several labels those above one half, each with its "
           "probability; nan where the model says nothing, because a logit is not finite (with --json null, "
           "the label, too). With --json several labels are `labels`, those above one half, and `scores`, "
           "all "
           "of them. --int8 and --fp8 say on stderr how often they agree with what comes without "
           "them.",
       .words = Words::kAny},
      {{"file",
        &P::file,
        "One text a line; a tab parts the two texts of a pair: then every line is a pair.",
        {.value = "FILE"}},
       {shared_row("device"), &P::device_kind},
       {shared_row("threads"), &P::pool_threads},
       {"batch_size", &P::per_device_eval_batch_size, "Texts per batch.", {.low = 1, .high = kMost}},
       {shared_row("max_seq_length"), &P::max_seq_length},
       {"json", &P::json, "One JSON object for each text, with all probabilities, scores or values."},
       {shared_row("bf16"), &P::bf16},
       {shared_row("fp16"), &P::fp16},
       {shared_row("int8"), &P::int8},
       {shared_row("fp8"), &P::fp8}},
      predict);
}

}  // namespace lathe
