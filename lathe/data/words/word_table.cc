#include "lathe/data/words/word_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/data/parquet.h"
#include "lathe/data/parquet_part.h"
#include "lathe/io/foreign_content.h"
#include "lathe/io/gzip.h"
#include "lathe/io/json_file.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr const char* kOfLines = "a file of a word a line needs a name that ends in .conll, .iob2 or .conllu";

const Column& named_column(const Table& table, const std::string& name, const char* flag) {
  const Column* column = table.find(name);
  if (column == nullptr)
    fail(ErrorCode::kNotFound, "{}: no column '{}', which {} names; there are {}", table.origin, name, flag,
         table.names_text());
  return *column;
}

const Column& words_column(const Table& table, const WordColumns& columns) {
  if (columns.words) return named_column(table, *columns.words, "--text_column_name");
  const Column* tokens = table.find("tokens");
  return tokens != nullptr ? *tokens : table.columns.front();
}

// Null if there is none and none is needed.
const Column* tags_column(const Table& table, const WordColumns& columns, const Column& words) {
  if (columns.tags && (columns.tags_needed || table.find(*columns.tags) != nullptr))
    return &named_column(table, *columns.tags, "--label_column_name");
  const std::string name = columns.task + "_tags";
  if (const Column* tags = columns.tags ? nullptr : table.find(name)) return tags;
  if (!columns.tags_needed) return nullptr;
  if (table.columns.size() < 2 || &table.columns[1] == &words)
    fail(ErrorCode::kNotFound,
         "{}: no column of tags: found {}, expected '{}' or the one that --label_column_name names",
         table.origin, table.names_text(), name);
  return &table.columns[1];
}

// The elements of one cell, which is a list in JSON.
struct Elements {
  std::vector<std::string> texts;
  bool are_numbers = true;
};

Elements elements_of(const Table& table, const Column& column, size_t row, const char* what) {
  const std::string& cell = column.values[row];
  const json list = json_or_nothing(cell).value_or(nullptr);
  const auto flat = [](const json& e) { return e.is_string() || e.is_number(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), flat))
    fail(ErrorCode::kInvalidData, "{}: column '{}': found {}, expected a list of {}; {}", table.place(row),
         column.name,
         cell.empty() ? std::string("no list of texts or numbers") : fmt::format("'{}'", cell.substr(0, 60)),
         what, kOfLines);
  Elements out;
  for (const json& e : list) {
    out.are_numbers &= e.is_number_integer();
    out.texts.push_back(e.is_string()         ? e.get<std::string>()
                        : e.is_number_float() ? python_float(e.get<double>())
                                              : e.dump());
  }
  return out;
}

// The name of a ClassLabel's id.
const std::string& class_name(const std::vector<std::string>& classes, const std::string& id,
                              const std::string& place, const std::string& column) {
  for (size_t i = 0; i < classes.size(); ++i)
    if (id == std::to_string(i)) return classes[i];
  fail(ErrorCode::kInvalidData, "{}: column '{}': found {}, expected an id of its {} classes, 0 to {}", place,
       column, id, classes.size(), static_cast<int64_t>(classes.size()) - 1);
}

// Names of the ClassLabel whose ids a column of lists holds, as the datasets library wrote them into the
// file; empty if it is none.
std::vector<std::string> class_names(const std::string& path, const std::string& column) {
  std::string entry;
  char error[256] = "";
  const auto take = [](void* to, const char* text, size_t bytes) {
    static_cast<std::string*>(to)->append(text, bytes);
    return 0;
  };
  if (parquet_detail::the_part().entry(path.c_str(), "huggingface", take, &entry, error, sizeof error) != 0)
    fail(ErrorCode::kInvalidData, "{}: {}", path, error);
  const json all = json_or_nothing(entry).value_or(nullptr);
  const json::json_pointer features("/info/features");
  if (!all.contains(features) || !all[features].is_object() || !all[features].contains(column)) return {};
  const json& list = all[features][column];
  if (!list.is_object() || !list.contains("feature")) return {};
  const json& one = list["feature"];
  if (!one.is_object() || !one.contains("_type") || one["_type"] != "ClassLabel" || !one.contains("names"))
    return {};
  return required<std::vector<std::string>>(one, "names", path);
}

WordTable read_one(const std::string& path, const WordColumns& columns) {
  if (is_parquet(path)) {
    const auto wanted = [&](std::string_view name, bool nested) {
      return nested || columns.words == name || columns.tags == name;
    };
    const Table table = read_table(path, {}, wanted);
    const Column* tags = tags_column(table, columns, words_column(table, columns));
    return words_of_table(table, columns,
                          tags == nullptr ? std::vector<std::string>{} : class_names(path, tags->name));
  }
  if (word_format(path, {}) == WordFormat::kTable) return words_of_table(read_table(path), columns);
  const std::string text = read_text(real_file_system(), path, kDataFileBytes);
  refuse_foreign_content(text, path, "words with their tags, a word a line");
  return words_of_text(text, word_format(path, text), columns, path);
}

void append(WordTable& all, WordTable more) {
  if (all.has_tags() != more.has_tags())
    fail(ErrorCode::kInvalidData, "{}: found words {} tags, unlike {}; expected the same in all files",
         more.origin, more.has_tags() ? "with" : "without", all.origin);
  if (all.classes != more.classes)
    fail(ErrorCode::kInvalidData, "{}: {} has other classes than in {}; expected the same in all files",
         more.origin, more.tags_from, all.origin);
  all.later_files.emplace_back(all.size(), more.origin);
  all.empty.add(more.empty, all.size());
  all.numbered &= more.numbered;
  const auto move_to_end = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_to_end(all.words, more.words);
  move_to_end(all.tags, more.tags);
  move_to_end(all.lines, more.lines);
}

}  // namespace

std::string WordTable::place(size_t sentence) const {
  const std::string* file = &origin;
  for (const auto& [first, name] : later_files)
    if (sentence >= first) file = &name;
  return fmt::format("{}:{}", *file, lines[sentence]);
}

void WordTable::truncate(size_t sentences) {
  if (sentences >= size()) return;
  words.resize(sentences);
  lines.resize(sentences);
  if (has_tags()) tags.resize(sentences);
  empty = {};
  for (size_t i = 0; i < sentences; ++i)
    if (words[i].empty()) empty.add({1, i});
}

WordTable words_of_table(const Table& table, const WordColumns& columns,
                         const std::vector<std::string>& classes) {
  const Column& words = words_column(table, columns);
  const Column* tags = tags_column(table, columns, words);
  WordTable out{.origin = table.origin,
                .lines = table.lines,
                .later_files = table.later_files,
                .classes = classes,
                .numbered = tags != nullptr && classes.empty(),
                .words_from = fmt::format("column '{}'", words.name),
                .tags_from = tags == nullptr ? "" : fmt::format("column '{}'", tags->name),
                .words_column = words.name};
  for (size_t row = 0; row < table.rows(); ++row) {
    out.words.push_back(elements_of(table, words, row, "words, such as [\"EU\", \"rejects\"]").texts);
    const size_t count = out.words.back().size();
    if (count == 0) out.empty.add({1, row});
    if (tags == nullptr) continue;
    Elements found = elements_of(table, *tags, row, "tags, such as [\"B-ORG\", \"O\"]");
    if (found.texts.size() != count)
      fail(ErrorCode::kInvalidData,
           "{}: found {} tags in column '{}' and {} words in column '{}', expected a tag for each word: mend "
           "the row, or "
           "name the columns with --text_column_name and --label_column_name",
           table.place(row), found.texts.size(), tags->name, count, words.name);
    out.numbered &= found.are_numbers;
    for (std::string& tag : found.texts) {
      if (!classes.empty()) tag = class_name(classes, tag, table.place(row), tags->name);
      if (tag.empty())
        fail(ErrorCode::kInvalidData, "{}: column '{}': found an empty tag, expected one such as \"O\"",
             table.place(row), tags->name);
    }
    out.tags.push_back(std::move(found.texts));
  }
  if (out.empty.count == out.size())
    fail(ErrorCode::kInvalidData, "{}: no word in column '{}'; expected lists of words", table.origin,
         words.name);
  return out;
}

WordTable read_words(const std::vector<std::string>& paths, const WordColumns& columns) {
  if (paths.empty()) fail(ErrorCode::kUsage, "no file of words is given; expected one or more");
  WordTable all = read_one(paths.front(), columns);
  for (size_t i = 1; i < paths.size(); ++i) append(all, read_one(paths[i], columns));
  return all;
}

}  // namespace lathe
