// The tokens that a masked language model puts in place of masks.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/core/error.h"
#include "lathe/data/lm/fill_mask.h"
#include "lathe/io/json_file.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

constexpr int kUsualFills = 5;  // the pipeline's

/// Of each mask of a text; nothing where a logit is not finite.
using Fills = std::optional<std::vector<std::vector<MaskFill>>>;

class MaskFiller {
 public:
  MaskFiller(Predictor& predictor, const PredictSettings& settings)
      : predictor_(predictor), top_k_(settings.top_k > 0 ? settings.top_k : kUsualFills) {
    if (tokenizer().mask_id() < 0)
      fail(ErrorCode::kInvalidData,
           "{}: its tokenizer has no mask token, which lathe predict fills in: add \"mask_token\" to its "
           "tokenizer_config.json",
           predictor.model().folder);
    const int32_t id = tokenizer().mask_id();
    mask_ = tokenizer().decode({&id, 1}, false);
  }

  /// place: of a text, for messages.
  std::vector<Fills> in_texts(const std::vector<std::string>& texts,
                              const std::function<std::string(size_t)>& place) {
    std::vector<Fills> all;
    for (size_t begin = 0; begin < texts.size();) {
      TokenizedDataset data;
      std::vector<int32_t>& scored = data.tensors.ints("scored", Extent::kScored);
      int64_t masks = 0;
      size_t end = begin;
      for (; end < texts.size() && masks < most_masks(); ++end)
        masks += add(
            texts[end], [&] { return place(end); }, data, scored);
      fill(data, all);
      begin = end;
    }
    return all;
  }

  /// With the keys of the pipeline: a list for one mask, a list of lists for more.
  nlohmann::ordered_json json(const Fills& fills) const {
    if (!fills) return nullptr;
    auto lists = nlohmann::ordered_json::array();
    for (const std::vector<MaskFill>& of_mask : *fills) {
      auto& list = lists.emplace_back(nlohmann::ordered_json::array());
      for (const MaskFill& fill : of_mask) {
        nlohmann::ordered_json one;
        one["score"] = fill.score;
        one["token"] = fill.token;
        one["token_str"] = fill.token_text;
        one["sequence"] = fill.sequence;
        list.push_back(std::move(one));
      }
    }
    return lists.size() == 1 ? nlohmann::ordered_json(lists[0]) : lists;
  }

 private:
  const Tokenizer& tokenizer() const { return *predictor_.model().tokenizer; }
  /// Of one run, whose logits are kept.
  int64_t most_masks() const {
    return std::max<int64_t>(1, (int64_t{16} << 20) / predictor_.model().config.vocab_size);
  }

  /// Returns the number of its masks.
  int64_t add(const std::string& text, const std::function<std::string()>& place, TokenizedDataset& data,
              std::vector<int32_t>& scored) const {
    const Encoding encoding = tokenizer().encode(text, {.max_length = predictor_.length()});
    const auto masks = std::ssize(mask_positions(encoding.ids, tokenizer().mask_id()));
    if (masks == 0 && text.find(mask_) != std::string::npos)
      fail(ErrorCode::kInvalidData,
           "{}: its {} comes after the {} tokens that are read; shorten the text before it", place(), mask_,
           predictor_.length());
    if (masks == 0)
      fail(ErrorCode::kInvalidData,
           "{}: found no {}, expected one where a token is to be filled in, as in 'A {} is an animal.'",
           place(), mask_, mask_);
    data.append(encoding, tokenizer());
    for (const int32_t id : encoding.ids) scored.push_back(id == tokenizer().mask_id() ? id : -100);
    return masks;
  }

  void fill(const TokenizedDataset& data, std::vector<Fills>& all) {
    const Predictions p = predictor_.predict(data);
    const auto columns = static_cast<size_t>(p.columns);
    for (int64_t i = 0; i < data.size(); ++i) {
      const auto first = static_cast<size_t>(p.begins[static_cast<size_t>(i)]),
                 end = static_cast<size_t>(p.begins[static_cast<size_t>(i) + 1]);
      size_t row = first;
      while (row < end && is_predicted(p, row)) ++row;
      if (row < end)
        all.emplace_back();
      else
        all.emplace_back(fill_masks(data.ids(i),
                                    std::span(p.logits).subspan(first * columns, (end - first) * columns),
                                    tokenizer(), top_k_));
    }
  }

  Predictor& predictor_;
  int top_k_;
  std::string mask_;  ///< as text
};

class MaskPredictor : public RowPredictor {
 public:
  MaskPredictor(Predictor& predictor, const PredictSettings& settings, const TrainedOn& trained)
      : filler_(predictor, settings), settings_(settings), trained_(trained) {}

  std::vector<std::string> names() const override { return {"fills"}; }

  bool may_be_text(const std::string& name) const override {
    if (settings_.column) return name == *settings_.column;
    return name == "text" || name == "sentence" ||
           std::ranges::find(trained_.columns, name) != trained_.columns.end();
  }

  void begin(const Table& part, bool lines) override {
    const std::vector<std::string> columns = lines ? std::vector<std::string>{part.columns[0].name}
                                                   : text_columns(part, settings_.column, trained_);
    if (columns.size() != 1 || (lines && part.columns.size() > 1)) refuse_pairs(part.origin);
    column_ = columns[0];
  }

  std::vector<std::vector<Cell>> predict(const Table& part) override {
    Gaps gaps;
    const std::vector<std::string> texts = texts_of(part, column_, gaps);
    std::vector<std::vector<Cell>> rows;
    for (const Fills& fills : filler_.in_texts(texts, [&](size_t row) { return part.place(row); }))
      rows.push_back({fills ? Cell::json(python_json(filler_.json(fills), -1, false)) : Cell()});
    return rows;
  }

  [[noreturn]] static void refuse_pairs(const std::string& origin) {
    fail(ErrorCode::kUsage, "{}: found pairs of texts, expected single ones with masks", origin);
  }

 private:
  MaskFiller filler_;
  const PredictSettings& settings_;
  const TrainedOn& trained_;
  std::string column_;
};

}  // namespace

std::unique_ptr<RowPredictor> mask_predictor(Predictor& predictor, const PredictSettings& settings,
                                             const TrainedOn& trained) {
  return std::make_unique<MaskPredictor>(predictor, settings, trained);
}

std::string shown_fills(Predictor& predictor, const PredictSettings& settings, const TextDataset& texts,
                        std::span<const uint32_t> numbers) {
  if (texts.has_pairs()) MaskPredictor::refuse_pairs("the texts, parted by a tab");
  MaskFiller filler(predictor, settings);
  const auto place = [&](size_t i) {
    return numbers.empty() ? "the text" : fmt::format("text {}", numbers[i]);
  };
  const std::vector<Fills> found = filler.in_texts(texts.first, place);
  std::string lines;
  for (size_t i = 0; i < found.size(); ++i) {
    if (settings.json) {
      nlohmann::ordered_json json;
      json["text"] = texts.first[i];
      json["fills"] = filler.json(found[i]);
      lines += python_json(json, -1, false) + "\n";
      continue;
    }
    const std::string number = numbers.empty() ? "" : fmt::format("{}\t", numbers[i]);
    if (!found[i]) lines += number + "nan\n";
    const auto masks = found[i].value_or(std::vector<std::vector<MaskFill>>());
    for (size_t mask = 0; mask < masks.size(); ++mask)
      for (const MaskFill& fill : masks[mask])
        lines += fmt::format("{}{}{}\t{:.4f}\t{}\n", number,
                             masks.size() > 1 ? fmt::format("mask {}\t", mask + 1) : "", fill.token_text,
                             fill.score, fill.sequence);
  }
  return lines;
}

}  // namespace lathe
