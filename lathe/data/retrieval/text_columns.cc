#include "lathe/data/retrieval/text_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "lathe/core/error.h"
#include "lathe/text/python_format.h"

namespace lathe {
namespace {

constexpr std::array<const char*, 4> kTargetNames = {"label", "labels", "score", "scores"};

const Column* target_column(const Table& table, const std::optional<std::string>& named) {
  if (named) return &table.at(*named);
  for (const char* name : kTargetNames)
    if (const Column* column = table.find(name)) return column;
  return nullptr;
}

bool has_no_text(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

double number_of_cell(const Table& table, const Column& column, size_t row) {
  if (const auto value = parse_double(column.values[row]); value && std::isfinite(*value)) return *value;
  fail(ErrorCode::kInvalidData, "{}: column '{}': found '{}', expected a number: mend or leave out the row",
       table.place(row), column.name, column.values[row].substr(0, 60));
}

void check_is_text(const Table& table, const Column& column) {
  if (column.type == ColumnType::kString || column.type == ColumnType::kNull || table.rows() == 0) return;
  fail(ErrorCode::kInvalidData,
       "{}: column '{}': found '{}', expected text: leave the column out, or call it label or score if it is "
       "what "
       "the texts are trained for",
       table.place(0), column.name, column.values[0].substr(0, 60));
}

// Every text is there.
void check_texts(const Table& table, const std::vector<const Column*>& columns) {
  for (size_t row = 0; row < table.rows(); ++row)
    for (const Column* column : columns) {
      if (!has_no_text(column->values[row])) continue;
      const auto has_text = [&](const Column* other) { return !has_no_text(other->values[row]); };
      const auto partner = std::find_if(columns.begin(), columns.end(), has_text);
      if (partner != columns.end())
        fail(ErrorCode::kInvalidData,
             "{}: column '{}' is empty, but '{}' has the text '{}': give it a partner, or leave out the row",
             table.place(row), column->name, (*partner)->name, (*partner)->values[row].substr(0, 60));
      fail(ErrorCode::kInvalidData, "{}: column '{}': found an empty text: leave out the row",
           table.place(row), column->name);
    }
}

double checked_target(const Table& table, const Column& column, size_t row, const TextColumnRules& rules) {
  const double value = number_of_cell(table, column, row);
  const bool fits = !rules.range || (value >= rules.range->first && value <= rules.range->second);
  if (fits) return value;
  fail(ErrorCode::kInvalidData,
       "{}: column '{}': found {}, expected {} to {}: bring the scores to this range, as score / 5 does with "
       "0 "
       "to 5",
       table.place(row), column.name, column.values[row], rules.range->first, rules.range->second);
}

// Number of each id.
std::unordered_map<std::string, int32_t> numbers_of(const Table& table, const Column& ids) {
  std::unordered_map<std::string, int32_t> out;
  for (size_t row = 0; row < table.rows(); ++row)
    if (!out.try_emplace(ids.values[row], static_cast<int32_t>(row)).second)
      fail(ErrorCode::kInvalidData, "{}: column '{}': found '{}' again, expected every id once",
           table.place(row), ids.name, ids.values[row]);
  return out;
}

}  // namespace

void TextColumns::reorder(std::span<const int32_t> order) {
  const auto reordered = [&](auto& values) {
    auto from = std::move(values);
    values.clear();
    for (const int32_t row : order) values.push_back(std::move(from[static_cast<size_t>(row)]));
  };
  for (std::vector<std::string>& column : texts) reordered(column);
  if (!targets.empty()) reordered(targets);
  reordered(places);
}

void TextColumns::truncate(size_t rows) {
  for (std::vector<std::string>& column : texts) column.resize(std::min(column.size(), rows));
  targets.resize(std::min(targets.size(), rows));
  places.resize(std::min(places.size(), rows));
}

TextColumns text_columns_of(const Table& table, const TextColumnRules& rules) {
  TextColumns out;
  const Column* target = target_column(table, rules.target_name);
  std::vector<const Column*> columns;
  for (const std::string& name : rules.text_names) columns.push_back(&table.at(name));
  if (columns.empty())
    for (const Column& column : table.columns)
      if (&column != target) columns.push_back(&column);
  if (columns.size() < rules.least_texts)
    fail(ErrorCode::kInvalidData, "{}: found {} columns of texts of {}, expected {} or more", table.origin,
         columns.size(), table.names_text(), rules.least_texts);
  if (target == nullptr && rules.target_needed)
    fail(ErrorCode::kInvalidData, "{}: found {}, expected one of label, labels, score, scores, too",
         table.origin, table.names_text());
  for (const Column* column : columns) check_is_text(table, *column);
  check_texts(table, columns);
  for (const Column* column : columns) {
    out.names.push_back(column->name);
    out.texts.push_back(column->values);
  }
  out.origin = table.origin;
  for (size_t row = 0; row < table.rows(); ++row) out.places.push_back(table.place(row));
  if (target == nullptr) return out;
  out.target_name = target->name;
  for (size_t row = 0; row < table.rows(); ++row)
    out.targets.push_back(checked_target(table, *target, row, rules));
  return out;
}

RetrievalSet retrieval_set_of(const Table& corpus, const Table& queries, const Table& qrels) {
  RetrievalSet out;
  const auto documents = numbers_of(corpus, corpus.at("_id"));
  const auto query_rows = numbers_of(queries, queries.at("_id"));
  const Column& text = corpus.at("text");
  const Column* title = corpus.find("title");
  for (size_t row = 0; row < corpus.rows(); ++row) {
    const bool titled = title != nullptr && !has_no_text(title->values[row]);
    out.documents.push_back(titled ? title->values[row] + " " + text.values[row] : text.values[row]);
    if (has_no_text(out.documents.back()))
      fail(ErrorCode::kInvalidData, "{}: found an empty text: leave out the document", corpus.place(row));
  }
  out.document_ids = corpus.at("_id").values;
  const Column &query = qrels.at("query-id"), &document = qrels.at("corpus-id"), &score = qrels.at("score");
  std::vector<std::vector<int32_t>> relevant(queries.rows());
  for (size_t row = 0; row < qrels.rows(); ++row) {
    const auto q = query_rows.find(query.values[row]);
    if (q == query_rows.end())
      fail(ErrorCode::kInvalidData,
           "{}: found query '{}', which {} lacks: add it there, or leave out the row", qrels.place(row),
           query.values[row], queries.origin);
    if (number_of_cell(qrels, score, row) <= 0) continue;
    const auto d = documents.find(document.values[row]);
    out.missing_documents += d == documents.end();
    relevant[static_cast<size_t>(q->second)].push_back(d == documents.end() ? -1 : d->second);
  }
  for (size_t row = 0; row < queries.rows(); ++row) {
    if (relevant[row].empty()) {
      ++out.without_relevant;
      continue;
    }
    if (has_no_text(queries.at("text").values[row]))
      fail(ErrorCode::kInvalidData, "{}: found an empty text: leave out the query", queries.place(row));
    out.query_ids.push_back(queries.at("_id").values[row]);
    out.queries.push_back(queries.at("text").values[row]);
    out.relevant.push_back(std::move(relevant[row]));
  }
  if (out.queries.empty())
    fail(ErrorCode::kInvalidData, "{}: no query of {} has a positive: give one a score above 0", qrels.origin,
         queries.origin);
  return out;
}

}  // namespace lathe
