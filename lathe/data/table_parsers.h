#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lathe/data/table.h"

namespace lathe::table_detail {

/// Bytes of a table, valid UTF-8 without a BOM.  A parser takes off what it has read.
struct Piece {
  std::string_view bytes;
  uint32_t line = 1;  ///< on which they begin
  bool last = true;   ///< nothing comes after them; else they end with a line, and an open quote stays
};

/// Each fills columns and lines of a table whose origin is set.  A document of JSON is one piece.
void parse_tsv(Piece& piece, const TableOptions& options, Table& table);
void parse_csv(Piece& piece, const TableOptions& options, Table& table);
void parse_lines(Piece& piece, Table& table);
void parse_trec(Piece& piece, Table& table);
void parse_json(Piece& piece, const TableOptions& options, Table& table);
void parse_json_lines(Piece& piece, const TableOptions& options, Table& table);
/// The one for this format.
void parse_piece(Piece& piece, TableFormat format, const TableOptions& options, Table& table);

/// Errors: kInvalidData for two columns of one name.
void check_column_names(const Table& table);
/// format: how the columns would have been named, by a header or by keys.
[[noreturn]] void fail_without_rows(const std::string& origin, TableFormat format);

/// Whether JSON text without a BOM is JSON Lines of more than one line: the first one is an object by itself.
/// (An object on the only line may be a document or a row.)
bool are_json_lines(std::string_view bytes);

/// Calls row(line, number) for every line that is not blank.
template <typename Row>
void for_each_json_line(std::string_view bytes, const Row& row, uint32_t number = 1) {
  for (; !bytes.empty(); ++number) {
    const size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) row(line, number);
  }
}

/// The type of a column that has values of both.
ColumnType joined_type(ColumnType a, ColumnType b);

/// kNull, kInteger, kFloat or kString, by the text of the values; blanks around numbers do not count.
ColumnType type_of_text(const std::vector<std::string>& values);

/// The value of a text that type_of_text takes for a number.
std::optional<double> number_of(std::string_view text);

/// One spelling for all those of a number: "1" for "01", " +1" and "1.0".  Other text as it is.
std::string number_name(const std::string& text);

}  // namespace lathe::table_detail
