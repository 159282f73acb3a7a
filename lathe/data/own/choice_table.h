#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/data/table.h"
#include "lathe/data/tokenized.h"
#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// Which columns of a table are read; SWAG's if they are not named.
struct ChoiceColumns {
  std::optional<std::string> context, question;  ///< sent1; sent2 if it is there
  /// ending0, ending1 …, else a column of lists: endings or choices.  "ending0" stands for the former.
  std::optional<std::string> endings;
  std::optional<std::string> label;  ///< label, if it is there
  bool labels_needed = false;
  bool reads_labels = true;  ///< false: of `lathe predict`, whose flag messages then name
};

/// Contexts, each with endings of which one is right.
struct ChoiceTable {
  std::string origin;           ///< file name, of several the first one's
  std::vector<uint32_t> lines;  ///< [samples] line of its file, from 1
  std::vector<std::pair<size_t, std::string>> later_files;
  std::vector<std::string> contexts;              ///< [samples]
  std::vector<std::string> questions;             ///< [samples] what each ending begins with, or empty
  std::vector<std::vector<std::string>> endings;  ///< [samples] two or more each
  std::vector<int32_t> labels;                    ///< [samples] the right ending, from 0; or empty
  /// Names of columns; "" where there is none; of several columns of endings the first.
  std::string context_column, question_column, endings_column, label_column;

  size_t size() const { return contexts.size(); }
  /// "file:line" of a sample, for messages.
  std::string place(size_t sample) const;
  /// Keeps the first samples.
  void truncate(size_t samples);
  /// The text that follows the context of an ending: question, blank, ending.
  std::string second_text(size_t sample, size_t ending) const;
};

/// A sample for each row of a table.  Of columns of endings the last ones may be empty in a row that has
/// fewer. Errors: kNotFound for a missing column, listing those there are; kInvalidData, naming file, row and
/// value, for an empty ending, a row with fewer than two, one without context and question, a label that is
/// none of the endings, and labels of some rows only.
ChoiceTable choices_of_table(const Table& table, const ChoiceColumns& columns);

/// The same of files (read_table).  Errors: also those.
ChoiceTable read_choices(const std::vector<std::string>& paths, const ChoiceColumns& columns);

/// A row for each ending of a sample: the context and second_text, truncated longest first.  The result does
/// not depend on the number of threads.
TokenizedDataset tokenize_choices(const ChoiceTable& table, const Tokenizer& tokenizer, int max_length,
                                  ThreadPool& pool);

}  // namespace lathe
