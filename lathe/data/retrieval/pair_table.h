#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/data/table.h"

namespace lathe {

/// Which columns of a table are read; sentence-transformers' if they are not named.
struct PairColumns {
  std::vector<std::string> texts;    ///< two; empty: all columns but the label's, which must be two
  std::optional<std::string> label;  ///< label, labels, score or scores, the first that is there
  bool labels_needed = false;        ///< false: all rows may have none, or -1
  bool reads_labels = true;          ///< false: what a table says of labels is not looked at
};

/// Pairs of texts, most often a query and a document, with what they are trained for.
struct PairTable {
  std::string origin;           ///< file name, of several the first one's
  std::vector<uint32_t> lines;  ///< [pairs] line of its file, from 1
  std::vector<std::pair<size_t, std::string>> later_files;
  std::vector<std::string> first, second;                 ///< [pairs]
  std::vector<double> labels;                             ///< [pairs] or empty
  std::string first_column, second_column, label_column;  ///< names; "" where there is none
  bool of_lists = false;                                  ///< a row has a list of documents

  size_t size() const { return first.size(); }
  /// "file:line" of a pair, for messages.
  std::string place(size_t pair) const;
  /// Keeps the first pairs.
  void truncate(size_t pairs);
  /// Whether each label is 0 or 1.
  bool has_binary_labels() const;
};

/// Whether each cell is a list of texts: also of csv and tsv, where it is JSON: ["a", "b"].
bool holds_lists(const Column& column);

/// A pair for each row; where the second column holds lists, a pair for each of a row's documents, and the
/// label's column holds a list of as many.
/// Errors: kNotFound for a missing column, listing those there are; kInvalidData, naming file, row and value,
/// for more or fewer than two columns of texts, an empty text, a text without partner, a label that is no
/// number, an empty list, and lists that differ in length.
PairTable pairs_of_table(const Table& table, const PairColumns& columns);

/// The same of files (read_tables).  Errors: also those.
PairTable read_pairs(const std::vector<std::string>& paths, const PairColumns& columns);

/// Pairs that have one query: its documents.
struct QueryGroup {
  std::vector<size_t> pairs;
  bool has_positive = false;  ///< a label above 0
};
/// The queries that have several documents, in the order of the first of them; empty where most pairs have a
/// query of their own: they are no lists to rank.
std::vector<QueryGroup> groups_by_query(const PairTable& pairs);

}  // namespace lathe
