#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// aggregation_strategy of transformers' token-classification pipeline: how the labels of tokens become
/// entities.
///   kNone     a token each
///   kSimple   neighbouring tokens of one type, a B- begins a new entity
///   kFirst, kAverage, kMax   the same over words, whose label is that of the first token, of the mean of the
///             tokens' scores, or of the token with the highest score
enum class Aggregation { kNone, kSimple, kFirst, kAverage, kMax };

/// By the name in Python: none, simple, first, average, max; nothing for another.
std::optional<Aggregation> aggregation_named(std::string_view name);

/// One answer.
struct FoundEntity {
  std::string entity;  ///< `entity` of kNone (a label), else `entity_group` (a type)
  float score = 0;
  int32_t index = -1;          ///< kNone: of the token; else -1
  std::string word;            ///< as the tokenizer puts its tokens together; kNone: the token
  int32_t start = 0, end = 0;  ///< half-open range of code points of the text
};

std::span<const std::string> default_ignored();  ///< "O"

/// The entities of a text, or of a window of it, as TokenClassificationPipeline of transformers 5.23 gives
/// them.  tokens: with offsets in the text; special ones are left out.  scores: [tokens × labels], the
/// softmax of the logits. ignored: labels and types that are no answer.
/// Errors: kShape if scores do not have that size.
std::vector<FoundEntity> find_entities(const Tokenizer& tokenizer, std::string_view text,
                                       const Encoding& tokens, std::span<const float> scores,
                                       std::span<const std::string> labels, Aggregation aggregation,
                                       std::span<const std::string> ignored = default_ignored());

/// Of the entities of windows that overlap, of those that overlap the longest, of equally long ones the one
/// with the best score; by start.  Source: aggregate_overlapping_entities.
std::vector<FoundEntity> without_overlaps(std::vector<FoundEntity> entities);

/// Rows of `columns` logits to scores: the softmax of each row.
std::vector<float> softmax_rows(std::span<const float> logits, size_t columns);

/// The text of words between blanks.  The offsets of encode_words become those in this text.
std::string text_of_words(std::span<const std::string> words, std::span<Encoding> encodings);

}  // namespace lathe
