#include "lathe/data/parquet.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/program_path.h"
#include "lathe/data/parquet_part.h"
#include "lathe/io/file_system.h"

namespace lathe {
namespace {

#ifdef __APPLE__
constexpr const char* kPartName = "liblathe_parquet.dylib";
#else
constexpr const char* kPartName = "liblathe_parquet.so";
#endif

LatheParquetRows open_part() {
  const std::string named = environment("LATHE_PARQUET");
  const std::vector<std::string> places = named.empty() ? part_places(kPartName) : std::vector{named};
  std::string why;
  for (const std::string& place : places) {
    if (!real_file_system().exists(place)) {
      why += fmt::format("\n  {}: not there", place);
      continue;
    }
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      if (void* rows = dlsym(handle, "lathe_parquet_rows")) return reinterpret_cast<LatheParquetRows>(rows);
    const char* text = dlerror();
    why += fmt::format("\n  {}: {}", place, text == nullptr ? "cannot be opened" : text);
  }
  fail(ErrorCode::kUnsupported,
       "reading Parquet needs the part {}, which is built where Apache Arrow is found: `pip install pyarrow` "
       "(or, on "
       "macOS, `brew install apache-arrow`), then build Lathe again. Or give the data as csv, tsv, json or "
       "jsonl.\nLooked at:{}",
       kPartName, why);
}

LatheParquetRows rows_of_part() {
  static const LatheParquetRows rows = open_part();
  return rows;
}

}  // namespace

bool is_parquet(std::string_view path) { return path.ends_with(".parquet"); }

std::string parquet_rows(const std::string& path) {
  if (!real_file_system().exists(path))
    fail(ErrorCode::kNotFound, "{}: there is no such file; check the path", path);
  const LatheParquetRows rows = rows_of_part();
  std::string text;
  const auto sink = [](void* context, const char* bytes, size_t count) {
    static_cast<std::string*>(context)->append(bytes, count);
    return 0;
  };
  char error[500] = "";
  if (rows(path.c_str(), sink, &text, error, sizeof error) != 0)
    fail(ErrorCode::kInvalidData, "{}: cannot be read as Parquet: {}; fetch or save the file again", path,
         error);
  return text;
}

Status parquet_status() {
  try {
    rows_of_part();
    return {};
  } catch (const Error& missing) {
    return {missing.code(), missing.what()};
  }
}

}  // namespace lathe
