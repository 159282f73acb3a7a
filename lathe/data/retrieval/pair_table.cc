#include "lathe/data/retrieval/pair_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/data/retrieval/text_columns.h"
#include "lathe/io/json_file.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

constexpr const char* kLabelNames[] = {"label", "labels", "score", "scores"};

/// Null if there is none and none is needed.
const Column* find_label(const Table& table, const PairColumns& columns) {
  if (!columns.reads_labels) return nullptr;
  if (columns.label) {
    if (const Column* column = table.find(*columns.label)) return column;
    if (!columns.labels_needed) return nullptr;
    fail(ErrorCode::kNotFound, "{}: no column '{}': found {}; --label_column_name names the column",
         table.origin, *columns.label, table.names_text());
  }
  for (const char* name : kLabelNames)
    if (const Column* column = table.find(name)) return column;
  if (columns.labels_needed)
    fail(ErrorCode::kNotFound,
         "{}: found the columns {} and no label, expected one of 'label', 'labels', 'score' and 'scores', "
         "too: a "
         "pair is trained and evaluated for its label; --label_column_name names another column",
         table.origin, table.names_text());
  return nullptr;
}

std::vector<const Column*> find_texts(const Table& table, const PairColumns& columns, const Column* label) {
  std::vector<const Column*> found;
  for (const std::string& name : columns.texts) {
    if (table.find(name) == nullptr)
      fail(ErrorCode::kNotFound,
           "{}: no column '{}': found {}; --text_column_names A,B names the two of texts", table.origin, name,
           table.names_text());
    found.push_back(table.find(name));
  }
  if (columns.texts.empty())
    for (const Column& column : table.columns)
      if (&column != label) found.push_back(&column);
  if (found.size() == 2) return found;
  fail(ErrorCode::kInvalidData, "{}: found {} column{} of texts in {}, expected two: {}", table.origin,
       found.size(), found.size() == 1 ? "" : "s", table.names_text(),
       found.size() > 2 ? "name them with --text_column_names A,B" : "a query and a document, say");
}

/// The elements of a cell that is a list.
std::vector<std::string> elements_of(const Table& table, const Column& column, size_t row) {
  const std::string& cell = column.values[row];
  const nlohmann::json list = cell.starts_with('[') ? json_or_nothing(cell).value_or(nullptr) : nullptr;
  const auto is_flat = [](const auto& element) { return element.is_string() || element.is_number(); };
  if (list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_flat))
    return list_elements(cell);
  fail(ErrorCode::kInvalidData, "{}: column '{}': found {}, expected a list of {}: mend or leave out the row",
       table.place(row), column.name, cell.empty() ? "nothing" : fmt::format("'{}'", cell.substr(0, 60)),
       column.type == ColumnType::kList ? "one text or more" : "texts");
}

/// The two columns of texts and, apart from them, the cells of the labels.
struct Chosen {
  Table table;
  std::vector<std::string> labels;
};

/// A row for each document of a list.
Chosen flattened(const Table& table, const Column& query, const Column& documents, const Column* labels) {
  Chosen out{.table = {.origin = table.origin, .columns = {}, .lines = {}, .later_files = {}}, .labels = {}};
  out.table.columns.push_back({.name = query.name, .values = {}, .type = query.type});
  out.table.columns.push_back({.name = documents.name, .values = {}, .type = ColumnType::kString});
  for (size_t row = 0; row < table.rows(); ++row) {
    for (const auto& [first, name] : table.later_files)
      if (first == row) out.table.later_files.emplace_back(out.table.rows(), name);
    const std::vector<std::string> texts = elements_of(table, documents, row);
    std::vector<std::string> of_texts;
    if (labels != nullptr) of_texts = elements_of(table, *labels, row);
    if (labels != nullptr && of_texts.size() != texts.size())
      fail(
          ErrorCode::kInvalidData,
          "{}: found {} documents in '{}' and {} labels in '{}', expected a label for each document: mend or "
          "leave out the row",
          table.place(row), texts.size(), documents.name, of_texts.size(), labels->name);
    for (const std::string& text : texts) {
      out.table.columns[0].values.push_back(query.values[row]);
      out.table.columns[1].values.push_back(text);
      out.table.lines.push_back(table.lines[row]);
    }
    out.labels.insert(out.labels.end(), of_texts.begin(), of_texts.end());
  }
  return out;
}

Chosen chosen(const Table& table, const std::vector<const Column*>& texts, const Column* label) {
  Chosen out{.table = {.origin = table.origin,
                       .columns = {},
                       .lines = table.lines,
                       .later_files = table.later_files},
             .labels = {}};
  for (const Column* column : texts) out.table.columns.push_back(*column);
  if (label != nullptr) out.labels = label->values;
  return out;
}

/// Test data whose labels are not told have none, or -1 everywhere.
std::vector<double> numbers_of(const Chosen& rows, const Column* label, bool needed) {
  std::vector<double> numbers;
  const auto is_none = [](const std::string& cell) { return cell.empty() || cell == "-1"; };
  if (!needed && std::ranges::all_of(rows.labels, is_none)) return numbers;
  for (size_t row = 0; row < rows.labels.size(); ++row) {
    const std::string& cell = rows.labels[row];
    const std::optional<double> value = parse_double(cell);
    if (!value || !std::isfinite(*value))
      fail(ErrorCode::kInvalidData,
           "{}: column '{}': found {}, expected a number: 0 or 1, a score, or the number of a class: mend or "
           "leave out the row",
           rows.table.place(row), label->name,
           cell.empty() ? "no label" : fmt::format("'{}'", cell.substr(0, 60)));
    numbers.push_back(*value);
  }
  return numbers;
}

}  // namespace

std::string PairTable::place(size_t pair) const {
  const std::string* file = &origin;
  for (const auto& [from, name] : later_files)
    if (pair >= from) file = &name;
  return fmt::format("{}:{}", *file, lines[pair]);
}

void PairTable::truncate(size_t pairs) {
  if (pairs >= size()) return;
  first.resize(pairs);
  second.resize(pairs);
  lines.resize(pairs);
  if (!labels.empty()) labels.resize(pairs);
}

bool PairTable::has_binary_labels() const {
  return !labels.empty() && std::ranges::all_of(labels, [](double x) { return x == 0 || x == 1; });
}

bool holds_lists(const Column& column) {
  if (column.type != ColumnType::kString || column.values.empty()) return column.type == ColumnType::kList;
  return std::ranges::all_of(column.values, [](const std::string& cell) {
    if (!cell.starts_with('[')) return false;
    const nlohmann::json list = json_or_nothing(cell).value_or(nullptr);
    return list.is_array() &&
           std::ranges::all_of(list, [](const auto& element) { return element.is_string(); });
  });
}

PairTable pairs_of_table(const Table& table, const PairColumns& columns) {
  const Column* label = find_label(table, columns);
  const std::vector<const Column*> texts = find_texts(table, columns, label);
  PairTable out;
  out.first_column = texts[0]->name;
  out.second_column = texts[1]->name;
  out.label_column = label == nullptr ? "" : label->name;
  out.of_lists = holds_lists(*texts[1]);
  Chosen rows = out.of_lists ? flattened(table, *texts[0], *texts[1], label) : chosen(table, texts, label);
  out.labels = numbers_of(rows, label, columns.labels_needed);
  TextColumns read = text_columns_of(rows.table);
  out.origin = std::move(rows.table.origin);
  out.lines = std::move(rows.table.lines);
  out.later_files = std::move(rows.table.later_files);
  out.first = std::move(read.texts[0]);
  out.second = std::move(read.texts[1]);
  return out;
}

PairTable read_pairs(const std::vector<std::string>& paths, const PairColumns& columns) {
  return pairs_of_table(read_tables(paths, [](std::string_view, bool) { return true; }), columns);
}

std::vector<QueryGroup> groups_by_query(const PairTable& pairs) {
  std::unordered_map<std::string_view, size_t> numbers;
  std::vector<QueryGroup> groups;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t number = numbers.try_emplace(pairs.first[i], groups.size()).first->second;
    if (number == groups.size()) groups.emplace_back();
    groups[number].pairs.push_back(i);
    groups[number].has_positive |= !pairs.labels.empty() && pairs.labels[i] > 0;
  }
  std::erase_if(groups, [](const QueryGroup& group) { return group.pairs.size() < 2; });
  size_t in_groups = 0;
  for (const QueryGroup& group : groups) in_groups += group.pairs.size();
  if (2 * in_groups <= pairs.size()) groups.clear();
  return groups;
}

}  // namespace lathe
