#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "lathe/data/table.h"

namespace lathe::table_detail {

/// Each fills columns and lines of a table whose origin is set; bytes are valid UTF-8 without a BOM.
void parse_tsv(std::string_view bytes, const TableOptions& options, Table& table);
void parse_csv(std::string_view bytes, const TableOptions& options, Table& table);
void parse_trec(std::string_view bytes, Table& table);
void parse_json(std::string_view bytes, Table& table);
void parse_json_lines(std::string_view bytes, Table& table);

/// The type of a column that has values of both.
ColumnType joined_type(ColumnType a, ColumnType b);

/// kNull, kInteger, kFloat or kString, by the text of the values; blanks around numbers do not count.
ColumnType type_of_text(const std::vector<std::string>& values);

/// The value of a text that type_of_text takes for a number.
std::optional<double> number_of(std::string_view text);

/// One spelling for all those of a number: "1" for "01", " +1" and "1.0".  Other text as it is.
std::string number_name(const std::string& text);

}  // namespace lathe::table_detail
