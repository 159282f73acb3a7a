#include "lathe/data/own/own_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_set>

#include "lathe/core/error.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr const char* kDefaultLabel = "label";

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_number(const Column& column) {
  return column.type == ColumnType::kInteger || column.type == ColumnType::kFloat;
}

/// Whether a name says "id": by itself, or after a separator or a small letter.  "paid" and "void" do not.
bool is_id_name(std::string_view name) {
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const std::string lower = to_lower(name);
  for (const std::string_view word : {"id", "ids", "idx", "uuid", "guid"}) {
    if (!lower.ends_with(word)) continue;
    if (lower.size() == word.size()) return true;
    if (lower.size() != name.size()) continue;  // small letters of other lengths: not English
    const char before = name[name.size() - word.size() - 1], first = name[name.size() - word.size()];
    if (!std::isalnum(static_cast<unsigned char>(before)) && (before & 0x80) == 0) return true;
    if (is_small(before) && !is_small(first)) return true;
  }
  return false;
}

bool are_single_words(const Column& column) {
  constexpr size_t kLongestWord = 64;
  return std::all_of(column.values.begin(), column.values.end(), [](const std::string& value) {
    return value.size() <= kLongestWord && value.find_first_of(" \t\r\n") == std::string::npos;
  });
}

bool are_distinct(const Column& column) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& value : column.values)
    if (!seen.insert(value).second) return false;
  return true;
}

/// Who has a number of the row there did not mean it for a text; transformers' tokenizers refuse it, too.
[[noreturn]] void refuse_numbers_for_text(const Table& table, const Column& column,
                                          const OwnColumns& columns) {
  size_t row = 0;
  while (column.values[row].empty()) ++row;
  fail(ErrorCode::kInvalidData,
       "{}: column '{}': found '{}', expected text, as one of the first two columns but '{}'; leave the "
       "column out, name the texts with --text_column_names, or call them sentence1 and sentence2",
       table.place(row), column.name, column.values[row], columns.label);
}

/// Whether a column may be one of texts: not nested, not bytes, some value in it.
bool may_be_text(const Column& column) {
  return column.type != ColumnType::kList && column.type != ColumnType::kOther &&
         column.type != ColumnType::kNull;
}

/// Whether it is another column than the label.  One named "label" is never a text, and one without a name is
/// the row number that pandas writes.
bool is_other(const std::string& name, const OwnColumns& columns) {
  return !name.empty() && name != columns.label && name != kDefaultLabel && !contains(columns.removed, name);
}

std::vector<std::string> find_texts(const Table& table, const OwnColumns& columns) {
  const auto has = [&](const std::string& name) { return table.find(name) && is_other(name, columns); };
  if (has("sentence1") && has("sentence2")) return {"sentence1", "sentence2"};
  if (has(columns.only_text)) return {columns.only_text};
  std::vector<std::string> names;
  const auto take = [&](const Column& column) {
    if (is_number(column)) refuse_numbers_for_text(table, column, columns);
    names.push_back(column.name);
  };
  for (const Column& column : table.columns)
    if (names.size() < 2 && is_other(column.name, columns) && may_be_text(column) && !looks_like_ids(column))
      take(column);
  for (const Column& column : table.columns)  // what is wrong with it is said when it is read
    if (names.empty() && is_other(column.name, columns)) take(column);
  if (names.empty())
    fail(ErrorCode::kInvalidData,
         "{}: no text column next to '{}'; expected one or two, such as sentence1, sentence2", table.origin,
         columns.label);
  return names;
}

/// A name that people give the column of labels, as a shell takes it; NAME if the table has none.
std::string likely_label(const Table& table) {
  constexpr std::array kNames = {"label", "labels",        "class",  "category",  "target",
                                 "tag",   "category_name", "intent", "sentiment", "y"};
  for (const char* name : kNames)
    for (const Column& column : table.columns)
      if (to_lower(fmt::format("{}", fmt::join(split_words(column.name), " "))) == name)
        return column.name.find(' ') == std::string::npos ? column.name : "'" + column.name + "'";
  return "NAME";
}

void check_is_there(const Table& table, const char* flag, const std::string& name) {
  if (table.find(name) != nullptr) return;
  fail(ErrorCode::kNotFound,
       "--{}: {}: no column '{}'; it has {}; names have commas and no blanks between them", flag,
       table.origin, name, table.names_text());
}

}  // namespace

bool looks_like_ids(const Column& column) {
  if (column.type == ColumnType::kInteger && are_distinct(column)) return true;
  return may_be_text(column) && is_id_name(column.name) && are_single_words(column);
}

ColumnChoice choose_columns(const Table& table, const OwnColumns& columns) {
  for (const std::string& name : columns.removed) check_is_there(table, "remove_columns", name);
  for (const std::string& name : columns.texts) {
    check_is_there(table, "text_column_names", name);
    if (name == columns.label)
      fail(ErrorCode::kUsage, "--text_column_names: found '{}', which holds the labels; expected others",
           name);
    if (contains(columns.removed, name))
      fail(ErrorCode::kUsage, "--text_column_names: found '{}', which --remove_columns removes", name);
  }
  ColumnChoice choice{.texts = columns.texts.empty() ? find_texts(table, columns) : columns.texts};
  for (const Column& column : table.columns) {
    const bool text = contains(choice.texts, column.name);
    if (!text && (column.name.empty() || column.name == columns.label || column.type == ColumnType::kNull ||
                  contains(columns.removed, column.name)))
      continue;
    if (!text) choice.left_out.push_back(column.name);
    if (looks_like_ids(column)) choice.like_ids.push_back(column.name);
  }
  return choice;
}

const Column* label_column(const Table& table, const OwnColumns& columns) {
  return contains(columns.removed, columns.label) ? nullptr : table.find(columns.label);
}

void fail_without_label_column(const Table& table, const OwnColumns& columns) {
  if (table.find(columns.label) != nullptr)
    fail(ErrorCode::kUsage, "--remove_columns: found '{}', which holds the labels of {}; leave it out",
         columns.label, table.origin);
  fail(ErrorCode::kNotFound,
       "{}: no column '{}'; it has {}: give --label_column_name {}, or rename it in the header, which is the "
       "first line",
       table.origin, columns.label, table.names_text(), likely_label(table));
}

Table read_own_table(const std::vector<std::string>& paths, const OwnColumns& columns) {
  std::vector<std::string> asked = columns.texts;
  const auto may_be_used_here = [&](std::string_view name, bool nested) {
    return !nested || name == columns.label;
  };
  // A column of other files may be among the first two in their place.
  if (asked.empty() && !std::all_of(paths.begin(), paths.end(), is_parquet))
    return read_tables(paths, may_be_used_here);
  bool more = false;
  const auto wanted = [&](std::string_view name, bool nested) {
    if (name == columns.label || contains(asked, name)) return true;
    if (!columns.texts.empty() || nested || !is_other(std::string(name), columns)) return false;
    if (name == "sentence1" || name == "sentence2" || name == columns.only_text) return true;
    if (asked.size() < 2) return asked.emplace_back(name), true;
    more = true;
    return false;
  };
  Table table = read_tables(paths, wanted);
  const auto is_text = [&](const std::string& name) {  // files without rows may have had others
    const Column* column = table.find(name);
    return column != nullptr && may_be_text(*column) && !looks_like_ids(*column);
  };
  if (more && !std::all_of(asked.begin(), asked.end(), is_text)) {
    table = {};
    table = read_tables(paths, may_be_used_here);
  }
  return table;
}

std::string column_notice(const std::string& origin, const ColumnChoice& choice) {
  const auto is_id = [&](const std::string& name) { return contains(choice.like_ids, name); };
  if (choice.left_out.empty() && std::none_of(choice.texts.begin(), choice.texts.end(), is_id)) return "";
  const auto listed = [&](const std::vector<std::string>& names) {
    constexpr size_t kMost = 12;
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
      text +=
          fmt::format("{}'{}'{}", i == 0 ? "" : ", ", names[i], is_id(names[i]) ? " (looks like ids)" : "");
    return names.size() > kMost ? fmt::format("{} and {} more", text, names.size() - kMost) : text;
  };
  std::string notice = fmt::format("{}: the text is {}", origin, listed(choice.texts));
  if (choice.texts.size() == 2) notice += ", as a pair";
  if (!choice.left_out.empty()) notice += fmt::format("; left out: {}", listed(choice.left_out));
  return notice + "; --text_column_names A,B names the columns of the text and joins them";
}

}  // namespace lathe
