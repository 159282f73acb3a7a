#include "lathe/data/table_reader.h"

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/data/table_parsers.h"
#include "lathe/io/foreign_content.h"
#include "lathe/io/gzip.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;
constexpr size_t kMostRowBytes = size_t{64} << 20;
constexpr std::string_view kMark = "\xEF\xBB\xBF";

/// The bytes up to the end of the last line in them; 0 if there is none.
size_t whole_lines(std::string_view text, TableFormat format) {
  const size_t end = text.rfind('\n');
  if (end != std::string_view::npos) return end + 1;
  if (format != TableFormat::kCsv) return 0;
  // Lines of CSV may end in a carriage return; after the last byte a line feed may come.
  return text.size() < 2 ? 0 : text.substr(0, text.size() - 1).rfind('\r') + 1;
}

}  // namespace

TableReader::TableReader(const std::string& path, std::function<bool()> stopped)
    : source_(path, std::move(stopped)), parquet_(lathe::is_parquet(path)), total_(source_.bytes()) {
  if (parquet_) {
    total_ = parquet_row_count(path);
    return;
  }
  fill(kPartBytes);
  if (text_.starts_with("\x1f\x8b") && total_ > 0 && path != kStandardInput) {
    text_ = read_text(real_file_system(), path, kDataFileBytes);
    total_ = text_.size();
    ended_ = true;
  }
  marked_ = text_.starts_with(kMark);
  if (marked_) text_.erase(0, kMark.size()), done_ = kMark.size();
  refuse_foreign_content(text_, origin(), "a table with at least one row");
}

bool TableReader::has_crlf() const {
  const size_t end = text_.find('\n');
  return end != std::string::npos && end > 0 && text_[end - 1] == '\r';
}

bool TableReader::is_document(TableFormat format) const {
  return format == TableFormat::kJson && !table_detail::are_json_lines(text_);
}

/// Until so many bytes are there.  Returns whether more may follow.
bool TableReader::fill(size_t wanted) {
  while (!ended_ && text_.size() < wanted) ended_ = !source_.read(text_, wanted - text_.size());
  return !ended_;
}

void TableReader::for_each_part(TableFormat format, TableOptions options,
                                const std::function<void(const Table&)>& take) {
  take_ = take;
  if (parquet_)
    read_parquet(options);
  else if (is_document(format))
    read_document(format, options);
  else
    read_pieces(format == TableFormat::kJson ? TableFormat::kJsonLines : format, std::move(options));
  if (rows_ == 0) table_detail::fail_without_rows(origin(), parquet_ ? TableFormat::kCsv : format);
}

void TableReader::give(Table& part) {
  table_detail::check_column_names(part);
  if (rows_ == 0 && part.rows() > 0 && part.columns.empty())
    table_detail::fail_without_rows(origin(), TableFormat::kJson);
  rows_ += part.rows();
  if (part.rows() > 0) take_(part);
}

std::string TableReader::whole_text() {
  while (fill(text_.size() + kPartBytes))
    if (text_.size() > kDataFileBytes)
      fail(ErrorCode::kInvalidData,
           "{}: found a JSON document of more than {} bytes; write an object a line, as .jsonl", origin(),
           kDataFileBytes);
  done_ += text_.size();
  return std::exchange(text_, {});
}

void TableReader::read_document(TableFormat format, const TableOptions& options) {
  Table table = parse_table(whole_text(), format, options, origin());
  give(table);
}

void TableReader::read_pieces(TableFormat format, TableOptions options) {
  uint32_t line = 1;
  for (size_t wanted = kPartBytes;;) {
    const bool last = !fill(wanted);
    const std::string_view ready =
        std::string_view(text_).substr(0, last ? text_.size() : whole_lines(text_, format));
    check_utf8(ready, origin(), line);
    table_detail::Piece piece{ready, line, last};
    Table part{.origin = origin(), .columns = {}, .lines = {}, .later_files = {}};
    if (!ready.empty()) table_detail::parse_piece(piece, format, options, part);
    const size_t taken = ready.size() - piece.bytes.size();
    if (taken == 0 && !last && wanted >= kMostRowBytes)
      fail(
          ErrorCode::kInvalidData,
          "{}:{}: found a row of more than {} bytes, expected shorter ones; look for a quote that opens here "
          "and is never closed",
          origin(), line, kMostRowBytes);
    wanted = taken == 0 ? 2 * wanted : kPartBytes;
    line = piece.line;
    done_ += taken;
    if (options.column_names.empty() && format != TableFormat::kJsonLines && format != TableFormat::kLines)
      for (const Column& column : part.columns) options.column_names.push_back(column.name);
    give(part);
    text_.erase(0, taken);
    if (last) return;
  }
}

void TableReader::read_parquet(const TableOptions& options) {
  std::string rows;
  uint32_t row = 1;
  const auto take = [&](std::string_view text) {
    Table part{.origin = origin(), .columns = {}, .lines = {}, .later_files = {}};
    table_detail::Piece piece{text, row, false};
    table_detail::parse_json_lines(piece, options, part);
    row = piece.line;
    done_ = row - 1;
    give(part);
  };
  for_each_parquet_piece(
      origin(), [](std::string_view, bool) { return true; }, take);
}

}  // namespace lathe
