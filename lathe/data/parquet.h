#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "lathe/core/error.h"

namespace lathe {

bool is_parquet(std::string_view path);

/// Whether a column is wanted; nested: a list, a map or a struct.
using ParquetColumnWanted = std::function<bool(std::string_view name, bool nested)>;

/// The rows of a Parquet file as JSON Lines (parquet_part.h says how); columns that are not wanted are not
/// read, and {} replaces each of their values.  A shared library linked with Apache Arrow reads them and
/// is opened here: $LATHE_PARQUET names it, else it is next to the program or in the folder of libraries that
/// it is installed with. Errors: kUnsupported with the way to get the part; kNotFound;
/// kInvalidData for a damaged file, with row and column where a value is.
std::string parquet_rows(const std::string& path, ParquetColumnWanted wanted);

/// The same, given to `take` in pieces of about a megabyte, which end with a row.  Errors: also what `take`
/// throws.
void for_each_parquet_piece(const std::string& path, ParquetColumnWanted wanted,
                            const std::function<void(std::string_view rows)>& take);

/// The number of rows.  Errors: as parquet_rows.
uint64_t parquet_row_count(const std::string& path);

/// The columns of a Parquet file that the datasets library wrote as ClassLabel, by the entry "huggingface" of
/// its schema.  Errors: as parquet_rows.
std::set<std::string> parquet_class_labels(const std::string& path);

/// Whether that part is here.  Errors: kUnsupported as parquet_rows.
Status parquet_status();

}  // namespace lathe
