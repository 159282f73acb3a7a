#pragma once
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

// What the sources of liblathe_parquet share.

#define LATHE_DOOR extern "C" __attribute__((visibility("default")))

namespace lathe_parquet {

inline void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
T checked(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

/// A reader that holds no more than one group of rows.
inline std::unique_ptr<parquet::arrow::FileReader> open_file(const char* path) {
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(checked(arrow::io::ReadableFile::Open(path))));
  parquet::ArrowReaderProperties properties = parquet::default_arrow_reader_properties();
  properties.set_pre_buffer(false);
  builder.properties(properties);
  return checked(builder.Build());
}

/// Runs it; returns 0, or 1 with the reason in `error`.
template <typename Work>
int guarded(char* error, size_t error_bytes, Work work) {
  try {
    work();
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(error, error_bytes, "%s", e.what());
  } catch (...) {
    std::snprintf(error, error_bytes, "an unknown fault");
  }
  return 1;
}

}  // namespace lathe_parquet
