#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lathe/core/error.h"
#include "lathe/data/table.h"

namespace {

/// A file that is written anew for each input; in memory where the system has such a folder.
std::string input_path() {
  const char* const folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  return std::string(folder) + "/lathe_parquet_fuzz_" + std::to_string(getpid()) + ".parquet";
}

const std::string& path() {
  static const std::string made = [] {
    std::atexit([] { std::remove(path().c_str()); });
    return input_path();
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::FILE* file = std::fopen(path().c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size) std::abort();
  std::fclose(file);
  try {
    const lathe::Table table = lathe::read_table(path());
    for (const lathe::Column& column : table.columns)
      if (column.values.size() != table.rows()) std::abort();
  } catch (const lathe::Error& error) {  // what bad input ends in
    if (error.code() != lathe::ErrorCode::kUnsupported) return 0;
    std::fprintf(stderr, "nothing to fuzz: %s\n", error.what());
    std::_Exit(0);
  }
  return 0;
}
