// The entities that a model of lathe ner finds in texts.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/core/error.h"
#include "lathe/data/parallel_parts.h"
#include "lathe/data/words/entities.h"
#include "lathe/io/json_file.h"
#include "lathe/text/python_format.h"
#include "lathe/text/text.h"
#include "lathe/tokenizers/words_input.h"

namespace lathe {
namespace {

/// A text and its windows, whose offsets are those in the text.
struct WindowedText {
  std::string text;
  std::vector<Encoding> windows;
};

/// Nothing where a logit is not finite.
using Entities = std::optional<std::vector<FoundEntity>>;

class EntityFinder {
 public:
  EntityFinder(Predictor& predictor, const PredictSettings& settings)
      : predictor_(predictor), aggregation_(*aggregation_named(settings.aggregation_strategy)) {}

  /// [texts] Their entities.
  std::vector<Entities> in_texts(const std::vector<std::string>& texts) {
    return find(texts.size(), [&](size_t i) {
      return WindowedText{texts[i], tokenizer().encode_with_overflow(texts[i], options())};
    });
  }

  /// The same in texts that are lists of words; they are put together with blanks.
  std::vector<Entities> in_words(const std::vector<std::vector<std::string>>& words) {
    return find(words.size(), [&](size_t i) {
      WindowedText out{"", encode_words_with_overflow(tokenizer(), words[i], options())};
      out.text = text_of_words(words[i], out.windows);
      return out;
    });
  }

  nlohmann::ordered_json json(const Entities& entities) const {
    if (!entities) return nullptr;
    auto list = nlohmann::ordered_json::array();
    for (const FoundEntity& found : *entities) {
      nlohmann::ordered_json entity;
      entity[aggregation_ == Aggregation::kNone ? "entity" : "entity_group"] = found.entity;
      entity["score"] = found.score;
      if (aggregation_ == Aggregation::kNone) entity["index"] = found.index;
      entity["word"] = found.word;
      entity["start"] = found.start;
      entity["end"] = found.end;
      list.push_back(std::move(entity));
    }
    return list;
  }

 private:
  const Tokenizer& tokenizer() const { return *predictor_.model().tokenizer; }

  /// A quarter of a window is also in the next one.
  EncodeOptions options() const {
    return {.max_length = predictor_.length(), .stride = predictor_.length() / 4};
  }

  template <typename Windowed>
  std::vector<Entities> find(size_t count, const Windowed& windowed) {
    const auto parts = parallel_parts<std::vector<WindowedText>>(
        predictor_.pool(), static_cast<long>(count), [&](long begin, long end) {
          std::vector<WindowedText> part;
          for (long i = begin; i < end; ++i) part.push_back(windowed(static_cast<size_t>(i)));
          return part;
        });
    TokenizedDataset data;
    for (const std::vector<WindowedText>& part : parts)
      for (const WindowedText& text : part)
        for (const Encoding& window : text.windows) data.append(window, tokenizer());
    const Predictions p = predictor_.predict(data);
    std::vector<Entities> out;
    int64_t sample = 0;
    for (const std::vector<WindowedText>& part : parts)
      for (const WindowedText& text : part) {
        out.push_back(entities_of(text, data, p, sample));
        sample += std::ssize(text.windows);
      }
    return out;
  }

  /// sample: of the first window.
  Entities entities_of(const WindowedText& text, const TokenizedDataset& data, const Predictions& p,
                       int64_t sample) const {
    const auto columns = static_cast<size_t>(p.columns);
    std::vector<FoundEntity> all;
    for (const Encoding& window : text.windows) {
      const auto begin = static_cast<size_t>(data.begins[static_cast<size_t>(sample++)]);
      for (size_t row = begin; row < begin + window.size(); ++row)
        if (!is_predicted(p, row)) return {};
      const std::vector<float> scores =
          softmax_rows(std::span(p.logits).subspan(begin * columns, window.size() * columns), columns);
      const std::vector<FoundEntity> found =
          find_entities(tokenizer(), text.text, window, scores, predictor_.model().labels, aggregation_);
      all.insert(all.end(), found.begin(), found.end());
    }
    return text.windows.size() > 1 ? without_overlaps(std::move(all)) : std::move(all);
  }

  Predictor& predictor_;
  Aggregation aggregation_;
};

class EntityPredictor : public RowPredictor {
 public:
  EntityPredictor(Predictor& predictor, const PredictSettings& settings, const TrainedOn& trained)
      : finder_(predictor, settings), settings_(settings), trained_(trained) {}

  std::vector<std::string> names() const override { return {"entities"}; }

  bool may_be_text(const std::string& name) const override {
    if (settings_.column) return name == *settings_.column;
    return name == "text" || name == "tokens" || name == "sentence" ||
           std::ranges::find(trained_.columns, name) != trained_.columns.end();
  }

  void begin(const Table& part, bool lines) override {
    if (lines) {
      column_ = part.columns[0].name;
      if (part.columns.size() > 1) refuse_pairs(part.origin);
      return;
    }
    const Column* tokens = settings_.column ? nullptr : part.find("tokens");
    const bool are_words = trained_.columns.empty() && tokens != nullptr && tokens->type == ColumnType::kList;
    const std::vector<std::string> columns =
        are_words ? std::vector<std::string>{"tokens"} : text_columns(part, settings_.column, trained_);
    if (columns.size() != 1) refuse_pairs(part.origin);
    column_ = columns[0];
    const Column* column = part.find(column_);
    are_words_ = column != nullptr && (column->type == ColumnType::kList || has_lists(part, *column));
  }

  std::vector<std::vector<Cell>> predict(const Table& part) override {
    const Column* column = part.find(column_);
    std::vector<Entities> found;
    if (are_words_ && column != nullptr) {
      std::vector<std::vector<std::string>> words;
      for (size_t row = 0; row < part.rows(); ++row) words.push_back(words_of(part, *column, row));
      found = finder_.in_words(words);
    } else {
      Gaps gaps;
      const std::vector<std::string> texts = texts_of(part, column_, gaps);
      empty_.add(part, gaps);
      found = finder_.in_texts(texts);
    }
    std::vector<std::vector<Cell>> rows;
    for (const Entities& entities : found)
      rows.push_back({entities ? Cell::json(python_json(finder_.json(entities), -1, false)) : Cell()});
    return rows;
  }

  /// The elements of a cell that is a list; none of an empty one.
  static std::optional<std::vector<std::string>> list_in(const std::string& cell) {
    if (cell.empty()) return std::vector<std::string>();
    const nlohmann::json list = cell.starts_with('[') ? json_or_nothing(cell).value_or(nullptr) : nullptr;
    const auto is_flat = [](const auto& element) { return element.is_string() || element.is_number(); };
    if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_flat)) return std::nullopt;
    return list_elements(cell);
  }

  /// Whether a column of csv or tsv holds lists, as lathe ner reads them: each cell but empty ones.
  static bool has_lists(const Table& part, const Column& column) {
    const auto is_empty = [](const std::string& cell) { return cell.empty(); };
    return part.objects.empty() && !std::all_of(column.values.begin(), column.values.end(), is_empty) &&
           std::all_of(column.values.begin(), column.values.end(),
                       [](const std::string& cell) { return list_in(cell).has_value(); });
  }

  static std::vector<std::string> words_of(const Table& part, const Column& column, size_t row) {
    auto words = list_in(column.values[row]);
    if (!words)
      fail(ErrorCode::kInvalidData,
           "{}: column '{}': found {}, expected a list of words, as in the rows before", part.place(row),
           column.name, column.values[row].substr(0, 60));
    return std::move(*words);
  }

  [[noreturn]] static void refuse_pairs(const std::string& origin) {
    fail(ErrorCode::kUsage, "{}: found pairs of texts, expected single ones: entities are found in one text",
         origin);
  }

 private:
  EntityFinder finder_;
  const PredictSettings& settings_;
  const TrainedOn& trained_;
  std::string column_;
  bool are_words_ = false;  ///< its cells are lists of words
  EmptyTexts empty_;
};

}  // namespace

std::unique_ptr<RowPredictor> entity_predictor(Predictor& predictor, const PredictSettings& settings,
                                               const TrainedOn& trained) {
  return std::make_unique<EntityPredictor>(predictor, settings, trained);
}

std::string shown_entities(Predictor& predictor, const PredictSettings& settings, const TextDataset& texts,
                           std::span<const uint32_t> numbers) {
  if (texts.has_pairs()) EntityPredictor::refuse_pairs("the texts, parted by a tab");
  EntityFinder finder(predictor, settings);
  const std::vector<Entities> found = finder.in_texts(texts.first);
  std::string lines;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string& text = texts.first[i];
    if (settings.json) {
      nlohmann::ordered_json json;
      json["text"] = text;
      json["entities"] = finder.json(found[i]);
      lines += python_json(json, -1, false) + "\n";
      continue;
    }
    const std::string number = numbers.empty() ? "" : fmt::format("{}\t", numbers[i]);
    if (!found[i] || found[i]->empty()) lines += fmt::format("{}{}\n", number, found[i] ? "-" : "nan");
    for (const FoundEntity& entity : found[i].value_or(std::vector<FoundEntity>()))
      lines += fmt::format(
          "{}{}\t{:.4f}\t{}-{}\t{}\n", number, entity.entity, entity.score, entity.start, entity.end,
          slice_code_points(text, static_cast<size_t>(entity.start), static_cast<size_t>(entity.end)));
  }
  return lines;
}

}  // namespace lathe
