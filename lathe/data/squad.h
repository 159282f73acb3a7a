#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/data/tokenized.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

struct SquadAnswer {
  std::string text;
  int32_t start = 0;  ///< code point of the context on which it begins
};

struct SquadExample {
  std::string id, question;          ///< the id may be empty where QuestionIds::kAny was asked for
  int32_t context = 0;               ///< index into SquadDataset::contexts
  std::vector<SquadAnswer> answers;  ///< empty: the question has no answer (v2)
};

/// Questions with their contexts and gold answers, in file order.
struct SquadDataset {
  std::string origin;
  std::vector<std::string> contexts;
  std::vector<SquadExample> examples;
  int64_t uncertain_starts = 0;   ///< questions marked "start_uncertain": kept, for a report
  int64_t misplaced_answers = 0;  ///< answers whose text is not in the context at their start
  std::string first_misplaced;    ///< id of the first question that has one, or its place
  int64_t unlabelled = 0;         ///< questions of the files without "answers", as in a test file
  std::string first_unlabelled;   ///< place of the first of them, or empty

  const std::string& context_of(const SquadExample& example) const { return contexts[example.context]; }
  /// Keeps the first questions only; no effect if there are no more.
  void truncate(size_t examples_kept);
};

/// Predictions are keyed by ids.  Training data may have no ids, or the same one twice.
enum class QuestionIds { kDistinct, kAny };

/// Reads the rows of one file or several, each SQuAD v1.1 or v2 JSON (articles, paragraphs, questions), also
/// .gz; also {"data": [rows]} or an array of rows {id, question, context, answers: {text: […], answer_start:
/// […]}} as run_qa takes own files; or such rows one a line (JSON Lines, told apart by the content) or in
/// Parquet. An id may be an integer, too.
/// Errors: kUsage for none; kNotFound, kIo; kInvalidData, naming file, place, value found and wanted.
SquadDataset read_squad(const std::vector<std::string>& paths, QuestionIds ids = QuestionIds::kDistinct);
/// The same from memory: a document, or the text of one or of JSON Lines.
SquadDataset squad_from_json(const nlohmann::json& document, const std::string& origin);
SquadDataset squad_from_text(std::string_view text, const std::string& origin);

struct QaFeatureOptions {
  int max_seq_length = 384;
  int doc_stride = 128;  ///< tokens that neighbouring windows of one context share
  /// What an error tells to do about a question that is too long.
  const char* way_out = "raise --max_seq_length or lower --doc_stride";
};

/// Windows over question and context.  Sample i of `tokens` belongs to question example[i].
struct QaFeatures {
  TokenizedDataset tokens;
  std::vector<int32_t> example;  ///< [samples] index into SquadDataset::examples
  /// [tokens] half-open range of code points of the context, {-1, -1} for tokens outside of it; empty for
  /// training features.
  std::vector<std::array<int32_t, 2>> offsets;

  void truncate(int64_t samples);
};

/// Features as run_qa makes them, without padding.  Training features have start_positions and end_positions,
/// both 0 (CLS) where the first answer is absent or not wholly inside the window; validation features have
/// offsets instead.  max_seq_length is lowered to the tokenizer's own maximum.  An answer that begins in the
/// last token of its window starts at the closing SEP, as in run_qa without padding.
/// The result does not depend on the number of threads.
/// Errors: kUsage, naming the question, where a question leaves no room for a window of its context;
/// kUnsupported for a tokenizer that pads left, for which run_qa puts the context first.
QaFeatures make_train_features(const SquadDataset& data, const Tokenizer& tokenizer,
                               const QaFeatureOptions& options, ThreadPool& pool);
QaFeatures make_validation_features(const SquadDataset& data, const Tokenizer& tokenizer,
                                    const QaFeatureOptions& options, ThreadPool& pool);

}  // namespace lathe
