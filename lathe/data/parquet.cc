#include "lathe/data/parquet.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/program_path.h"
#include "lathe/data/parquet_part.h"
#include "lathe/io/file_system.h"
#include "lathe/io/gzip.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

#ifdef __APPLE__
constexpr const char* kPartName = "liblathe_parquet.dylib";
#else
constexpr const char* kPartName = "liblathe_parquet.so";
#endif
constexpr std::string_view kStopped = "stopped";  // what the part says if the sink needs no more

/// The part's functions.
struct Part {
  LatheParquetChosen rows;
  LatheParquetEntry entry;
};

Part open_part() {
  const std::string named = environment("LATHE_PARQUET");
  const std::vector<std::string> places = named.empty() ? part_places(kPartName) : std::vector{named};
  std::string why;
  for (const std::string& place : places) {
    if (!real_file_system().exists(place)) {
      why += fmt::format("\n  {}: not there", place);
      continue;
    }
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      void* const rows = dlsym(handle, "lathe_parquet_chosen");
      void* const entry = dlsym(handle, "lathe_parquet_entry");
      if (rows != nullptr && entry != nullptr)
        return {reinterpret_cast<LatheParquetChosen>(rows), reinterpret_cast<LatheParquetEntry>(entry)};
      fail(ErrorCode::kUnsupported,
           "{} is of another version of Lathe than this program: install both together", place);
    }
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

const Part& the_part() {
  static const Part part = open_part();
  return part;
}

/// What a function of the part gives to a sink.  read: (part, sink, context, error, error_bytes) -> 0 or 1.
template <typename Read>
std::string text_of(const std::string& path, Read read) {
  if (!real_file_system().exists(path))
    fail(ErrorCode::kNotFound, "{}: there is no such file; check the path", path);
  if (real_file_system().is_special(path))
    fail(ErrorCode::kIo, "{}: found a pipe or a device, expected a file: copy it to one", path);
  struct Rows {
    std::string text;
    const uint64_t limit;
  } rows{{}, unpacked_limit(std::filesystem::file_size(path), kDataFileBytes)};
  const auto sink = [](void* context, const char* bytes, size_t count) {
    auto& all = *static_cast<Rows*>(context);
    if (count > all.limit - all.text.size()) return 1;
    all.text.append(bytes, count);
    return 0;
  };
  char error[500] = "";
  const bool failed = read(the_part(), sink, &rows, error, sizeof error) != 0;
  if (failed && std::string_view(error) == kStopped)
    fail(ErrorCode::kInvalidData,
         "{}: its rows are more than {} bytes as text; split the file, or give it as csv or json", path,
         rows.limit);
  if (failed)
    fail(ErrorCode::kInvalidData, "{}: cannot be read as Parquet: {}; fetch or save the file again", path,
         error);
  return std::move(rows.text);
}

}  // namespace

bool is_parquet(std::string_view path) { return path.ends_with(".parquet"); }

std::string parquet_rows(const std::string& path, ParquetColumnWanted wanted) {
  const auto ask = [](void* context, const char* name, int nested) {
    return static_cast<int>((*static_cast<ParquetColumnWanted*>(context))(name, nested != 0));
  };
  return text_of(path,
                 [&](const Part& part, auto... to) { return part.rows(path.c_str(), ask, &wanted, to...); });
}

std::set<std::string> parquet_class_labels(const std::string& path) {
  const std::string entry = text_of(
      path, [&](const Part& part, auto... to) { return part.entry(path.c_str(), "huggingface", to...); });
  const nlohmann::json json = json_or_nothing(entry).value_or(nullptr);
  const nlohmann::json::json_pointer features("/info/features");
  std::set<std::string> names;
  if (!json.contains(features) || !json[features].is_object()) return names;
  for (const auto& [name, feature] : json[features].items())
    if (feature.is_object() && feature.contains("_type") && feature["_type"] == "ClassLabel")
      names.insert(name);
  return names;
}

Status parquet_status() {
  try {
    the_part();
    return {};
  } catch (const Error& missing) {
    return {missing.code(), missing.what()};
  }
}

}  // namespace lathe
