#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/data/table.h"

namespace lathe {

/// Which columns hold words and tags: flags of run_ner.py.
struct WordColumns {
  std::string task = "ner";  ///< --task_name, in lower case
  /// --text_column_name, --label_column_name: of a table the name; of lines of words the number of the
  /// column, from 1; of CoNLL-U the name that the format gives it (FORM, UPOS, XPOS, …), or the number.
  std::optional<std::string> words = {}, tags = {};
  bool tags_needed = true;  ///< false, for predictions: a file without tags will do
};

/// Sentences as lists of words, each with a tag.
struct WordTable {
  std::string origin;  ///< file name, of several the first one's
  std::vector<std::vector<std::string>> words;
  std::vector<std::vector<std::string>> tags;  ///< as many as words; no sentence at all without tags
  std::vector<uint32_t> lines;                 ///< [sentences] line of its file on which it begins, from 1
  std::vector<std::pair<size_t, std::string>> later_files;  ///< first sentence and name of each but the first
  std::vector<std::string> classes;   ///< names of a ClassLabel, by id: the order of the labels; else empty
  bool numbered = false;              ///< tags are whole numbers without names, which sort as numbers
  std::string words_from, tags_from;  ///< the columns, for messages: "column 'tokens'", "column 4"
  std::string words_column;           ///< of a table: the name of the column of words
  Gaps empty = {};                    ///< sentences without a word, kept as run_ner keeps them

  size_t size() const { return words.size(); }
  bool has_tags() const { return !tags.empty(); }
  /// "file:line" of a sentence.
  std::string place(size_t sentence) const;
  /// Keeps the first sentences only (--max_train_samples and its like); no effect if there are no more.
  void truncate(size_t sentences);
};

/// How a file holds sentences.
enum class WordFormat {
  kTable,   ///< a row each, lists in two columns: JSON, JSON Lines, Parquet; CSV with lists as JSON
  kLines,   ///< a word a line with its columns, a blank line after each sentence: CoNLL-2003, IOB2
  kConllU,  ///< the ten columns of Universal Dependencies
};

/// By the extension (".gz" ignored): .json, .jsonl, .ndjson, .csv, .tsv and .parquet are tables, .conllu is
/// CoNLL-U, all others (.conll, .iob, .iob2, .bio, .txt, .train, …) lines of words, CoNLL-U where `head`, the
/// beginning of the text, is that.
WordFormat word_format(std::string_view path, std::string_view head);

/// The sentences of several files, one after the other.  Columns are chosen as run_ner.py does: of a table
/// the named one, else `tokens` and `<task>_tags`, else the first and the second.
/// Of lines of words, the word is in the first column, or, where that counts words from 1 in every sentence,
/// in the second.  The tag of ner is in the last column that holds O, B-…, I-… and their like only
/// (CoNLL-2003), of counted words in the first such one (UNER, GermEval), without one in the last column;
/// that of pos in the first column after the word, of chunk in the one after that. Of CoNLL-U: FORM and UPOS;
/// multiword tokens (1-2) and empty nodes (8.1) are skipped. Tags that are ids of a ClassLabel of Parquet
/// become its names. Errors: as read_table; kNotFound for a column that is not there; kInvalidData, naming
/// file, line, value found, value wanted and the way out: lists that differ in length, no list, a line with
/// too few columns, an empty word or tag, an id outside a ClassLabel, no sentence, text that is not UTF-8.
WordTable read_words(const std::vector<std::string>& paths, const WordColumns& columns = {});

/// The same from a table.  classes: names of the ClassLabel that the tags are ids of, or empty.
WordTable words_of_table(const Table& table, const WordColumns& columns,
                         const std::vector<std::string>& classes = {});

/// The same from text in kLines or kConllU; `origin` is for messages.
WordTable words_of_text(std::string_view text, WordFormat format, const WordColumns& columns,
                        const std::string& origin);

}  // namespace lathe
