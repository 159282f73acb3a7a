// The endings that a model of multiple choice chooses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/app/commands/predict/prediction_cells.h"
#include "lathe/core/error.h"
#include "lathe/data/own/choice_table.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

/// Of each sample the probabilities of its endings; NaN where a score is not finite.
std::vector<std::vector<double>> chances(Predictor& predictor, const ChoiceTable& table) {
  const TokenizedDataset data =
      tokenize_choices(table, *predictor.model().tokenizer, predictor.length(), predictor.pool());
  const Predictions p = predictor.predict(data);
  std::vector<std::vector<double>> all;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto begin = static_cast<size_t>(p.begins[i]), end = static_cast<size_t>(p.begins[i + 1]);
    all.push_back(probabilities(LabelKind::kClasses, &p.logits[begin], end - begin));
  }
  return all;
}

nlohmann::ordered_json json_of(const std::vector<double>& of_endings) {
  auto list = nlohmann::ordered_json::array();
  for (const double p : of_endings) {
    if (std::isnan(p))
      list.push_back(nullptr);
    else
      list.push_back(p);
  }
  return list;
}

class ChoicePredictor : public RowPredictor {
 public:
  ChoicePredictor(Predictor& predictor, const PredictSettings& settings, const TrainedOn& trained)
      : predictor_(predictor), top_k_(static_cast<size_t>(settings.top_k)) {
    const std::vector<std::string> names = settings.column ? split_names(*settings.column) : trained.columns;
    if (settings.column && (names.size() < 2 || names.size() > 3))
      fail(ErrorCode::kUsage,
           "--column: found '{}', expected CONTEXT,ENDINGS or CONTEXT,QUESTION,ENDINGS (ENDINGS: a column of "
           "lists, or ending0)",
           *settings.column);
    if (names.size() < 2) return;
    columns_.context = names.front();
    columns_.endings = names.back();
    columns_.question = names.size() > 2 ? names[1] : "";
  }

  std::vector<std::string> names() const override {
    if (top_k_ > 0) return ranked_names("label", top_k_, true);
    return {"label", "score", "probabilities"};
  }

  bool may_be_text(const std::string& name) const override {
    return name == columns_.context.value_or("sent1") || name == columns_.endings.value_or("ending0");
  }

  void begin(const Table& part, bool lines) override {
    if (lines) refuse_lines(part.origin);
    if (columns_.question && (columns_.question->empty() || part.find(*columns_.question) == nullptr))
      columns_.question.reset();
  }

  std::vector<std::vector<Cell>> predict(const Table& part) override {
    std::vector<std::vector<Cell>> rows;
    for (const std::vector<double>& p : chances(predictor_, choices_of_table(part, unlabelled()))) {
      const bool none = std::isnan(p[0]);
      std::vector<Cell>& cells = rows.emplace_back();
      for (const size_t ending : highest(p, std::max<size_t>(top_k_, 1))) {
        cells.push_back(none ? Cell() : Cell::json(std::to_string(ending)));
        cells.push_back(Cell::of(static_cast<float>(p[ending])));
      }
      if (top_k_ == 0) cells.push_back(none ? Cell() : Cell::json(python_json(json_of(p), -1, false)));
      cells.resize(names().size());  // of a row with fewer endings the others are empty
    }
    return rows;
  }

  [[noreturn]] static void refuse_lines(const std::string& origin) {
    fail(ErrorCode::kUsage,
         "{}: found lines of text, expected a table with a context and endings in each row (.csv, .tsv, "
         ".json, .jsonl, .parquet), or a context and its endings as texts",
         origin);
  }

 private:
  static std::vector<std::string> split_names(const std::string& text) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      names.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return names;
  }
  /// What a table says of the right endings is not read.
  ChoiceColumns unlabelled() const {
    ChoiceColumns columns = columns_;
    columns.reads_labels = false;
    return columns;
  }

  Predictor& predictor_;
  size_t top_k_;
  ChoiceColumns columns_;
};

}  // namespace

std::unique_ptr<RowPredictor> choice_predictor(Predictor& predictor, const PredictSettings& settings,
                                               const TrainedOn& trained) {
  return std::make_unique<ChoicePredictor>(predictor, settings, trained);
}

std::string shown_choice(Predictor& predictor, const PredictSettings& settings,
                         const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
      fail(ErrorCode::kUsage, "found an empty text, expected a context and two or more endings");
  ChoiceTable table;
  table.contexts = {texts[0]};
  table.endings = {{texts.begin() + 1, texts.end()}};
  const std::vector<double> p = chances(predictor, table)[0];
  const std::vector<std::string>& endings = table.endings[0];
  const auto likeliest = highest(p, settings.top_k > 0 ? static_cast<size_t>(settings.top_k) : p.size());
  const bool none = std::isnan(p[0]);
  std::string lines;
  if (settings.json) {
    nlohmann::ordered_json json;
    json["context"] = texts[0];
    json["endings"] = endings;
    const auto number = [&](size_t i) { return none ? nlohmann::ordered_json() : nlohmann::ordered_json(i); };
    if (settings.top_k == 0) {
      json["label"] = number(likeliest[0]);
      json["probabilities"] = json_of(p);
    } else {
      for (size_t rank = 0; rank < likeliest.size(); ++rank) {
        json[fmt::format("label_{}", rank + 1)] = number(likeliest[rank]);
        json[fmt::format("score_{}", rank + 1)] = json_of({p[likeliest[rank]]})[0];
      }
    }
    return python_json(json, -1, false) + "\n";
  }
  for (const size_t i : likeliest)
    lines += none ? fmt::format("{}\tnan\t{}\n", i, endings[i])
                  : fmt::format("{}\t{:.4f}\t{}\n", i, p[i], endings[i]);
  return lines;
}

void refuse_choice_lines(const std::string& origin) { ChoicePredictor::refuse_lines(origin); }

}  // namespace lathe
