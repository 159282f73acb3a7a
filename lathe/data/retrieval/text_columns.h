#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/data/table.h"

namespace lathe {

/// What a loss asks of the columns.
struct TextColumnRules {
  size_t least_texts = 2;                          ///< columns of texts
  bool target_needed = false;                      ///< a label or score
  std::optional<std::pair<double, double>> range;  ///< of the target: −1 to 1 for cosine similarity
  std::vector<std::string> text_names;             ///< of columns, in this order; empty: all but the target
  std::optional<std::string> target_name;          ///< none: the first of those below
};

/// The columns of a table as sentence-transformers takes them: the first of label, labels, score, scores that
/// is there is the target, all others are texts (anchor, positive, negatives …), whose order counts and not
/// their names.
struct TextColumns {
  std::vector<std::string> names;               ///< of texts
  std::vector<std::vector<std::string>> texts;  ///< [columns][rows]
  std::string target_name;                      ///< empty: none
  std::vector<double> targets;                  ///< [rows]
  std::string origin;                           ///< file, of several the first
  std::vector<std::string> places;              ///< [rows] "file:line"

  size_t size() const { return texts.empty() ? 0 : texts[0].size(); }
  /// Row i becomes what row order[i] was.
  void reorder(std::span<const int32_t> order);
  /// Keeps the first rows.
  void truncate(size_t rows);
};

/// Errors: kInvalidData, naming file, row and value, for too few columns, numbers or lists in place of texts,
/// an empty text, a text without partner, a target that is no number or out of range.
TextColumns text_columns_of(const Table& table, const TextColumnRules& rules = {});

/// The queries, documents and relevant pairs of a search, as BEIR's files hold them.
struct RetrievalSet {
  std::vector<std::string> query_ids, queries;  ///< those with a relevant document only
  std::vector<std::string> document_ids, documents;
  std::vector<std::vector<int32_t>> relevant;  ///< [queries] numbers of documents; -1: not in the corpus
  size_t without_relevant = 0;                 ///< queries left out
  size_t missing_documents = 0;                ///< pairs whose document is not in the corpus
};

/// corpus: columns _id, text and, if there is one, title, which comes before the text; queries: _id, text;
/// qrels: query-id, corpus-id, score, of which more than 0 is relevant.
/// Errors: kNotFound for a missing column; kInvalidData, naming file and row, for an id that is there twice,
/// an empty text, a score that is no number, a query of qrels that is not there, and where no query has a
/// relevant document.
RetrievalSet retrieval_set_of(const Table& corpus, const Table& queries, const Table& qrels);

}  // namespace lathe
