#pragma once
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data/table.h"
#include "lathe/data/table_writer.h"

namespace lathe {

/// Writes a table as Parquet, part by part: all its columns, then the added ones.  Columns of a Parquet file
/// keep their types; those of other tables are texts.
class ParquetWriter {
 public:
  /// put: takes the bytes of the file, in order.  like: the Parquet file that the parts are read from, in
  /// order and whole; none: they come from another table.  Errors: kUnsupported as parquet_rows.
  ParquetWriter(std::vector<std::string> added, std::function<void(std::string_view)> put,
                std::optional<std::string> like);
  ~ParquetWriter();
  ParquetWriter(const ParquetWriter&) = delete;
  ParquetWriter& operator=(const ParquetWriter&) = delete;

  /// cells: [rows], each of all added columns.  Errors: kInvalidData for columns that the first part did not
  /// have; what `put` throws.
  void write(const Table& part, std::span<const std::vector<Cell>> cells);
  /// Writes the end of the file.
  void finish();

 private:
  void begin(const Table& part, std::span<const std::vector<Cell>> cells);
  template <typename Work>
  void ask(Work work);

  std::vector<std::string> added_;
  std::function<void(std::string_view)> put_;
  std::optional<std::string> like_;
  std::vector<std::string> names_;  ///< of the first part's columns, where they are written as texts
  void* writer_ = nullptr;
  std::exception_ptr thrown_;
};

}  // namespace lathe
