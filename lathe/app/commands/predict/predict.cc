// lathe predict: classify texts with a model that was fine-tuned before.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/app/commands/commands.h"
#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/app/commands/predict/prediction_cells.h"
#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/data/squad.h"
#include "lathe/models/sentence/sentence_folder.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"
#include "lathe/train/adapter/adapter_model.h"

namespace lathe {
namespace {

using P = PredictSettings;

/// The texts on the command line.  Two of a model of pairs are a pair.
TextDataset read_words(const std::vector<std::string>& words, const TrainedOn& trained,
                       const std::string& folder) {
  TextDataset data;
  for (size_t i = 1; i < words.size(); ++i) check_utf8(words[i], fmt::format("text {}", i));
  const bool tabs = std::any_of(words.begin() + 1, words.end(),
                                [](const std::string& word) { return word.find('\t') != std::string::npos; });
  if (trained.pairs && !tabs) {
    if (words.size() != 3)
      fail(ErrorCode::kUsage,
           "{}: it was trained on pairs; found {} {}, expected two, which are a pair. For several pairs "
           "part the two texts of each by a tab: $'A\\tB' $'C\\tD'",
           folder, words.size() - 1, words.size() == 2 ? "text" : "texts");
    data.first = {words[1]};
    data.second = {words[2]};
    return data;
  }
  for (size_t i = 1; i < words.size(); ++i) add_line(data, words[i], fmt::format("text {}", i), "text 1");
  return data;
}

/// Of a model of multiple choice: a context and its endings.
void check_choice(const std::vector<std::string>& words, const std::string& folder) {
  for (size_t i = 1; i < words.size(); ++i) check_utf8(words[i], fmt::format("text {}", i));
  if (words.size() < 4)
    fail(
        ErrorCode::kUsage,
        "{}: it chooses one of several endings; found {}, expected a context and two or more endings, each a "
        "text of its own, or --file with a table",
        folder, words.size() == 2 ? "one text" : "two texts");
}

/// What a cross-encoder of one score makes of it; nothing of other models.
std::optional<CrossEncoderFolder> ranker_of(FileSystem& fs, const std::string& folder, MakeTask task,
                                            const ModelConfig& config) {
  const bool scores =
      task(1)->head().kind == HeadKind::kSequenceClassification && config_labels(config).size() == 1;
  if (!scores || !is_cross_encoder_folder(fs, folder)) return {};
  CrossEncoderFolder ranker = read_cross_encoder_folder(fs, folder, 1);
  if (ranker.default_prompt_name && !ranker.prompts[*ranker.default_prompt_name].empty())
    fail(ErrorCode::kUnsupported,
         "{}: \"default_prompt_name\" is {}: found a text that comes before each pair, which Lathe does not "
         "put there; CrossEncoder does",
         folder, *ranker.default_prompt_name);
  return ranker;
}

/// Whether the words are a query and its documents: not if a tab makes pairs of them.
bool are_ranked(const std::vector<std::string>& words, const std::string& folder) {
  if (std::any_of(words.begin() + 1, words.end(),
                  [](const std::string& word) { return word.find('\t') != word.npos; }))
    return false;
  for (size_t i = 1; i < words.size(); ++i) check_utf8(words[i], fmt::format("text {}", i));
  if (words.size() > 2) return true;
  fail(
      ErrorCode::kUsage,
      "{}: it scores documents for a query; found one text, expected a query and one or more documents, each "
      "a text of its own, or --file with a table",
      folder);
}

/// Names with probabilities: "A 0.9000, B 0.1000".
std::string with_values(const AutoModel& model, const std::vector<size_t>& chosen,
                        const std::vector<double>& p) {
  std::string names;
  for (const size_t k : chosen)
    names += fmt::format("{}{} {:.4f}", names.empty() ? "" : ", ", model.labels[k], p[k]);
  return names.empty() ? "-" : names;
}

std::string line_of(const AutoModel& model, int top_k, const TextDataset& data, size_t row,
                    const std::vector<double>& p) {
  const std::string text = data.first[row] + (data.has_pairs() ? "\t" + data.second[row] : "");
  const LabelKind kind = *model.model->task().label_kind();
  if (std::isnan(p[0])) return fmt::format("{}nan\t{}", kind == LabelKind::kClasses ? "-\t" : "", text);
  if (kind == LabelKind::kRegression && p.size() == 1) return fmt::format("{:.4f}\t{}", p[0], text);
  if (top_k > 0)
    return fmt::format("{}\t{}", with_values(model, highest(p, static_cast<size_t>(top_k)), p), text);
  if (kind == LabelKind::kRegression || kind == LabelKind::kMultiLabel) {
    std::vector<size_t> chosen;
    for (size_t k = 0; k < p.size(); ++k)
      if (kind == LabelKind::kRegression || p[k] > 0.5) chosen.push_back(k);
    return fmt::format("{}\t{}", with_values(model, chosen, p), text);
  }
  const size_t best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  return fmt::format("{}\t{:.4f}\t{}", model.labels[best], p[best], text);
}

/// top_k > 0: with the keys that a table gets.
std::string json_of(const AutoModel& model, int top_k, const TextDataset& data, size_t row,
                    const std::vector<double>& p) {
  nlohmann::ordered_json json;
  json["text"] = data.first[row];
  if (data.has_pairs()) json["text_pair"] = data.second[row];
  const auto number = [](double x) -> nlohmann::ordered_json {
    if (std::isnan(x)) return nullptr;
    return x;
  };
  const LabelKind kind = *model.model->task().label_kind();
  const auto put_all = [&](const char* key) {
    nlohmann::ordered_json::object_t values;  // labels are distinct: json[label] would look through all
    for (size_t k = 0; k < p.size(); ++k) values.emplace_back(model.labels[k], number(p[k]));
    json[key] = std::move(values);
  };
  if (top_k > 0) {
    size_t rank = 0;
    for (const size_t k : highest(p, static_cast<size_t>(top_k))) {
      json[fmt::format("label_{}", ++rank)] =
          std::isnan(p[k]) ? nlohmann::ordered_json() : nlohmann::ordered_json(model.labels[k]);
      json[fmt::format("score_{}", rank)] = number(p[k]);
    }
  } else if (kind == LabelKind::kMultiLabel) {
    auto above_half = nlohmann::ordered_json::array();
    for (size_t k = 0; k < p.size(); ++k)
      if (p[k] > 0.5) above_half.push_back(model.labels[k]);
    json["labels"] = std::isnan(p[0]) ? nlohmann::ordered_json() : above_half;
    put_all("scores");
  } else if (kind != LabelKind::kRegression) {
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

/// What is printed of texts: a line each.
std::string shown(Predictor& predictor, const PredictSettings& settings, const TextDataset& data) {
  const AutoModel& model = predictor.model();
  const Predictions p =
      predictor.predict(tokenize_dataset(data, *model.tokenizer, predictor.length(), predictor.pool()));
  const auto columns = static_cast<size_t>(p.columns);
  std::string lines;
  for (size_t row = 0; row < data.size(); ++row) {
    const std::vector<double> scores =
        probabilities(*model.model->task().label_kind(), &p.logits[row * columns], columns);
    lines += settings.json ? json_of(model, settings.top_k, data, row, scores)
                           : line_of(model, settings.top_k, data, row, scores);
    lines += '\n';
  }
  return lines;
}

/// The answer to --question in --context, as a table of one row.
std::string shown_answer(RowPredictor& rows, const PredictSettings& settings) {
  Table table{.origin = "--context", .columns = {}, .lines = {1}, .later_files = {}};
  for (const auto& [name, text] :
       {std::pair{"question", *settings.question}, {"context", *settings.context}}) {
    check_utf8(text, fmt::format("--{}", name));
    table.columns.push_back({.name = name, .values = {text}, .type = ColumnType::kString});
  }
  rows.begin(table, true);
  const std::vector<std::vector<Cell>> cells = rows.predict(table);
  std::string out;
  if (settings.json) {
    TableWriter(OutputFormat::kJsonLines, rows.names()).write(table, cells, out);
    return out;
  }
  for (size_t i = 0; i < cells[0].size(); i += 2) {
    const bool none = cells[0][i].kind == Cell::Kind::kNone;
    if (none && i > 0) continue;  // fewer answers than asked for
    out += fmt::format("{}\t{}\n", cells[0][i].text.empty() ? "-" : cells[0][i].text,
                       none ? "nan" : fmt::format("{:.4f}", cells[0][i + 1].number));
  }
  return out;
}

void check_call(const PredictSettings& settings, const Call& call) {
  const bool one = settings.question || settings.context, texts = call.words.size() > 1;
  if (call.words.empty()) call.refuse("expected a model folder");
  if (!texts && !settings.file && !one) call.refuse("expected texts or --file");
  if (static_cast<int>(texts) + static_cast<int>(settings.file.has_value()) + static_cast<int>(one) > 1)
    call.refuse("found several of texts, --file and --question, expected one of them");
  if (one && !(settings.question && settings.context))
    call.refuse(fmt::format("--{} goes with --{}", settings.question ? "question" : "context",
                            settings.question ? "context" : "question"));
  for (const char* name : {"output", "column", "format"})
    if (call.given.contains(name) && !settings.file) call.refuse(fmt::format("--{} goes with --file", name));
  if (settings.json && settings.output)
    call.refuse("--json: the extension of --output says how it is written");
  if (settings.bf16 && settings.fp16) call.refuse("--bf16 and --fp16: found both, expected at most one");
  if (settings.fp8 && (settings.fp16 || settings.int8))
    call.refuse(
        fmt::format("--fp8 and {}: found both, expected at most one", settings.fp16 ? "--fp16" : "--int8"));
}

/// What the model was trained for, if it fits what is asked of it.
MakeTask task_for(const PredictSettings& settings, const ModelConfig& config, const std::string& folder) {
  if (is_sentence_folder(real_file_system(), folder) && !is_cross_encoder_folder(real_file_system(), folder))
    fail(ErrorCode::kUnsupported,
         "{}: a model of sentence-transformers, which gives vectors of texts; lathe encode does", folder);
  const MakeTask task = saved_task(config);
  const std::string its_class = architecture(config, task(0)->head().kind);
  if (task == causal_lm)
    fail(ErrorCode::kUnsupported,
         "{}: a {}, which goes on with a text; Lathe trains such models (lathe clm) and does not write texts "
         "yet",
         folder, its_class);
  const bool answers = task == question_answering;
  if (answers && !settings.file && !settings.question)
    fail(ErrorCode::kUnsupported,
         "{}: a {}, which answers questions; give --question and --context, or --file with a table that has "
         "both (scores: lathe qa --do_eval)",
         folder, its_class);
  if (!answers && settings.question)
    fail(ErrorCode::kUnsupported, "{}: a {}, which answers no questions; give texts or --file", folder,
         its_class);
  if (task == token_labels && settings.top_k > 0)
    fail(ErrorCode::kUsage, "--top_k: found {}, but {} labels the words of a text, each with one label",
         settings.top_k, folder);
  const bool ranks = ranker_of(real_file_system(), folder, task, config).has_value();
  if (task == regression && settings.top_k > 0 && !ranks)
    fail(ErrorCode::kUsage, "--top_k: found {}, but {} gives values and has no labels to rank",
         settings.top_k, folder);
  return task;
}

int predict(PredictSettings& settings, const Call& call) {
  check_call(settings, call);
  FileSystem& fs = real_file_system();
  const std::string folder = named_model(call.words[0]);
  const ModelFolders folders = folders_of(fs, folder, [](const auto& base) { return named_model(base); });
  const ModelConfig config = read_config(fs, folders);
  const MakeTask task = task_for(settings, config, folder);
  const std::optional<CrossEncoderFolder> ranker = ranker_of(fs, folder, task, config);
  const bool answers = task == question_answering, entities = task == token_labels, fills = task == masked_lm,
             chooses = task == multiple_choice;
  if (!entities && call.given.contains("aggregation_strategy"))
    fail(ErrorCode::kUsage,
         "--aggregation_strategy: found {}, but {} is no model of lathe ner and finds no entities",
         settings.aggregation_strategy, folder);
  if (!call.given.contains("max_seq_length")) {
    if (answers) settings.max_seq_length = QaFeatureOptions{}.max_seq_length;
    if (entities || fills || chooses || ranker)
      settings.max_seq_length = std::numeric_limits<int>::max();  // what the model takes
  }
  const TrainedOn trained = trained_on(fs, folder);
  const bool texts = !settings.file && !settings.question;
  if (texts && chooses) check_choice(call.words, folder);
  const bool ranks = texts && ranker && are_ranked(call.words, folder);
  const TextDataset words =
      texts && !chooses && !ranks ? read_words(call.words, trained, folder) : TextDataset{};
  Predictor predictor(settings, folders, task);
  if (ranker && ranker->activation == "Sigmoid") predictor.apply_sigmoid();
  const auto rows = answers    ? answer_predictor(predictor, settings, trained)
                    : entities ? entity_predictor(predictor, settings, trained)
                    : fills    ? mask_predictor(predictor, settings, trained)
                    : chooses  ? choice_predictor(predictor, settings, trained)
                    : ranker   ? rank_predictor(predictor, settings, trained)
                               : class_predictor(predictor, settings, trained);
  const auto show = [&](const TextDataset& data, std::span<const uint32_t> numbers) {
    return entities ? shown_entities(predictor, settings, data, numbers)
           : fills  ? shown_fills(predictor, settings, data, numbers)
                    : shown(predictor, settings, data);
  };
  if (settings.file) {
    predict_file(predictor, settings, *rows, [&](const Table& lines) {
      TextDataset data{.origin = lines.origin, .first = lines.columns[0].values};
      if (chooses) refuse_choice_lines(lines.origin);
      if (lines.columns.size() > 1) data.second = lines.columns[1].values;
      return show(data, lines.lines);
    });
  } else if (chooses || ranks) {
    const std::vector<std::string> given{call.words.begin() + 1, call.words.end()};
    fmt::print("{}", text_for_stdout(chooses ? shown_choice(predictor, settings, given)
                                             : shown_ranking(predictor, settings, given)));
  } else {
    std::vector<uint32_t> numbers(words.size() > 1 ? words.size() : 0);
    std::iota(numbers.begin(), numbers.end(), 1);
    fmt::print("{}", text_for_stdout(texts ? show(words, numbers) : shown_answer(*rows, settings)));
  }
  predictor.finish();
  return 0;
}

}  // namespace

Command predict_command() {
  constexpr double kMost = std::numeric_limits<int>::max();
  return make_command<P>(
      {.name = "predict",
       .summary = "classify and rank texts, find entities, fill masks, choose endings, answer questions",
       .synopsis = "MODEL_DIR TEXT… [flags]\nMODEL_DIR --file TABLE [--output TABLE] [flags]\n"
                   "MODEL_DIR --question TEXT --context TEXT [flags]",
       .details =
           "Of a table it keeps all columns and adds what the model says: label and score (the probability); "
           "of "
           "several labels labels, joined by commas, and a score for each; of a regression score; of "
           "questions "
           "answer and score. If the table has such a column, predicted_ comes before the new names.\n"
           "Of texts, and of a file with a text a line, it prints the label, its probability and the text, "
           "parted "
           "by tabs; of a regression the values; of several labels those above one half, each with its "
           "probability; nan where the model says nothing, because a logit is not finite (with --json null, "
           "the label, too). With --json several labels are `labels`, those above one half, and `scores`, "
           "all "
           "of them. Two texts are a pair if a tab parts them, or if the model was trained on pairs.\n"
           "Of a model of lathe ner it prints a line for each entity: type, score, place (code points "
           "BEGIN-END) and text, before them the number of the text if there are several; - for a text "
           "without entities. A table gets a column entities, a JSON list; its texts may be lists of words.\n"
           "Of a masked language model it prints a line for each of the --top_k likeliest tokens in place of "
           "the mask of a text ([MASK], <mask>): token, score and the text with it, before them the number "
           "of "
           "the text if there are several, and \"mask N\" if it has several. A table gets a column fills.\n"
           "Of a model of lathe swag the first text is the context, the others are its endings: it prints a "
           "line for each, the likeliest first: number from 0, probability, ending. A table gets columns "
           "label "
           "(the number), score (its probability) and probabilities, a JSON list. --top_k shows only the K "
           "likeliest.\n"
           "Of a cross-encoder (lathe rerank, CrossEncoder) the first text is the query, the others are "
           "documents: it prints a line for each, the best first: number from 0, score, document. A table "
           "with "
           "lists of documents gets columns ranking (their numbers, the best first) and scores, both JSON "
           "lists; one of pairs gets score. --top_k shows only the K best.\n"
           "--int8 and --fp8 say on stderr how often they agree with what comes without them.",
       .words = Words::kAny},
      {{"file",
        &P::file,
        "A table (.csv, .tsv, .json, .jsonl, .parquet), or another file with one text a line, or a pair with "
        "a "
        "tab between; - is standard input.",
        {.value = "FILE"}},
       {"format",
        &P::format,
        "How --file is written, if its name does not say so.",
        {.choices = {"csv", "tsv", "json", "jsonl", "lines"}}},
       {"column",
        &P::column,
        "The column with the texts; A,B for pairs (joined if the model was trained on joined columns), "
        "or for questions and contexts. Default: those of the training, else text, sentence, sentence1 "
        "and sentence2, or the only column of text.",
        {.value = "NAME"}},
       {"output",
        &P::output,
        "Where the table goes, written as the extension says (.csv, .tsv, .jsonl, .parquet); it is whole or "
        "not "
        "there. Default: CSV on standard output.",
        {.value = "FILE"}},
       {"top_k",
        &P::top_k,
        "The K likeliest, as label_1, score_1, label_2, score_2, …; 0: the likeliest, as label and score. Of "
        "a "
        "mask 5, if not given.",
        {.low = 0, .high = 1000}},
       {"aggregation_strategy",
        &P::aggregation_strategy,
        "How labels of tokens become entities, as in transformers' pipeline: none (each token), simple, or "
        "by words with the label of their first token, of the average or of the highest score.",
        {.choices = {"none", "simple", "first", "average", "max"}}},
       {"question", &P::question, "A question to be answered.", {.value = "TEXT"}},
       {"context", &P::context, "The text that holds the answer.", {.value = "TEXT"}},
       {"version_2_with_negative", &P::version_2_with_negative,
        "Some questions have no answer (SQuAD 2); default: as in the training."},
       {shared_row("device"), &P::device_kind},
       {shared_row("threads"), &P::pool_threads},
       {"batch_size", &P::per_device_eval_batch_size, "Texts per batch.", {.low = 1, .high = kMost}},
       {shared_row("max_seq_length",
                   "Longest input in tokens; longer ones are cut. Questions: 384, and entities: what the "
                   "model takes; in parts."),
        &P::max_seq_length},
       {"json", &P::json,
        "One JSON object for each text, with all probabilities, scores or values, or with those that "
        "--top_k asks for; of a table one for each row."},
       {shared_row("bf16"), &P::bf16},
       {shared_row("fp16"), &P::fp16},
       {shared_row("int8"), &P::int8},
       {shared_row("fp8"), &P::fp8}},
      predict);
}

}  // namespace lathe
