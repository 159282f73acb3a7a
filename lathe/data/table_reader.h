#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lathe/data/table.h"
#include "lathe/io/byte_source.h"

namespace lathe {

/// Reads a table of any size in parts, which are tables of a few thousand rows.  It holds one part, and, of a
/// gzip file or of a JSON document, all of it.
class TableReader {
 public:
  /// path: as ByteSource takes it; a .parquet file must be a file.  Errors: as ByteSource; kInvalidData where
  /// there is nothing, or something known that is no table (foreign_content).
  explicit TableReader(const std::string& path, std::function<bool()> stopped = {});

  /// For messages.
  const std::string& origin() const { return source_.name(); }
  bool is_parquet() const { return parquet_; }
  /// The beginning of the text, without its byte order mark: enough to see what it is.
  std::string_view head() const { return text_; }
  bool has_mark() const { return marked_; }
  bool has_crlf() const;  ///< its first line ends so
  /// Whether it is one document of JSON, not an object a line.
  bool is_document(TableFormat format) const;

  /// Gives every part to `take`, with the columns of the header, or, of JSON and Parquet, those of its rows.
  /// format: of what is no Parquet.  Errors: as read_table, with the line in the whole file; kInvalidData for
  /// a row of more than 64 MiB.
  void for_each_part(TableFormat format, TableOptions options, const std::function<void(const Table&)>& take);

  /// All of the text, for another parser.  Errors: as ByteSource; kInvalidData beyond kDataFileBytes.
  std::string whole_text();

  /// How much there is and how much of it was given to `take`, with the part at hand: bytes, or rows of
  /// Parquet.  total 0: not known.
  uint64_t total() const { return total_; }
  uint64_t done() const { return done_; }

 private:
  bool fill(size_t wanted);
  void read_document(TableFormat format, const TableOptions& options);
  void read_pieces(TableFormat format, TableOptions options);
  void read_parquet(const TableOptions& options);
  void give(Table& part);

  ByteSource source_;
  bool parquet_ = false, marked_ = false, ended_ = false;
  std::string text_;  ///< read and not given yet
  uint64_t total_ = 0, done_ = 0, rows_ = 0;
  std::function<void(const Table&)> take_;
};

}  // namespace lathe
