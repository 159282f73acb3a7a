#include "lathe/data/own/choice_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/data/parallel_parts.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

constexpr const char* kFirstEnding = "ending0";

/// The flag that names a column, of `lathe swag`; `lathe predict`, which reads no labels, has another.
const char* flag_for(const ChoiceColumns& columns, const char* flag) {
  return columns.reads_labels ? flag : "--column CONTEXT,ENDINGS or CONTEXT,QUESTION,ENDINGS";
}

/// Null if there is none and none is needed.
const Column* find_column(const Table& table, const std::optional<std::string>& asked, const char* usual,
                          const std::string& flag, bool needed) {
  const Column* column = table.find(asked.value_or(usual));
  if (column == nullptr && (asked || needed))
    fail(ErrorCode::kNotFound, "{}: no column '{}': found {}; {} names {}", table.origin,
         asked.value_or(usual), table.names_text(), flag, asked ? "the column" : "another one");
  return column;
}

/// ending0, ending1 … as far as they go, or one column of lists.
std::vector<const Column*> endings_columns(const Table& table, const ChoiceColumns& wanted) {
  const std::optional<std::string>& asked = wanted.endings;
  std::vector<const Column*> columns;
  if (!asked || *asked == kFirstEnding)
    while (const Column* column = table.find(fmt::format("ending{}", columns.size())))
      columns.push_back(column);
  if (columns.size() > 1) return columns;
  if (!columns.empty())
    fail(ErrorCode::kNotFound,
         "{}: found the column 'ending0' and no 'ending1', expected two endings or more", table.origin);
  for (const char* name : {"endings", "choices"})
    if (const Column* column = table.find(name); column != nullptr && !asked) return {column};
  return {find_column(table, asked, kFirstEnding,
                      fmt::format("{} (a column of lists)", flag_for(wanted, "--endings_column_name")),
                      true)};
}

/// The texts of a cell that is a list in JSON.
std::vector<std::string> list_of(const Table& table, const Column& column, size_t row) {
  const std::string& cell = column.values[row];
  const nlohmann::json list = cell.starts_with('[') ? json_or_nothing(cell).value_or(nullptr) : nullptr;
  const auto is_flat = [](const auto& element) { return element.is_string() || element.is_number(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_flat))
    fail(ErrorCode::kInvalidData,
         "{}: column '{}': found {}, expected a list of endings, such as [\"runs.\", \"sleeps.\"]",
         table.place(row), column.name,
         cell.empty() ? "no list of texts" : fmt::format("'{}'", cell.substr(0, 60)));
  return list_elements(cell);
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

std::vector<std::string> endings_of(const Table& table, const std::vector<const Column*>& columns,
                                    size_t row) {
  std::vector<std::string> endings;
  if (columns.size() == 1) {
    endings = list_of(table, *columns[0], row);
  } else {
    for (const Column* column : columns) endings.push_back(column->values[row]);
    while (!endings.empty() && endings.back().empty()) endings.pop_back();
  }
  if (const auto blank = std::ranges::find_if(endings, is_blank); blank != endings.end())
    fail(ErrorCode::kInvalidData,
         "{}: ending {} is empty (column '{}'), expected a text: mend or drop the row", table.place(row),
         blank - endings.begin(),
         columns.size() == 1 ? columns[0]->name : fmt::format("ending{}", blank - endings.begin()));
  if (endings.size() < 2)
    fail(ErrorCode::kInvalidData,
         "{}: found {} ending{} in {}, expected two or more to choose from: mend or drop the row",
         table.place(row), endings.size(), endings.size() == 1 ? "" : "s",
         columns.size() == 1 ? fmt::format("column '{}'", columns[0]->name)
                             : fmt::format("columns 'ending0' to '{}'", columns.back()->name));
  return endings;
}

/// −1: the row has none.
int32_t label_of(const Table& table, const Column& column, size_t row, size_t endings, bool needed) {
  const std::string& cell = column.values[row];
  int32_t label = -1;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), label);
  const bool is_number = error == std::errc() && end == cell.data() + cell.size();
  const bool is_none = cell.empty() || (is_number && label == -1);
  if (is_none && !needed) return -1;
  if (!is_number || label < 0 || label >= static_cast<int32_t>(endings))
    fail(ErrorCode::kInvalidData,
         "{}: column '{}': found {}, expected the number of the right ending, 0 to {}: mend the row, or name "
         "the column with --label_column_name",
         table.place(row), column.name, cell.empty() ? "no label" : fmt::format("'{}'", cell.substr(0, 60)),
         endings - 1);
  return label;
}

const std::string& text_of(const Table& table, const Column& column, size_t row) {
  if (column.type == ColumnType::kList || column.type == ColumnType::kOther)
    fail(ErrorCode::kInvalidData, "{}: column '{}': found '{}', expected a text", table.place(row),
         column.name, column.values[row].substr(0, 60));
  return column.values[row];
}

}  // namespace

std::string ChoiceTable::place(size_t sample) const {
  const std::string* file = &origin;
  for (const auto& [first, name] : later_files)
    if (sample >= first) file = &name;
  return fmt::format("{}:{}", *file, lines[sample]);
}

void ChoiceTable::truncate(size_t samples) {
  if (samples >= size()) return;
  for (auto* list : {&contexts, &questions})
    if (!list->empty()) list->resize(samples);
  endings.resize(samples);
  lines.resize(samples);
  if (!labels.empty()) labels.resize(samples);
}

std::string ChoiceTable::second_text(size_t sample, size_t ending) const {
  const std::string& text = endings[sample][ending];
  if (questions.empty() || questions[sample].empty()) return text;
  return questions[sample] + " " + text;
}

ChoiceTable choices_of_table(const Table& table, const ChoiceColumns& columns) {
  const Column* context =
      find_column(table, columns.context, "sent1", flag_for(columns, "--context_column_name"), true);
  const Column* question =
      find_column(table, columns.question, "sent2", flag_for(columns, "--question_column_name"), false);
  const std::vector<const Column*> endings = endings_columns(table, columns);
  const Column* label = columns.reads_labels ? find_column(table, columns.label, "label",
                                                           "--label_column_name", columns.labels_needed)
                                             : nullptr;
  ChoiceTable out{.origin = table.origin,
                  .lines = table.lines,
                  .later_files = table.later_files,
                  .contexts = {},
                  .questions = {},
                  .endings = {},
                  .labels = {},
                  .context_column = context->name,
                  .question_column = question == nullptr ? "" : question->name,
                  .endings_column = endings[0]->name,
                  .label_column = label == nullptr ? "" : label->name};
  for (size_t row = 0; row < table.rows(); ++row) {
    out.contexts.push_back(text_of(table, *context, row));
    if (question != nullptr) out.questions.push_back(text_of(table, *question, row));
    if (is_blank(out.contexts.back()) && (question == nullptr || is_blank(out.questions.back())))
      fail(ErrorCode::kInvalidData,
           "{}: column '{}': found an empty text{}, expected a context: mend or drop the row",
           table.place(row), context->name,
           question == nullptr ? "" : fmt::format(" and none in '{}'", question->name));
    out.endings.push_back(endings_of(table, endings, row));
    if (label != nullptr)
      out.labels.push_back(label_of(table, *label, row, out.endings.back().size(), columns.labels_needed));
  }
  // Test data have no labels, or all of them: SWAG's are all −1.
  const auto none = std::ranges::find(out.labels, -1);
  if (std::ranges::count(out.labels, -1) == std::ssize(out.labels)) {
    out.labels.clear();
  } else if (none != out.labels.end()) {
    const auto row = static_cast<size_t>(none - out.labels.begin());
    label_of(table, *label, row, out.endings[row].size(), true);  // which fails
  }
  return out;
}

ChoiceTable read_choices(const std::vector<std::string>& paths, const ChoiceColumns& columns) {
  const auto wanted = [&](std::string_view name, bool) {
    const auto is = [&](const std::optional<std::string>& asked, std::string_view usual) {
      return name == (asked ? std::string_view(*asked) : usual);
    };
    return is(columns.context, "sent1") || is(columns.question, "sent2") || is(columns.label, "label") ||
           is(columns.endings, "endings") || name == "choices" || name.starts_with("ending");
  };
  return choices_of_table(read_tables(paths, wanted), columns);
}

TokenizedDataset tokenize_choices(const ChoiceTable& table, const Tokenizer& tokenizer, int max_length,
                                  ThreadPool& pool) {
  const EncodeOptions options{.max_length = max_length, .truncation = Truncation::kLongestFirst};
  const auto parts =
      parallel_parts<TokenizedDataset>(pool, static_cast<long>(table.size()), [&](long begin, long end) {
        TokenizedDataset part;
        for (long i = begin; i < end; ++i) {
          const auto sample = static_cast<size_t>(i);
          for (size_t ending = 0; ending < table.endings[sample].size(); ++ending)
            part.append(
                tokenizer.encode_pair(table.contexts[sample], table.second_text(sample, ending), options),
                tokenizer);
          part.end_sample();
        }
        return part;
      });
  TokenizedDataset out;
  out.append(parts);
  if (!table.labels.empty()) out.tensors.ints("labels") = table.labels;
  return out;
}

}  // namespace lathe
