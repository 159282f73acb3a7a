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
}
