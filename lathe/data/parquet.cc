#include "lathe/data/parquet.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <exception>
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

using parquet_detail::Part;
using parquet_detail::the_part;

namespace {

#ifdef __APPLE__
constexpr const char* kPartName = "liblathe_parquet.dylib";
#else
constexpr const char* kPartName = "liblathe_parquet.so";
#endif

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
      Part part;
      const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
        return function != nullptr;
      };
      if (find(part.rows, "lathe_parquet_chosen") && find(part.entry, "lathe_parquet_entry") &&
          find(part.count, "lathe_parquet_count") && find(part.create, "lathe_parquet_create") &&
          find(part.append, "lathe_parquet_append") && find(part.finish, "lathe_parquet_finish") &&
          find(part.free, "lathe_parquet_free"))
        return part;
      fail(ErrorCode::kUnsupported,
           "{} is of another version of Lathe than this program: install both together", place);
    }
    const char* text = dlerror();
    why += fmt::format("\n  {}: {}", place, text == nullptr ? "cannot be opened" : text);
  }
  fail(ErrorCode::kUnsupported,
       "reading Parquet needs the part {} and Apache Arrow: `make parquet` in the folder of Lathe's sources "
       "brings both in under a minute; where Lathe is a wheel, installing it again does. Or give the data "
       "as csv, tsv, json or jsonl.\nLooked at:{}",
       kPartName, why);
}

void check_is_file(const std::string& path) {
  if (!real_file_system().exists(path))
    fail(ErrorCode::kNotFound, "{}: there is no such file; check the path", path);
  if (real_file_system().is_special(path))
    fail(ErrorCode::kIo, "{}: found a pipe or a device, expected a file: copy it to one", path);
}

/// Calls a function of the part.  work: (part, error, error_bytes) -> 0 or 1.
template <typename Work>
void ask_part(const std::string& path, Work work) {
  check_is_file(path);
  char error[500] = "";
  if (work(the_part(), error, sizeof error) != 0)
    fail(ErrorCode::kInvalidData, "{}: cannot be read as Parquet: {}; fetch or save the file again", path,
         error);
}

/// Gives to `take` what a function of the part gives to a sink.  read: (part, sink, context, error,
/// error_bytes) -> 0 or 1.
template <typename Read>
void give_pieces(const std::string& path, const std::function<void(std::string_view)>& take, Read read) {
  struct Taker {
    const std::function<void(std::string_view)>& take;
    std::exception_ptr thrown;  // C code is not to be left by an exception
  } taker{take, {}};
  const auto sink = [](void* context, const char* bytes, size_t count) {
    auto& to = *static_cast<Taker*>(context);
    try {
      to.take({bytes, count});
      return 0;
    } catch (...) {
      to.thrown = std::current_exception();
      return 1;
    }
  };
  ask_part(path, [&](const Part& part, char* error, size_t error_bytes) {
    const int failed = read(part, sink, &taker, error, error_bytes);
    if (taker.thrown) std::rethrow_exception(taker.thrown);
    return failed;
  });
}

/// All of it.
template <typename Read>
std::string text_of(const std::string& path, Read read) {
  check_is_file(path);
  std::string text;
  const uint64_t limit = unpacked_limit(std::filesystem::file_size(path), kDataFileBytes);
  const auto add = [&](std::string_view piece) {
    if (piece.size() > limit - text.size())
      fail(ErrorCode::kInvalidData,
           "{}: its rows are more than {} bytes as text; split the file, or give it as csv or json", path,
           limit);
    text += piece;
  };
  give_pieces(path, add, read);
  return text;
}

/// What the part asks about each column; the context is a ParquetColumnWanted.
int ask_column(void* context, const char* name, int nested) {
  return static_cast<int>((*static_cast<ParquetColumnWanted*>(context))(name, nested != 0));
}

}  // namespace

const Part& parquet_detail::the_part() {
  static const Part part = open_part();
  return part;
}

bool is_parquet(std::string_view path) { return path.ends_with(".parquet"); }

std::string parquet_rows(const std::string& path, ParquetColumnWanted wanted) {
  return text_of(path, [&](const Part& part, auto... to) {
    return part.rows(path.c_str(), ask_column, &wanted, to...);
  });
}

void for_each_parquet_piece(const std::string& path, ParquetColumnWanted wanted,
                            const std::function<void(std::string_view rows)>& take) {
  give_pieces(path, take, [&](const Part& part, auto... to) {
    return part.rows(path.c_str(), ask_column, &wanted, to...);
  });
}

uint64_t parquet_row_count(const std::string& path) {
  int64_t rows = 0;
  ask_part(path, [&](const Part& part, auto... to) { return part.count(path.c_str(), &rows, to...); });
  return static_cast<uint64_t>(rows);
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
