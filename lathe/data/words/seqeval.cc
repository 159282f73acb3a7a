#include "lathe/data/words/seqeval.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

// A tag taken apart: its letter ('O', 'B', …; of any other tag its first character) and its type.
struct TagParts {
  std::string_view letter, type;
};

std::string_view or_none(std::string_view type) { return type.empty() ? "_" : type; }

size_t first_length(std::string_view text) {
  const int length = unicode::sequence_length(text);
  return static_cast<size_t>(length < 0 ? -length : length);
}

// Source: get_entities.
TagParts parts_of(std::string_view tag, TagStyle style) {
  if (tag.empty())
    fail(ErrorCode::kUsage, "seqeval: found an empty tag, expected a text such as \"B-PER\" or \"O\"");
  if (style == TagStyle::kPrefix) {
    const size_t length = first_length(tag);
    const std::string_view rest = tag.substr(length);
    return {tag.substr(0, length), or_none(rest.substr(rest.find('-') + 1))};  // npos + 1 is 0
  }
  size_t last = tag.size();
  unicode::decode_back(tag, &last);
  const std::string_view rest = tag.substr(0, last);
  return {tag.substr(last), or_none(rest.substr(0, rest.rfind('-')))};
}

// A tag with its type as a number, 0 of what stands between sentences.
struct Tag {
  char letter = 'O';  // 'x' of a letter that has no rule
  int32_t type = 0;
};

// Source: end_of_chunk.
bool ends(const Tag& before, const Tag& now) {
  if (before.letter == 'E' || before.letter == 'S') return true;
  if (before.letter == 'B' || before.letter == 'I')
    if (now.letter == 'B' || now.letter == 'S' || now.letter == 'O') return true;
  return before.letter != 'O' && before.letter != '.' && before.type != now.type;
}

// Source: start_of_chunk.
bool starts(const Tag& before, const Tag& now) {
  if (now.letter == 'B' || now.letter == 'S') return true;
  if (before.letter == 'E' || before.letter == 'S' || before.letter == 'O')
    if (now.letter == 'E' || now.letter == 'I') return true;
  return now.letter != 'O' && now.letter != '.' && before.type != now.type;
}

// Types get their numbers in the order in which they are met.
class Types {
 public:
  Tag tag_of(std::string_view text, TagStyle style) {
    const TagParts parts = parts_of(text, style);
    const bool known =
        parts.letter.size() == 1 && std::string_view("OBIES.").find(parts.letter) != std::string_view::npos;
    const auto [at, is_new] =
        numbers_.try_emplace(std::string(parts.type), static_cast<int32_t>(names_.size()));
    if (is_new) names_.push_back(at->first);
    return {known ? parts.letter[0] : 'x', at->second};
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::unordered_map<std::string, int32_t> numbers_{{"_", 0}};
  std::vector<std::string> names_{"_"};
};

// Takes tags one by one and gives span(type, first, last) at each end.
template <typename Take>
class SpanFinder {
 public:
  explicit SpanFinder(Take span) : span_(span) {}
  void put(const Tag& tag) {
    if (ends(before_, tag)) span_(before_.type, first_, at_ - 1);
    if (starts(before_, tag)) first_ = at_;
    before_ = tag;
    ++at_;
  }

 private:
  Take span_;
  Tag before_{'O', -1};  // seqeval's type of it is "", which no tag has
  int64_t first_ = 0, at_ = 0;
};

struct TypedRun {
  int32_t type;
  int64_t first, last;
  bool operator==(const TypedRun&) const = default;
};

// All sentences as one row of tags with an O after each, as seqeval joins them.
std::vector<TypedRun> spans_of(const TagIds& sentences, std::span<const Tag> tags) {
  std::vector<TypedRun> out;
  SpanFinder finder([&](int32_t type, int64_t first, int64_t last) { out.push_back({type, first, last}); });
  for (const std::vector<int32_t>& sentence : sentences) {
    for (const int32_t id : sentence) finder.put(tags[static_cast<size_t>(id)]);
    finder.put({});
  }
  finder.put({});
  return out;
}

struct SpanCounts {
  int64_t right = 0, predicted = 0, number = 0;
};

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

SpanScores scores_of(const SpanCounts& counts) {
  SpanScores out{.precision = ratio(counts.right, counts.predicted),
                 .recall = ratio(counts.right, counts.number),
                 .number = counts.number};
  const double sum = out.precision + out.recall;
  out.f1 = 2.0 * out.precision * out.recall / (sum == 0 ? 1.0 : sum);
  return out;
}

void check_sentences(const TagIds& references, const TagIds& predictions, size_t labels) {
  if (references.size() != predictions.size())
    fail(ErrorCode::kUsage,
         "seqeval: found {} sentences of predictions and {} of references, expected as many",
         predictions.size(), references.size());
  size_t tags = 0;
  for (size_t i = 0; i < references.size(); ++i) {
    if (references[i].size() != predictions[i].size())
      fail(ErrorCode::kUsage,
           "seqeval: sentence {}: found {} predictions and {} references, expected as many", i + 1,
           predictions[i].size(), references[i].size());
    tags += references[i].size();
    for (const TagIds* side : {&references, &predictions})
      for (const int32_t id : (*side)[i])
        if (id < 0 || static_cast<size_t>(id) >= labels)
          fail(ErrorCode::kUsage, "seqeval: sentence {}: found label {}, expected one of 0 to {}", i + 1, id,
               static_cast<int64_t>(labels) - 1);
  }
  if (tags == 0) fail(ErrorCode::kUsage, "seqeval: no word has a tag; expected at least one to score");
}

// The number of each text, of equal ones the first one's.
class Numbers {
 public:
  int32_t of(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, static_cast<int32_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return at->second;
  }
  TagIds of(const TagTexts& sentences) {
    TagIds out;
    for (const auto& sentence : sentences) {
      std::vector<int32_t>& ids = out.emplace_back();
      for (const std::string& text : sentence) ids.push_back(of(text));
    }
    return out;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace

std::vector<TagSpan> tag_spans(std::span<const std::string> tags, TagStyle style) {
  Types types;
  std::vector<TagSpan> out;
  SpanFinder finder([&](int32_t type, int64_t first, int64_t last) {
    out.push_back({types.names()[static_cast<size_t>(type)], first, last});
  });
  for (const std::string& tag : tags) finder.put(types.tag_of(tag, style));
  finder.put({});
  return out;
}

SeqevalScores seqeval(const TagTexts& references, const TagTexts& predictions, TagStyle style) {
  Numbers numbers;
  const TagIds wanted = numbers.of(references), found = numbers.of(predictions);
  return seqeval(wanted, found, numbers.texts(), style);
}

SeqevalScores seqeval(const TagIds& references, const TagIds& predictions,
                      std::span<const std::string> labels, TagStyle style) {
  check_sentences(references, predictions, labels.size());
  Types types;
  Numbers texts;
  std::vector<Tag> tags;
  std::vector<int32_t> text_of;
  for (const std::string& label : labels) {
    tags.push_back(types.tag_of(label, style));
    text_of.push_back(texts.of(label));
  }
  int64_t right = 0, all = 0;
  for (size_t i = 0; i < references.size(); ++i)
    for (size_t j = 0; j < references[i].size(); ++j, ++all)
      right +=
          text_of[static_cast<size_t>(references[i][j])] == text_of[static_cast<size_t>(predictions[i][j])];

  const std::vector<TypedRun> wanted = spans_of(references, tags), found = spans_of(predictions, tags);
  std::vector<SpanCounts> counts(types.names().size());
  for (const TypedRun& span : wanted) ++counts[static_cast<size_t>(span.type)].number;
  auto at = wanted.begin();
  for (const TypedRun& span : found) {  // no two spans of one side have the same end
    SpanCounts& count = counts[static_cast<size_t>(span.type)];
    ++count.predicted;
    while (at != wanted.end() && at->last < span.last) ++at;
    count.right += at != wanted.end() && *at == span;
  }
  SeqevalScores out;
  out.accuracy = ratio(right, all);
  SpanCounts sum;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].number == 0 && counts[i].predicted == 0) continue;
    out.types.emplace_back(types.names()[i], scores_of(counts[i]));
    sum.right += counts[i].right, sum.predicted += counts[i].predicted, sum.number += counts[i].number;
  }
  std::sort(out.types.begin(), out.types.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  out.overall = scores_of(sum);
  return out;
}

MetricValues seqeval_metrics(const SeqevalScores& scores, bool entity_level) {
  const SpanScores& all = scores.overall;
  if (!entity_level)
    return {
        {"precision", all.precision}, {"recall", all.recall}, {"f1", all.f1}, {"accuracy", scores.accuracy}};
  MetricValues out;
  const auto put = [&](const std::string& key, double value) {
    const auto at =
        std::find_if(out.begin(), out.end(), [&](const auto& entry) { return entry.first == key; });
    if (at != out.end())
      at->second = value;
    else
      out.emplace_back(key, value);
  };
  const MetricValues overall = {{"overall_precision", all.precision},
                                {"overall_recall", all.recall},
                                {"overall_f1", all.f1},
                                {"overall_accuracy", scores.accuracy}};
  for (const auto& [type, score] : scores.types) {
    if (type == "micro avg" || type == "macro avg" || type == "weighted avg")
      continue;  // the report's own rows
    const auto same =
        std::find_if(overall.begin(), overall.end(), [&](const auto& e) { return e.first == type; });
    if (same != overall.end()) {
      put(same->first, same->second);
      continue;
    }
    put(type + "_precision", score.precision);
    put(type + "_recall", score.recall);
    put(type + "_f1", score.f1);
    put(type + "_number", static_cast<double>(score.number));
  }
  for (const auto& [key, value] : overall) put(key, value);
  return out;
}

}  // namespace lathe
