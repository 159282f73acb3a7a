// Documents by the scores that a cross-encoder gives them for a query.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/app/commands/predict/prediction_cells.h"
#include "lathe/core/error.h"
#include "lathe/data/retrieval/pair_table.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

std::vector<double> scores_of(Predictor& predictor, TextDataset pairs) {
  const Predictions p = predictor.predict(
      tokenize_dataset(pairs, *predictor.model().tokenizer, predictor.length(), predictor.pool()));
  return {p.logits.begin(), p.logits.end()};
}

/// top_k: 0: all of them.  One that is not finite comes last.
std::vector<size_t> best_first(std::vector<double> scores, int top_k) {
  for (double& score : scores)
    if (std::isnan(score)) score = -HUGE_VAL;
  return highest(scores, top_k > 0 ? static_cast<size_t>(top_k) : scores.size());
}

/// With the digits of a float.
nlohmann::ordered_json number_or_null(double x) {
  if (!std::isfinite(x)) return nullptr;
  return *parse_double(fmt::format("{}", static_cast<float>(x)));
}

class RankPredictor : public RowPredictor {
 public:
  RankPredictor(Predictor& predictor, const PredictSettings& settings, const TrainedOn& trained)
      : predictor_(predictor), settings_(settings), trained_(trained), of_pairs_(settings) {
    of_pairs_.top_k = 0;
    pairs_ = class_predictor(predictor, of_pairs_, trained);
  }

  std::vector<std::string> names() const override {
    return columns_.empty() ? pairs_->names() : std::vector<std::string>{"ranking", "scores"};
  }

  bool may_be_text(const std::string& name) const override {
    return name == "query" || name == "documents" || pairs_->may_be_text(name);
  }

  void begin(const Table& part, bool lines) override {
    const std::vector<std::string> named = lines ? std::vector<std::string>{} : query_and_documents(part);
    const Column* documents = named.size() == 2 ? part.find(named[1]) : nullptr;
    if (documents != nullptr && holds_lists(*documents)) {
      columns_ = named;
      return;
    }
    if (settings_.top_k > 0)
      fail(ErrorCode::kUsage,
           "--top_k: found {}, but {} has a pair in each row, and nothing to rank; write the documents of a "
           "query as a list in one row: {{\"query\": \"…\", \"documents\": [\"…\", \"…\"]}}",
           settings_.top_k, part.origin);
    pairs_->begin(part, lines);
  }

  std::vector<std::vector<Cell>> predict(const Table& part) override {
    if (columns_.empty()) return pairs_->predict(part);
    PairColumns wanted{.texts = columns_, .label = {}};
    wanted.reads_labels = false;
    PairTable pairs = pairs_of_table(part, wanted);
    TextDataset texts{
        .origin = part.origin, .first = std::move(pairs.first), .second = std::move(pairs.second)};
    const std::vector<double> scores = scores_of(predictor_, std::move(texts));
    std::vector<std::vector<Cell>> rows;
    size_t begin = 0;
    for (const std::string& list : part.at(columns_[1]).values) {
      const size_t count = list_elements(list).size();
      rows.push_back(cells(
          {scores.begin() + static_cast<long>(begin), scores.begin() + static_cast<long>(begin + count)}));
      begin += count;
    }
    return rows;
  }

 private:
  std::vector<std::string> query_and_documents(const Table& part) const {
    if (settings_.column) return split_at_commas(*settings_.column);
    if (part.find("query") != nullptr && part.find("documents") != nullptr) return {"query", "documents"};
    return trained_.columns;
  }

  /// The numbers of the documents, the best first, and their scores.
  std::vector<Cell> cells(const std::vector<double>& scores) const {
    auto ranking = nlohmann::ordered_json::array(), best = nlohmann::ordered_json::array();
    for (const size_t i : best_first(scores, settings_.top_k)) {
      ranking.push_back(i);
      best.push_back(number_or_null(scores[i]));
    }
    return {Cell::json(python_json(ranking, -1, false)), Cell::json(python_json(best, -1, false))};
  }

  Predictor& predictor_;
  const PredictSettings& settings_;
  const TrainedOn& trained_;
  PredictSettings of_pairs_;  ///< a score for each
  std::unique_ptr<RowPredictor> pairs_;
  std::vector<std::string> columns_;  ///< of queries and of lists of documents; empty: rows are pairs
};

}  // namespace

std::unique_ptr<RowPredictor> rank_predictor(Predictor& predictor, const PredictSettings& settings,
                                             const TrainedOn& trained) {
  return std::make_unique<RankPredictor>(predictor, settings, trained);
}

std::string shown_ranking(Predictor& predictor, const PredictSettings& settings,
                          const std::vector<std::string>& texts) {
  for (size_t i = 0; i < texts.size(); ++i)
    if (texts[i].find_first_not_of(" \t\r\n") == std::string::npos)
      fail(ErrorCode::kUsage, "{}: found an empty text, expected a query and one or more documents",
           i == 0 ? "the query" : fmt::format("document {}", i - 1));
  TextDataset pairs;
  pairs.first.assign(texts.size() - 1, texts[0]);
  pairs.second.assign(texts.begin() + 1, texts.end());
  const std::vector<double> scores = scores_of(predictor, pairs);
  const std::vector<size_t> best = best_first(scores, settings.top_k);
  if (settings.json) {
    nlohmann::ordered_json json;
    json["query"] = texts[0];
    json["ranking"] = nlohmann::ordered_json::array();
    for (const size_t i : best)
      json["ranking"].push_back(
          {{"corpus_id", i}, {"score", number_or_null(scores[i])}, {"text", pairs.second[i]}});
    return python_json(json, -1, false) + "\n";
  }
  std::string lines;
  for (const size_t i : best) lines += fmt::format("{}\t{:.4f}\t{}\n", i, scores[i], pairs.second[i]);
  return lines;
}

}  // namespace lathe
