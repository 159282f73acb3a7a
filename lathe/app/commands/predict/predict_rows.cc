// What a model says of the rows of a table: classes of texts, answers to questions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/app/commands/predict/prediction_cells.h"
#include "lathe/core/error.h"
#include "lathe/data/own/own_columns.h"
#include "lathe/data/qa_postprocess.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

/// The names by which texts go, the best first.
struct TextNames {
  const char *first, *second;
  bool may_be_single;  ///< the first is a text without the second too
};
constexpr TextNames kTextNames[] = {{"text", "text_pair", true},       {"sentence1", "sentence2", true},
                                    {"sentence", nullptr, true},       {"premise", "hypothesis", false},
                                    {"question1", "question2", false}, {"question", "sentence", false}};

std::string quoted(const std::vector<std::string>& names) {
  return fmt::format("'{}'", fmt::join(names, "' and '"));
}

bool has_all(const Table& part, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return part.find(name) != nullptr; });
}

/// "a,b" is two columns, if there is no column of that name.
std::vector<std::string> asked_columns(const Table& part, const std::string& asked) {
  if (part.find(asked) != nullptr) return {asked};
  std::vector<std::string> names = split_at_commas(asked);
  for (const std::string& name : names)
    if (part.find(name) == nullptr)
      fail(ErrorCode::kUsage, "--column: found {}, but {} has no column '{}'; it has {}", asked, part.origin,
           name, part.names_text());
  if (names.size() == 2 && names[0] == names[1])
    fail(ErrorCode::kUsage, "--column: found '{}' twice, expected two columns", names[0]);
  return names;
}

/// By their names; else the only column of text.  wanted: 1 or 2 texts, 0: either.  Empty: not clear.
std::vector<std::string> usual_columns(const Table& part, size_t wanted) {
  for (const TextNames& names : kTextNames) {
    if (part.find(names.first) == nullptr) continue;
    const bool both = names.second != nullptr && part.find(names.second) != nullptr;
    if (both && wanted != 1) return {names.first, names.second};
    if (names.may_be_single && wanted != 2) return {names.first};
  }
  std::vector<std::string> found;
  for (const Column& column : part.columns)
    if (column.type == ColumnType::kString && column.name != "label" && !looks_like_ids(column))
      found.push_back(column.name);
  if (found.size() != 1 || wanted == 2) found.clear();
  return found;
}

}  // namespace

std::vector<std::string> texts_of(const Table& part, const std::string& name, Gaps& gaps) {
  const Column* found = part.find(name);
  if (found == nullptr) {  // no row of this part has the key
    gaps.add({part.rows(), 0});
    return std::vector<std::string>(part.rows());
  }
  const Column& column = *found;
  if (column.nested.count > 0)
    fail(ErrorCode::kInvalidData,
         "{}: column '{}': found nested JSON or bytes that are no UTF-8, expected text",
         part.place(column.nested.first), name);
  gaps.add(column.absent);
  gaps.add(column.empty);
  return column.values;
}

void EmptyTexts::add(const Table& part, const Gaps& gaps) {
  if (gaps.count > 0 && count_ == 0) first_ = part.place(gaps.first);
  count_ += gaps.count;
}

EmptyTexts::~EmptyTexts() {
  if (count_ > 0)
    print_error(fmt::format("cells without text: {}, the first at {}; they are taken for empty texts\n",
                            count_, first_));
}

namespace {

class ClassPredictor : public RowPredictor {
 public:
  ClassPredictor(Predictor& predictor, const PredictSettings& settings, const TrainedOn& trained)
      : predictor_(predictor), settings_(settings), trained_(trained) {}

  std::vector<std::string> names() const override {
    return prediction_names(kind(), predictor_.model().labels, settings_.top_k);
  }

  bool may_be_text(const std::string& name) const override {
    const auto is_one_of = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (settings_.column) return name == *settings_.column || is_one_of(split_at_commas(*settings_.column));
    return is_one_of(trained_.columns) ||
           std::any_of(std::begin(kTextNames), std::end(kTextNames),
                       [&](const TextNames& texts) { return name == texts.first; });
  }

  void begin(const Table& part, bool lines) override {
    if (lines) {
      for (const Column& column : part.columns) columns_.push_back(column.name);
      if (trained_.pairs && columns_.size() != 2)
        fail(ErrorCode::kUsage,
             "{}: the model was trained on pairs; found one text a line, expected two, with a tab between",
             part.origin);
      return;
    }
    columns_ = text_columns(part, settings_.column, trained_);
    if (trained_.pairs && columns_.size() != 2)
      fail(ErrorCode::kUsage, "--column: found {}, expected two names, A,B: the model was trained on pairs",
           fmt::join(columns_, ","));
    joined_ = columns_.size() > 1 && trained_.columns.size() > 1 && !trained_.pairs;
    if (columns_.size() > 2 && !joined_)
      fail(ErrorCode::kUsage, "--column: found {} columns, expected one, or two for pairs", columns_.size());
    if (settings_.column && joined_)
      print_error(
          fmt::format("{}: {} are joined to one text, as in the training\n", part.origin, quoted(columns_)));
  }

  std::vector<std::vector<Cell>> predict(const Table& part) override {
    TextDataset data{.origin = part.origin, .first = {}};
    Gaps gaps;
    data.first = texts_of(part, columns_[0], gaps);
    if (columns_.size() > 1 && !joined_) data.second = texts_of(part, columns_[1], gaps);
    for (size_t i = 1; joined_ && i < columns_.size(); ++i) {
      const std::vector<std::string> more = texts_of(part, columns_[i], gaps);
      for (size_t row = 0; row < more.size(); ++row) data.first[row] += trained_.joined_by + more[row];
    }
    empty_.add(part, gaps);
    const Predictions p = predictor_.predict(
        tokenize_dataset(data, *predictor_.model().tokenizer, predictor_.length(), predictor_.pool()));
    std::vector<std::vector<Cell>> rows;
    const auto columns = static_cast<size_t>(p.columns);
    for (size_t row = 0; row < part.rows(); ++row)
      rows.push_back(prediction_cells(kind(), predictor_.model().labels, settings_.top_k,
                                      probabilities(kind(), &p.logits[row * columns], columns)));
    return rows;
  }

 private:
  LabelKind kind() const { return *predictor_.model().model->task().label_kind(); }

  Predictor& predictor_;
  const PredictSettings& settings_;
  const TrainedOn& trained_;
  std::vector<std::string> columns_;
  bool joined_ = false;
  EmptyTexts empty_;
};

class AnswerPredictor : public RowPredictor {
 public:
  AnswerPredictor(Predictor& predictor, const PredictSettings& settings, const TrainedOn& trained)
      : predictor_(predictor), settings_(settings) {
    options_.version_2_with_negative = settings.version_2_with_negative || trained.version_2_with_negative;
    options_.null_score_diff_threshold = static_cast<float>(trained.null_score_diff_threshold);
    options_.n_best_size = std::max(options_.n_best_size, settings.top_k);
  }

  std::vector<std::string> names() const override {
    return ranked_names("answer", static_cast<size_t>(settings_.top_k), settings_.top_k > 0);
  }

  bool may_be_text(const std::string& name) const override {
    if (!settings_.column) return name == "question" || name == "context";
    const std::vector<std::string> names = split_at_commas(*settings_.column);
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  void begin(const Table& part, bool) override {
    columns_ = {"question", "context"};
    if (settings_.column) columns_ = asked_columns(part, *settings_.column);
    if (columns_.size() != 2)
      fail(ErrorCode::kUsage, "--column: found {}, expected two names, QUESTION,CONTEXT", *settings_.column);
    if (!has_all(part, columns_))
      fail(ErrorCode::kUsage,
           "{}: found the columns {}, expected 'question' and 'context'; say which ones they are with "
           "--column "
           "QUESTION,CONTEXT",
           part.origin, part.names_text());
  }

  std::vector<std::vector<Cell>> predict(const Table& part) override {
    Gaps gaps;
    const std::vector<std::string> questions = texts_of(part, columns_[0], gaps);
    SquadDataset data{.origin = part.origin, .contexts = texts_of(part, columns_[1], gaps), .examples = {}};
    empty_.add(part, gaps);
    for (size_t row = 0; row < part.rows(); ++row)
      data.examples.push_back({.id = part.place(row),
                               .question = questions[row],
                               .context = static_cast<int32_t>(row),
                               .answers = {}});
    const QaFeatures features = make_validation_features(
        data, *predictor_.model().tokenizer, {predictor_.length(), stride(), kWayOut}, predictor_.pool());
    const Predictions p = predictor_.predict(features.tokens);
    std::vector<float> starts, ends;
    for (size_t i = 0; i < p.logits.size(); i += 2) {
      starts.push_back(p.logits[i]);
      ends.push_back(p.logits[i + 1]);
    }
    const QaPredictions answers = postprocess_qa(data, features, starts, ends, options_);
    std::vector<std::vector<Cell>> rows;
    for (size_t row = 0; row < part.rows(); ++row) rows.push_back(cells(data, answers, row));
    return rows;
  }

 private:
  static constexpr const char* kWayOut = "shorten the question, or raise --max_seq_length";

  /// run_qa's 128 of 384, and no more than that share.
  int stride() const { return std::min(QaFeatureOptions{}.doc_stride, predictor_.length() / 3); }

  std::vector<Cell> cells(const SquadDataset& data, const QaPredictions& answers, size_t row) const {
    const size_t ranks = static_cast<size_t>(std::max(settings_.top_k, 1));
    std::vector<Cell> cells;
    const bool blank = split_words(data.contexts[row]).empty();  // it has no answer to give
    const std::vector<QaCandidate>& best = answers.nbest[row];
    const bool is_best = settings_.top_k == 0;  // whether the null answer counts as it is told to
    for (size_t rank = 0; rank < ranks; ++rank) {
      const auto found = is_best ? std::find_if(best.begin(), best.end(),
                                                [&](const QaCandidate& candidate) {
                                                  return candidate.text == answers.answers[row].text;
                                                })
                                 : best.begin() + static_cast<long>(std::min(rank, best.size()));
      const bool none = blank || found == best.end() || !std::isfinite(found->probability);
      cells.push_back(none ? Cell() : Cell::of(found->text));
      cells.push_back(none ? Cell() : Cell::of(static_cast<float>(found->probability)));
    }
    return cells;
  }

  Predictor& predictor_;
  const PredictSettings& settings_;
  QaPostprocessOptions options_;
  std::vector<std::string> columns_;
  EmptyTexts empty_;
};

}  // namespace

std::vector<std::string> text_columns(const Table& part, const std::optional<std::string>& asked,
                                      const TrainedOn& trained) {
  if (asked) return asked_columns(part, *asked);
  if (!trained.columns.empty() && has_all(part, trained.columns)) {
    print_error(
        fmt::format("{}: the texts are in {}, as in the training\n", part.origin, quoted(trained.columns)));
    return trained.columns;
  }
  const std::vector<std::string> found = usual_columns(part, trained.columns.empty() ? 0
                                                             : trained.pairs         ? 2
                                                                                     : 1);
  if (found.empty())
    fail(ErrorCode::kUsage,
         "{}: found the columns {}, expected {}; say which column has the texts with --column NAME, "
         "or with --column A,B for pairs",
         part.origin, part.names_text(),
         trained.columns.empty() ? "'text', 'sentence', 'sentence1' and 'sentence2', or one of text"
                                 : quoted(trained.columns) + ", as in the training");
  print_error(fmt::format("{}: the texts are taken from {}; --column NAME takes others\n", part.origin,
                          quoted(found)));
  return found;
}

std::unique_ptr<RowPredictor> class_predictor(Predictor& predictor, const PredictSettings& settings,
                                              const TrainedOn& trained) {
  return std::make_unique<ClassPredictor>(predictor, settings, trained);
}

std::unique_ptr<RowPredictor> answer_predictor(Predictor& predictor, const PredictSettings& settings,
                                               const TrainedOn& trained) {
  return std::make_unique<AnswerPredictor>(predictor, settings, trained);
}

}  // namespace lathe
