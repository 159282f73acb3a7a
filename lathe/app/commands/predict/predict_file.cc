// The rows of a file, of any size, and what a model says of them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "lathe/app/commands/file_format.h"
#include "lathe/app/commands/predict/predict_job.h"
#include "lathe/app/terminal/signals.h"
#include "lathe/data/parquet_writer.h"
#include "lathe/data/squad.h"
#include "lathe/data/table_reader.h"

namespace lathe {
namespace {

using Put = std::function<void(std::string_view)>;

/// A file of lines as a table: text, and text_pair if they are pairs.
class LinesAsTable {
 public:
  Table operator()(const Table& lines) {
    if (first_place_.empty()) first_place_ = lines.place(0);
    const bool is_first = !pairs_;
    TextDataset data{.origin = lines.origin, .first = {}};
    if (pairs_.value_or(false)) data.first = {""}, data.second = {""};  // what the others are
    if (pairs_ && !*pairs_) data.first = {""};
    for (size_t row = 0; row < lines.rows(); ++row)
      add_line(data, lines.columns[0].values[row], lines.place(row), first_place_);
    pairs_ = data.has_pairs();
    const long skip = is_first ? 0 : 1;
    Table table{.origin = lines.origin, .columns = {}, .lines = lines.lines, .later_files = {}};
    const auto add = [&](const char* name, const std::vector<std::string>& values) {
      table.columns.push_back(
          {.name = name, .values = {values.begin() + skip, values.end()}, .type = ColumnType::kString});
    };
    add("text", data.first);
    if (*pairs_) add("text_pair", data.second);
    return table;
  }

 private:
  std::string first_place_;
  std::optional<bool> pairs_;
};

/// The questions of SQuAD's own files as parts of a table.
void for_each_part(const SquadDataset& data, const std::function<void(const Table&)>& take) {
  constexpr size_t kRows = 1000;
  for (size_t begin = 0; begin < data.examples.size(); begin += kRows) {
    Table part{.origin = data.origin, .columns = {}, .lines = {}, .later_files = {}};
    for (const char* name : {"id", "question", "context"})
      part.columns.push_back({.name = name, .values = {}, .type = ColumnType::kString});
    for (size_t row = begin; row < std::min(begin + kRows, data.examples.size()); ++row) {
      const SquadExample& example = data.examples[row];
      part.columns[0].values.push_back(example.id);
      part.columns[1].values.push_back(example.question);
      part.columns[2].values.push_back(data.context_of(example));
      part.lines.push_back(static_cast<uint32_t>(row + 1));
    }
    take(part);
  }
}

class FileJob {
 public:
  FileJob(Predictor& predictor, const PredictSettings& settings, RowPredictor& rows,
          const std::function<std::string(const Table&)>& show)
      : predictor_(predictor), settings_(settings), rows_(rows), show_(show) {}

  void run() {
    choose_output();
    if (settings_.output)
      write_file();
    else
      read([this](std::string_view text) {
        terminal_.print(text);
        if (std::ferror(stdout) != 0) fail(ErrorCode::kIo, "standard output: cannot be written");
      });
    if (!names_.empty()) tell_end();
  }

 private:
  void write_file() {
    const StopSignals signals;
    const auto write = [&](const Sink& sink) -> Status {
      read([&](std::string_view text) { sink(as_bytes(text)).check(); });
      return {};
    };
    real_file_system().write_atomic(*settings_.output, write).check();
  }

  void choose_output() {
    if (settings_.json) output_ = OutputFormat::kJsonLines;
    if (!settings_.output) return;
    const std::string& path = *settings_.output;
    check_output_file(path, settings_.file);
    const auto format = output_format_of(path);
    if (!format)
      fail(ErrorCode::kUsage,
           "--output: found {}, expected a name that ends in .csv, .tsv, .jsonl or .parquet", path);
    output_ = *format;
    if (output_ == OutputFormat::kParquet) parquet_status().check();
  }

  bool answers() const { return predictor_.model().model->task().scores_texts(); }

  /// Lines have no columns.
  void check_lines(const std::string& origin) const {
    constexpr const char* kWayOut = "for a table say --format csv, tsv, json or jsonl";
    if (settings_.column)
      fail(ErrorCode::kUsage, "--column: found {}, but {} is read as a text a line; {}", *settings_.column,
           origin, kWayOut);
    if (answers())
      fail(ErrorCode::kUsage,
           "{}: it is read as a text a line, expected 'question' and 'context' of a table; {}", origin,
           kWayOut);
  }

  void read(const Put& put) {
    TableReader reader(*settings_.file, [] { return stop_signal() != 0; });
    if (!reader.is_parquet())
      kind_ = format_of_file(reader, *settings_.file, settings_.format,
                             [this](const std::string& name) { return rows_.may_be_text(name); });
    const bool lines = kind_ == TableFormat::kLines;
    if (lines) check_lines(reader.origin());
    if ((kind_ == TableFormat::kCsv || kind_ == TableFormat::kTsv) && reader.has_crlf()) line_end_ = "\r\n";
    const bool mark = reader.has_mark() && !lines && output_ != OutputFormat::kJsonLines &&
                      output_ != OutputFormat::kParquet;
    uint64_t before = 0;
    predictor_.on_batch = [&](int64_t batch, int64_t batches) {
      const auto share = static_cast<double>(batch) / static_cast<double>(batches);
      terminal_.update_progress(static_cast<int64_t>(static_cast<double>(before) +
                                                     share * static_cast<double>(reader.done() - before)));
    };
    LinesAsTable as_table;
    Table texts;  // of lines
    const auto take = [&](const Table& part) {
      if (lines) texts = as_table(part);
      const Table& table = lines ? texts : part;
      if (!std::exchange(begun_, true)) {
        rows_.begin(table, lines);
        if (settings_.output || !lines) begin(table, mark ? "\xEF\xBB\xBF" : "", put);
        begin_progress(reader);
      }
      if (!names_.empty())
        give(table, put);
      else
        put(show_(table));
      before = reader.done();
    };
    if (answers() && reader.is_document(kind_) &&
        reader.head().find("\"paragraphs\"") != std::string_view::npos)
      for_each_part(squad_from_text(reader.whole_text(), reader.origin()), take);
    else
      reader.for_each_part(kind_, {.keep_objects = true, .keep_numbers = !reader.is_parquet()}, take);
    if (parquet_) parquet_->finish();
    terminal_.end_progress();
  }

  /// Not where the predictions come to the same terminal.
  void begin_progress(const TableReader& reader) {
    if (reader.total() > 0 && (settings_.output || isatty(STDOUT_FILENO) == 0))
      terminal_.begin_progress(file_name(reader.origin()), static_cast<int64_t>(reader.total()), 0,
                               reader.is_parquet() ? ProgressUnit::kSteps : ProgressUnit::kBytes);
  }

  void begin(const Table& part, std::string_view mark, const Put& put) {
    names_ = free_names(part, rows_.names());
    if (names_ != rows_.names())
      print_error(fmt::format("{}: it has a column of such a name already; the predictions are in '{}'\n",
                              part.origin, fmt::join(names_, "', '")));
    if (output_ == OutputFormat::kParquet)
      parquet_.emplace(names_, put, is_parquet(*settings_.file) ? settings_.file : std::nullopt);
    else
      writer_.emplace(output_, names_, line_end_);
    if (!mark.empty()) put(mark);
  }

  void give(const Table& part, const Put& put) {
    const std::vector<std::vector<Cell>> cells = rows_.predict(part);
    count_ += part.rows();
    if (parquet_) return parquet_->write(part, cells);
    std::string text;
    writer_->write(part, cells, text);
    put(text);
  }

  void tell_end() const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    const std::string where =
        settings_.output ? fmt::format("; {} in {}", fmt::join(names_, ", "), *settings_.output) : "";
    print_error(fmt::format("{} rows, {} tokens in {:.1f} s, {:.0f} tokens/s{}\n", count_,
                            predictor_.tokens(), seconds, static_cast<double>(predictor_.tokens()) / seconds,
                            where));
  }

  Predictor& predictor_;
  const PredictSettings& settings_;
  RowPredictor& rows_;
  const std::function<std::string(const Table&)>& show_;
  Terminal terminal_{LogLevel::kInfo, true};
  TableFormat kind_ = TableFormat::kJsonLines;
  OutputFormat output_ = OutputFormat::kCsv;
  std::string line_end_ = "\n";
  std::optional<TableWriter> writer_;
  std::optional<ParquetWriter> parquet_;  ///< instead
  std::vector<std::string> names_;
  bool begun_ = false;
  size_t count_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

void add_line(TextDataset& data, const std::string& line, const std::string& place,
              const std::string& first_place) {
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  const auto wanted = data.first.empty() ? std::min<ptrdiff_t>(tabs, 1) : ptrdiff_t{data.has_pairs()};
  if (tabs != wanted)
    fail(ErrorCode::kInvalidData,
         "{}: found {} texts parted by tabs, expected {}; write each line as one text, or each as two parted "
         "by one tab",
         place, tabs + 1,
         data.first.empty() ? "one or two" : fmt::format("{} as in {}", wanted + 1, first_place));
  const size_t tab = line.find('\t');
  data.first.push_back(line.substr(0, tab));
  if (tab != std::string::npos) data.second.push_back(line.substr(tab + 1));
}

void predict_file(Predictor& predictor, const PredictSettings& settings, RowPredictor& rows,
                  const std::function<std::string(const Table&)>& show) {
  FileJob(predictor, settings, rows, show).run();
}

}  // namespace lathe
