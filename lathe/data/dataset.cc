#include "lathe/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "lathe/core/error.h"
#include "lathe/data/parquet.h"
#include "lathe/data/table_parsers.h"
#include "lathe/io/gzip.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr const char* kLabelColumn = "label";

using LabelIds = std::unordered_map<std::string_view, int32_t>;

constexpr std::string_view kUnnamed = "LABEL_";

/// Whether they are classes with the names that transformers gives those that have none.  Several labels are
/// given by name: in lists of 0 and 1 a number may mean something else.
bool are_unnamed(const LabelSet& set) {
  for (size_t id = 0; id < set.names.size(); ++id)
    if (set.names[id] != fmt::format("{}{}", kUnnamed, id)) return false;
  return set.kind == LabelKind::kClasses;
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 30; ++i) out += (i ? ", '" : "'") + names[i] + "'";
  return names.size() > 30 ? out + ", …" : out;
}

[[noreturn]] void fail_label(const Table& table, size_t row, const std::string& column,
                             const std::string& found, const std::string& wanted) {
  fail(ErrorCode::kInvalidData, "{}: column '{}': found '{}', expected {}", table.place(row), column, found,
       wanted);
}

float parse_target(const Table& table, const Column& column, size_t row) {
  const auto value = table_detail::number_of(column.values[row]);
  if (!value) fail_label(table, row, column.name, column.values[row], "a number");
  // The loss and the squares of gradients are float32.
  constexpr double kLargest = 1e15;
  if (!(*value >= -kLargest && *value <= kLargest))
    fail_label(table, row, column.name, column.values[row],
               "a number from -1e15 to 1e15: no loss holds the square of a larger one; scale the labels of "
               "all files, or write them as words if they name classes");
  return static_cast<float>(*value);
}

/// Refuses a column of which a row has no text.
void check_texts(const Table& table, const std::vector<const Column*>& columns) {
  for (const Column* column : columns) {
    if (column->type == ColumnType::kList || column->type == ColumnType::kOther)
      fail(ErrorCode::kInvalidData,
           "{}: column '{}' holds nested JSON or bytes that are no UTF-8, expected text",
           table.place(column->nested.first), column->name);
    if (column->absent.count > 0)
      fail(ErrorCode::kInvalidData,
           "{}: column '{}': found no text, expected one in every row: write \"\" for an empty one, or leave "
           "the "
           "row or the column out (texts are sentence1 and sentence2, or the first two columns)",
           table.place(column->absent.first), column->name);
  }
}

/// Takes the texts of these columns, one or two.
void read_texts(const Table& table, const std::vector<const Column*>& columns, TextDataset& out) {
  check_texts(table, columns);
  for (const Column* column : columns) {
    out.empty_texts.add(column->empty);
    (column == columns.front() ? out.first : out.second) = column->values;
  }
  if (out.empty_texts.count > 0) out.first_empty_text = table.place(out.empty_texts.first);
}

/// One text of all columns of a row, as run_classification joins them.
void read_joined_texts(const Table& table, const std::vector<const Column*>& columns,
                       const std::string& delimiter, TextDataset& out) {
  check_texts(table, columns);
  out.first = columns.front()->values;
  for (size_t row = 0; row < table.rows(); ++row) {
    for (size_t i = 1; i < columns.size(); ++i) out.first[row] += delimiter + columns[i]->values[row];
    const auto is_empty = [&](const Column* column) { return column->values[row].empty(); };
    if (columns.front()->empty.count > 0 && std::all_of(columns.begin(), columns.end(), is_empty))
      out.empty_texts.add({1, row});
  }
  if (out.empty_texts.count > 0) out.first_empty_text = table.place(out.empty_texts.first);
}

bool is_number_text(ColumnType type) { return type == ColumnType::kInteger || type == ColumnType::kFloat; }

// The class that a row names.  A column of numbers is compared by their values, as pandas reads it, not by
// their spelling; a class that is spelled as the file does it comes first.
std::string class_name(const LabelIds& ids, const Column& column, size_t row) {
  const std::string& text = column.values[row];
  if (!is_number_text(column.type) || ids.contains(text)) return text;
  return table_detail::number_name(text);
}

// A class name, or its number as GLUE's files write it.
int32_t glue_label(const GlueTask& task, const Table& table, const Column& column, size_t row,
                   const std::string& name) {
  for (size_t id = 0; id < task.labels.size(); ++id)
    if (name == task.labels[id] || name == std::to_string(id)) return static_cast<int32_t>(id);
  fail_label(table, row, column.name, column.values[row],
             "one of " + quoted_list(task.labels) + " or 0 to " + std::to_string(task.labels.size() - 1));
}

[[noreturn]] void fail_missing(const Table& table, const Column& column, size_t row) {
  fail_label(table, row, column.name, column.values[row], "a label in every row of a file to learn from");
}

/// Text among numbers means class names, but not if its only words are those for a missing number.
void refuse_words_for_no_number(const Table& table, const Column& column) {
  static const std::set<std::string, std::less<>> words = {"nan",  "-nan", "na",  "n/a",  "#n/a", "<na>",
                                                           "null", "none", "inf", "+inf", "-inf"};
  std::vector<std::string> others;
  std::optional<size_t> first;
  for (size_t row = 0; row < column.values.size(); ++row) {
    if (!words.contains(to_lower(column.values[row])))
      others.push_back(column.values[row]);
    else if (!first)
      first = row;
  }
  if (first && is_number_text(table_detail::type_of_text(others)))
    fail_label(table, *first, column.name, column.values[*first],
               "a number as in the other rows: give it one, leave the row out, or, if it is a class, call it "
               "otherwise");
}

/// Whether it is datasets' -1 for "no label".
bool is_no_class(const Column& column, size_t row) {
  return column.class_label && column.values[row] == "-1";
}

/// In the order of their values where all are numbers.
void sort_numbers(std::vector<std::string>& names) {
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return *table_detail::number_of(a) < *table_detail::number_of(b);
  });
}

/// The labels that a column names, in alphabetical order.
std::vector<std::string> distinct_labels(const Table& table, const Column& column) {
  std::set<std::string> distinct;
  for (size_t row = 0; row < column.values.size(); ++row) {
    const std::string& value = column.values[row];
    if (column.type != ColumnType::kList) {
      if (value.empty()) fail_missing(table, column, row);
      if (!is_no_class(column, row)) distinct.insert(class_name({}, column, row));
    } else {
      for (const std::string& element : list_elements(value)) distinct.insert(element);
    }
  }
  if (distinct.empty())
    fail(ErrorCode::kInvalidData, "{}: column '{}' names no class in any row; expected some to learn from",
         table.origin, column.name);
  return {distinct.begin(), distinct.end()};
}

LabelSet infer_labels(const Table& table, const Column& column, const OwnColumns& columns) {
  if (columns.regression.value_or(column.type == ColumnType::kFloat)) {
    for (size_t row = 0; row < column.values.size(); ++row)
      if (column.values[row].empty()) fail_missing(table, column, row);
    return {.kind = LabelKind::kRegression, .names = {}};
  }
  if (column.type == ColumnType::kList)
    for (size_t row = 0; row < column.values.size(); ++row)
      if (column.values[row].empty()) fail_missing(table, column, row);
  if (column.type == ColumnType::kString) refuse_words_for_no_number(table, column);
  if (column.type == ColumnType::kNull || column.type == ColumnType::kOther)
    fail(ErrorCode::kInvalidData, "{}: column '{}' holds {}; expected class names, numbers or lists of names",
         table.origin, column.name, column.type == ColumnType::kNull ? "no value" : "nested JSON");
  LabelSet set{.kind = column.type == ColumnType::kList ? LabelKind::kMultiLabel : LabelKind::kClasses,
               .names = distinct_labels(table, column)};
  if (is_number_text(column.type) && !columns.sorts_as_texts) sort_numbers(set.names);
  return set;
}

/// The known labels, and those that a column has in addition, at their end.
LabelSet with_new_labels(const LabelSet& known, const Column& column) {
  LabelSet set = known;
  if (known.kind == LabelKind::kRegression || column.type == ColumnType::kNull ||
      (known.kind == LabelKind::kMultiLabel) != (column.type == ColumnType::kList))
    return set;
  const LabelIds ids = known.ids();
  std::set<std::string> added;
  for (size_t row = 0; row < column.values.size(); ++row) {
    if (column.values[row].empty()) continue;
    if (known.kind == LabelKind::kClasses) {
      const std::string name = class_name(ids, column, row);
      if (name != "-1" && !ids.contains(name)) added.insert(name);
    } else {
      for (const std::string& name : list_elements(column.values[row]))
        if (!ids.contains(name)) added.insert(name);
    }
  }
  set.names.insert(set.names.end(), added.begin(), added.end());
  return set;
}

int32_t own_label(const LabelSet& set, const LabelIds& ids, const Table& table, const Column& column,
                  size_t row, const std::string& name) {
  const auto found = ids.find(name);
  if (found == ids.end())
    fail_label(table, row, column.name, column.type == ColumnType::kList ? name : column.values[row],
               "one of the known labels " + quoted_list(set.names) +
                   (are_unnamed(set) ? fmt::format(" or 0 to {}; a --train_file with these labels names them",
                                                   set.names.size() - 1)
                                     : ""));
  return found->second;
}

void note_label(const Table& table, size_t row, bool present, TextDataset& out) {
  out.labelled |= present;
  if (!present && out.unlabelled_row.empty()) out.unlabelled_row = table.place(row);
}

void read_labels(const Table& table, const Column& column, TextDataset& out) {
  const LabelSet& set = out.label_set;
  const LabelIds ids = set.ids();
  const size_t classes = set.names.size();
  if (column.type == ColumnType::kOther)
    fail(ErrorCode::kInvalidData, "{}: column '{}' holds nested JSON; expected labels", table.origin,
         column.name);
  if ((set.kind == LabelKind::kMultiLabel) != (column.type == ColumnType::kList) &&
      column.type != ColumnType::kNull)
    fail(ErrorCode::kInvalidData, "{}: column '{}' holds {}; the labels known so far are {}", table.origin,
         column.name, column.type == ColumnType::kList ? "lists" : "single values",
         set.kind == LabelKind::kMultiLabel ? "lists" : "single values");
  if (set.kind == LabelKind::kMultiLabel) out.targets.assign(table.rows() * classes, 0.0f);
  for (size_t row = 0; row < table.rows(); ++row) {
    const std::string& value = column.values[row];
    bool absent = value.empty();
    if (set.kind == LabelKind::kRegression) {
      out.targets.push_back(absent ? -1.0f : parse_target(table, column, row));
    } else if (set.kind == LabelKind::kClasses) {
      const std::string name = class_name(ids, column, row);
      absent |= name == "-1" && !ids.contains(name);
      out.labels.push_back(absent ? -1 : own_label(set, ids, table, column, row, name));
    } else if (!absent) {
      for (const std::string& element : list_elements(value))
        out.targets[row * classes + own_label(set, ids, table, column, row, element)] = 1.0f;
    }
    if (absent && is_no_class(column, row))
      ++out.unclassified;
    else
      note_label(table, row, !absent, out);
  }
}

void fill_absent_labels(TextDataset& out) {
  if (out.label_set.kind == LabelKind::kClasses) out.labels.assign(out.size(), -1);
  if (out.label_set.kind == LabelKind::kRegression) out.targets.assign(out.size(), -1.0f);
  if (out.label_set.kind == LabelKind::kMultiLabel)
    out.targets.assign(out.size() * out.label_set.names.size(), 0.0f);
}

}  // namespace

std::unordered_map<std::string_view, int32_t> LabelSet::ids() const {
  std::unordered_map<std::string_view, int32_t> ids;
  const auto add = [&](size_t id, std::string_view name) { ids.try_emplace(name, static_cast<int32_t>(id)); };
  const bool unnamed = are_unnamed(*this);
  for (size_t id = 0; id < names.size(); ++id) {
    add(id, names[id]);
    if (unnamed) add(id, std::string_view(names[id]).substr(kUnnamed.size()));
  }
  return ids;
}

bool LabelSet::adopt(const std::vector<std::pair<std::string, int>>& label2id) {
  if (kind == LabelKind::kRegression || label2id.size() != names.size()) return false;
  std::unordered_map<std::string, const std::string*> own;
  for (const std::string& name : names) own.try_emplace(to_lower(name), &name);
  std::vector<std::string> ordered(names.size());
  for (const auto& [model_name, id] : label2id) {
    const auto match = own.find(to_lower(model_name));
    if (match == own.end() || id < 0 || id >= static_cast<int>(names.size()) || !ordered[id].empty())
      return false;
    ordered[id] = *match->second;
  }
  if (std::set<std::string>(ordered.begin(), ordered.end()).size() != names.size()) return false;
  names = std::move(ordered);
  return true;
}

void TextDataset::truncate(size_t rows) {
  if (rows >= size()) return;
  first.resize(rows);
  if (has_pairs()) second.resize(rows);
  if (!labels.empty()) labels.resize(rows);
  if (!targets.empty())
    targets.resize(label_set.kind == LabelKind::kMultiLabel ? rows * label_set.names.size() : rows);
}

void TextDataset::reorder(std::span<const int64_t> order) {
  const auto permute = [&](auto& values) {
    const size_t width = values.size() / order.size();  // several targets a row
    auto before = std::move(values);
    values.clear();
    for (const int64_t row : order)
      for (size_t k = 0; k < width; ++k)
        values.push_back(std::move(before[static_cast<size_t>(row) * width + k]));
  };
  if (order.empty()) return;
  permute(first), permute(second), permute(labels), permute(targets);
}

void TextDataset::relabel(const LabelSet& set) {
  const auto ids = set.ids();
  std::vector<size_t> renumbered;
  for (const std::string& name : label_set.names) renumbered.push_back(static_cast<size_t>(ids.at(name)));
  for (int32_t& label : labels)
    if (label >= 0) label = static_cast<int32_t>(renumbered[static_cast<size_t>(label)]);
  if (set.kind == LabelKind::kMultiLabel) {
    std::vector<float> before(size() * set.names.size(), 0.0f);
    std::swap(before, targets);
    for (size_t row = 0; row < size(); ++row)
      for (size_t k = 0; k < renumbered.size(); ++k)
        targets[row * set.names.size() + renumbered[k]] = before[row * renumbered.size() + k];
  }
  label_set = set;
}

void TextDataset::keep_labelled() {
  size_t kept = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    std::swap(first[kept], first[row]);
    if (has_pairs()) std::swap(second[kept], second[row]);
    labels[kept++] = labels[row];
  }
  if (!labels.empty()) truncate(kept);
}

TextDataset dataset_from_glue_table(const GlueTask& task, const Table& table) {
  // A file of the task may also be a plain table with run_glue's names.
  const bool own_names = table.find(task.first_column) == nullptr && table.find(task.first_key) != nullptr;
  TextDataset out{.origin = table.origin, .first = {}, .skipped_rows = table.skipped_rows};
  std::vector<const Column*> texts{&table.at(own_names ? task.first_key : task.first_column)};
  if (!task.second_key.empty()) texts.push_back(&table.at(own_names ? task.second_key : task.second_column));
  read_texts(table, texts, out);
  out.label_set = {task.is_regression() ? LabelKind::kRegression : LabelKind::kClasses, task.labels};
  const Column* column = own_names ? nullptr : table.find(task.label_column);
  if (column == nullptr) column = table.find(kLabelColumn);
  fill_absent_labels(out);
  if (column == nullptr) return out;
  const LabelIds ids = out.label_set.ids();
  for (size_t row = 0; row < table.rows(); ++row) {
    bool present = true;
    if (task.is_regression()) {
      out.targets[row] = parse_target(table, *column, row);
    } else {
      const std::string name = class_name(ids, *column, row);
      present = name != "-1";
      if (present) out.labels[row] = glue_label(task, table, *column, row, name);
    }
    note_label(table, row, present, out);
  }
  return out;
}

TextDataset read_glue_file(const GlueTask& task, const std::string& path) {
  const std::set<std::string, std::less<>> asked = {task.first_key,     task.second_key,   task.first_column,
                                                    task.second_column, task.label_column, kLabelColumn};
  const auto wanted = [&](std::string_view name, bool) { return asked.contains(name); };
  if (is_parquet(path)) return dataset_from_glue_table(task, read_table(path, {}, wanted));
  const std::string bytes = read_text(real_file_system(), path, kDataFileBytes);
  TableOptions options;
  // CoLA's test file has a header, its train and dev files have none.
  if (!task.headerless.empty() && !bytes.starts_with("index\t")) options.column_names = task.headerless;
  // QQP as it is published has a few rows with missing fields, which the usual loaders leave out.
  options.skip_ragged = task.name == "qqp";
  const auto format = table_format_of(path);
  return dataset_from_glue_table(task, parse_table(bytes, format.value_or(TableFormat::kTsv), options, path));
}

TextDataset dataset_from_table(const Table& table, const LabelSet* known, const OwnColumns& columns) {
  TextDataset out{.origin = table.origin, .first = {}, .columns = choose_columns(table, columns)};
  const Column* column = label_column(table, columns);
  if (column == nullptr && known == nullptr) fail_without_label_column(table, columns);
  std::vector<const Column*> texts;
  for (const std::string& name : out.columns.texts) texts.push_back(&table.at(name));
  if (columns.joined_by)
    read_joined_texts(table, texts, *columns.joined_by, out);
  else
    read_texts(table, texts, out);
  if (known == nullptr)
    out.label_set = infer_labels(table, *column, columns);
  else
    out.label_set = column != nullptr && columns.adds_labels ? with_new_labels(*known, *column) : *known;
  if (column == nullptr)
    fill_absent_labels(out);
  else
    read_labels(table, *column, out);
  return out;
}

TextDataset read_own_file(const std::string& path, const LabelSet* known, const OwnColumns& columns) {
  return read_own_files({path}, known, columns);
}

TextDataset read_own_files(const std::vector<std::string>& paths, const LabelSet* known,
                           const OwnColumns& columns) {
  return dataset_from_table(read_own_table(paths, columns), known, columns);
}

}  // namespace lathe
