#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe {

/// For tests: a file that tools/make_io_goldens.py made.
inline std::string testdata(std::string_view name) {
  return source_path("lathe/io/testdata/") + std::string(name);
}

/// For tests: the folder of a real model, which may not be there: $LATHE_MODEL_DIR/<name>, else
/// build/models/<name>, where tools/fetch_test_model.sh puts it.
inline std::string test_model_folder(std::string_view name) {
  const char* folder = std::getenv("LATHE_MODEL_DIR");
  return std::string(folder == nullptr ? source_path("build/models") : folder) + "/" + std::string(name);
}

/// For tests: the message of the Error of that code that `f` throws; "" if it throws none.
template <typename F>
std::string error_of(F&& f, ErrorCode wanted) {
  try {
    f();
  } catch (const Error& error) {
    return error.code() == wanted ? error.what() : std::string("another code: ") + error.what();
  }
  return "";
}

}  // namespace lathe
