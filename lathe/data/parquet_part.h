#pragma once
#include <cstddef>
#include <cstdint>

// The interface of liblathe_parquet, which is opened for the first Parquet file.  It is plain C, because the
// library is linked with Apache Arrow and Arrow's C++ library, which need not be the program's.

extern "C" {

/// Takes text; returns 0 to continue, else the reason is "stopped".
typedef int (*LatheTextSink)(void* context, const char* text, size_t bytes);

/// Returns whether a column of this name, nested (a list, a map or a struct) or not, is wanted.
typedef int (*LatheColumnWanted)(void* context, const char* name, int nested);

/// Gives every row of a Parquet file to the sink as a line of JSON, nested values included: dates and other
/// values that JSON lacks as text, NaN as null, floats always with a point, decimals as numbers, maps as
/// lists of objects, bytes that are no UTF-8 as {"bytes": how many}; {} replaces every value of a column
/// that is not wanted, which is not read.  Returns 0, or 1 with a reason in `error`, ended by a zero byte.
typedef int (*LatheParquetChosen)(const char* path, LatheColumnWanted wanted, void* wanted_context,
                                  LatheTextSink sink, void* context, char* error, size_t error_bytes);
int lathe_parquet_chosen(const char* path, LatheColumnWanted wanted, void* wanted_context, LatheTextSink sink,
                         void* context, char* error, size_t error_bytes);

/// Gives the value of an entry of the file's metadata to the sink; nothing if there is none.  Returns as
/// above.
typedef int (*LatheParquetEntry)(const char* path, const char* key, LatheTextSink sink, void* context,
                                 char* error, size_t error_bytes);
int lathe_parquet_entry(const char* path, const char* key, LatheTextSink sink, void* context, char* error,
                        size_t error_bytes);

/// Says how many rows the file has.  Returns as above.
typedef int (*LatheParquetCount)(const char* path, int64_t* rows, char* error, size_t error_bytes);
int lathe_parquet_count(const char* path, int64_t* rows, char* error, size_t error_bytes);

/// A column to be written.
struct LatheParquetColumn {
  const char* name;
  int kind;  ///< 0: texts; 1: numbers; 2: lists of texts
};

/// Its values in some rows.
struct LatheParquetCells {
  const unsigned char* there;  ///< [rows] 0: null
  const float* numbers;        ///< kind 1: [rows]
  const char* texts;           ///< kinds 0 and 2: one text after the other
  const int64_t* text_ends;    ///< the end of each in `texts`
  const int64_t* list_ends;    ///< kind 2: [rows] the texts up to the end of each row's list
};

/// Begins a Parquet file, whose bytes go to the sink.  like: a Parquet file whose columns come first, row by
/// row, in their own types; null: there is none.  *writer is not null then.  Returns as above, and so do the
/// next two.
typedef int (*LatheParquetCreate)(const char* like, const LatheParquetColumn* columns, int count,
                                  LatheTextSink sink, void* context, void** writer, char* error,
                                  size_t error_bytes);
int lathe_parquet_create(const char* like, const LatheParquetColumn* columns, int count, LatheTextSink sink,
                         void* context, void** writer, char* error, size_t error_bytes);

/// cells: of all columns.
typedef int (*LatheParquetAppend)(void* writer, int64_t rows, const LatheParquetCells* cells, char* error,
                                  size_t error_bytes);
int lathe_parquet_append(void* writer, int64_t rows, const LatheParquetCells* cells, char* error,
                         size_t error_bytes);

/// Writes the end of the file.
typedef int (*LatheParquetFinish)(void* writer, char* error, size_t error_bytes);
int lathe_parquet_finish(void* writer, char* error, size_t error_bytes);

/// Frees it; an unfinished file stays without an end.
typedef void (*LatheParquetFree)(void* writer);
void lathe_parquet_free(void* writer);
}

namespace lathe::parquet_detail {

/// All of them, as a program finds them.
struct Part {
  LatheParquetChosen rows = nullptr;
  LatheParquetEntry entry = nullptr;
  LatheParquetCount count = nullptr;
  LatheParquetCreate create = nullptr;
  LatheParquetAppend append = nullptr;
  LatheParquetFinish finish = nullptr;
  LatheParquetFree free = nullptr;
};
/// Opened for the first call.  Errors: kUnsupported with the way to get it.
const Part& the_part();

}  // namespace lathe::parquet_detail
