#include "lathe/data/words/entities.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/core/error.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

// A token, or a word, with its scores.
struct ScoredPart {
  FoundEntity found;
  std::span<const float> scores;
  bool inner = false;  ///< belongs to the word of the one before
};

// Slices of a text by code points.
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) : text_(text) {
    for (size_t at = 0; at < text.size(); unicode::decode(text, &at)) begins_.push_back(at);
    begins_.push_back(text.size());
  }
  std::string_view slice(int64_t begin, int64_t end) const {
    const auto last = static_cast<int64_t>(begins_.size()) - 1;
    const auto first = std::clamp<int64_t>(begin, 0, last), stop = std::clamp<int64_t>(end, first, last);
    return text_.substr(begins_[static_cast<size_t>(first)],
                        begins_[static_cast<size_t>(stop)] - begins_[static_cast<size_t>(first)]);
  }

 private:
  std::string_view text_;
  std::vector<size_t> begins_;
};

size_t best_of(std::span<const float> scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// Source: gather_pre_entities.
std::vector<ScoredPart> scored_parts(const Tokenizer& tokenizer, std::string_view text,
                                     const Encoding& tokens, std::span<const float> scores, size_t columns) {
  const CodePoints points(text);
  std::vector<ScoredPart> out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens.sequence_ids[i] < 0) continue;
    const auto [start, end] = tokens.offsets[i];
    const std::string_view in_text = points.slice(start, end);
    ScoredPart part{.found = {.index = static_cast<int32_t>(i),
                              .word = tokenizer.id_to_token(tokens.ids[i]),
                              .start = start,
                              .end = end},
                    .scores = scores.subspan(i * columns, columns)};
    part.inner = tokenizer.marks_inner_tokens()
                     ? unicode::length(part.found.word) != unicode::length(in_text)
                     : start > 0 && points.slice(start - 1, start + 1).find(' ') == std::string_view::npos;
    if (tokens.ids[i] == tokenizer.unk_id()) {
      part.found.word = in_text;
      part.inner = false;
    }
    out.push_back(std::move(part));
  }
  return out;
}

std::vector<float> mean_of(std::span<const ScoredPart> word) {
  std::vector<float> out(word.front().scores.begin(), word.front().scores.end());
  for (const ScoredPart& part : word.subspan(1))
    for (size_t i = 0; i < out.size(); ++i) out[i] += part.scores[i];
  for (float& value : out) value /= static_cast<float>(word.size());
  return out;
}

std::string joined_words(const Tokenizer& tokenizer, std::span<const ScoredPart> parts) {
  std::vector<std::string> words;
  for (const ScoredPart& part : parts) words.push_back(part.found.word);
  return tokenizer.join(words);
}

void put_label(std::span<const float> scores, std::span<const std::string> labels, FoundEntity& to) {
  const size_t best = best_of(scores);
  to.entity = labels[best];
  to.score = scores[best];
}

// Source: aggregate_word.
ScoredPart word_of(const Tokenizer& tokenizer, std::span<const ScoredPart> tokens,
                   std::span<const std::string> labels, Aggregation aggregation) {
  ScoredPart out{.found = {.word = joined_words(tokenizer, tokens),
                           .start = tokens.front().found.start,
                           .end = tokens.back().found.end}};
  if (aggregation == Aggregation::kAverage) {
    put_label(mean_of(tokens), labels, out.found);
    return out;
  }
  const auto highest = [](const ScoredPart& part) { return part.scores[best_of(part.scores)]; };
  const ScoredPart* chosen = &tokens.front();
  if (aggregation == Aggregation::kMax)
    for (const ScoredPart& token : tokens)
      if (highest(token) > highest(*chosen)) chosen = &token;
  put_label(chosen->scores, labels, out.found);
  return out;
}

// Calls group(parts) for runs of neighbours; begins(part, before) says where one begins.
template <typename Begins, typename Group>
void for_each_run(const std::vector<ScoredPart>& parts, const Begins& begins, const Group& group) {
  for (size_t first = 0; first < parts.size();) {
    size_t end = first + 1;
    while (end < parts.size() && !begins(parts[end], parts[end - 1])) ++end;
    group(std::span(parts).subspan(first, end - first));
    first = end;
  }
}

std::string_view type_of(std::string_view label) {
  return label.starts_with("B-") || label.starts_with("I-") ? label.substr(2) : label;
}

// Source: group_sub_entities.
FoundEntity entity_of(const Tokenizer& tokenizer, std::span<const ScoredPart> parts) {
  double sum = 0;
  for (const ScoredPart& part : parts) sum += part.found.score;
  const std::string& label = parts.front().found.entity;
  return {.entity = label.substr(label.find('-') + 1),  // npos + 1 is 0
          .score = static_cast<float>(sum / static_cast<double>(parts.size())),
          .word = joined_words(tokenizer, parts),
          .start = parts.front().found.start,
          .end = parts.back().found.end};
}

}  // namespace

std::optional<Aggregation> aggregation_named(std::string_view name) {
  constexpr std::string_view kNames[] = {"none", "simple", "first", "average", "max"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Aggregation>(i);
  return std::nullopt;
}

std::span<const std::string> default_ignored() {
  static const std::string kOutside[] = {"O"};
  return kOutside;
}

std::vector<FoundEntity> find_entities(const Tokenizer& tokenizer, std::string_view text,
                                       const Encoding& tokens, std::span<const float> scores,
                                       std::span<const std::string> labels, Aggregation aggregation,
                                       std::span<const std::string> ignored) {
  if (labels.empty() || scores.size() != tokens.size() * labels.size())
    fail(ErrorCode::kShape, "entities: found {} scores, expected {} tokens × {} labels", scores.size(),
         tokens.size(), labels.size());
  std::string repaired;
  if (!unicode::is_valid(text)) text = repaired = unicode::repair(text);
  std::vector<ScoredPart> parts = scored_parts(tokenizer, text, tokens, scores, labels.size());
  if (aggregation == Aggregation::kNone || aggregation == Aggregation::kSimple) {
    for (ScoredPart& part : parts) put_label(part.scores, labels, part.found);
  } else {
    std::vector<ScoredPart> words;
    for_each_run(
        parts, [](const ScoredPart& part, const ScoredPart&) { return !part.inner; },
        [&](std::span<const ScoredPart> word) {
          words.push_back(word_of(tokenizer, word, labels, aggregation));
        });
    parts = std::move(words);
  }
  std::vector<FoundEntity> out;
  const auto put = [&](FoundEntity entity) {
    if (std::find(ignored.begin(), ignored.end(), entity.entity) == ignored.end())
      out.push_back(std::move(entity));
  };
  if (aggregation == Aggregation::kNone) {
    for (ScoredPart& part : parts) put(std::move(part.found));
    return out;
  }
  for_each_run(
      parts,
      [](const ScoredPart& part, const ScoredPart& before) {
        return part.found.entity.starts_with("B-") ||
               type_of(part.found.entity) != type_of(before.found.entity);
      },
      [&](std::span<const ScoredPart> run) { put(entity_of(tokenizer, run)); });
  return out;
}

std::vector<FoundEntity> without_overlaps(std::vector<FoundEntity> entities) {
  if (entities.empty()) return entities;
  std::stable_sort(entities.begin(), entities.end(),
                   [](const FoundEntity& a, const FoundEntity& b) { return a.start < b.start; });
  std::vector<FoundEntity> out;
  const FoundEntity* kept = &entities.front();
  for (const FoundEntity& entity : std::span(entities).subspan(1)) {
    if (entity.start >= kept->end) {
      out.push_back(*kept);
      kept = &entity;
      continue;
    }
    const int32_t length = entity.end - entity.start, before = kept->end - kept->start;
    if (length > before || (length == before && entity.score > kept->score)) kept = &entity;
  }
  out.push_back(*kept);
  return out;
}

std::vector<float> softmax_rows(std::span<const float> logits, size_t columns) {
  std::vector<float> out(logits.size());
  for (size_t begin = 0; begin < logits.size(); begin += columns) {
    const std::span<const float> row = logits.subspan(begin, columns);
    const float most = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (size_t i = 0; i < columns; ++i) sum += out[begin + i] = std::exp(row[i] - most);
    for (size_t i = 0; i < columns; ++i) out[begin + i] /= sum;
  }
  return out;
}

std::string text_of_words(std::span<const std::string> words, std::span<Encoding> encodings) {
  std::string text;
  std::vector<int32_t> begins;
  int32_t at = 0;
  for (const std::string& word : words) {
    if (!begins.empty()) text += ' ';
    begins.push_back(at);
    const std::string repaired = unicode::is_valid(word) ? word : unicode::repair(word);
    text += repaired;
    at += static_cast<int32_t>(unicode::length(repaired)) + 1;
  }
  for (Encoding& encoding : encodings)
    for (size_t i = 0; i < encoding.size(); ++i) {
      if (encoding.word_ids[i] < 0) continue;
      for (int32_t& offset : encoding.offsets[i]) offset += begins[static_cast<size_t>(encoding.word_ids[i])];
    }
  return text;
}

}  // namespace lathe
