#pragma once
// Helpers of this folder's tests.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/error_testing.h"
#include "lathe/core/source_folder_testing.h"

namespace lathe {

using Values = std::vector<std::string>;

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// $LATHE_DATA_DIR, else ../shared/data next to the repository.
inline std::string test_data_dir() {
  const char* set = std::getenv("LATHE_DATA_DIR");
  return set != nullptr ? set : source_path("../shared/data");
}

inline bool test_data_has(const std::string& path) {
  return std::filesystem::exists(test_data_dir() + "/" + path);
}

#define LATHE_NEEDS_DATA(path) \
  if (!test_data_has(path)) GTEST_SKIP() << "needs " << path << " below LATHE_DATA_DIR"

class Fnv64 {
 public:
  void add(std::span<const int32_t> values) {
    for (const int32_t v : values)
      for (int shift = 0; shift < 32; shift += 8)
        hash_ = (hash_ ^ (static_cast<uint32_t>(v) >> shift & 0xFF)) * 0x100000001B3u;
  }
  std::string hex() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash_));
    return text;
  }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

inline std::string fnv64(std::span<const int32_t> values) {
  Fnv64 hash;
  hash.add(values);
  return hash.hex();
}

/// The generator of tools/make_data_goldens.py.
inline std::vector<int32_t> pseudo(size_t count, uint32_t modulus, uint64_t seed) {
  std::vector<int32_t> out;
  for (uint64_t state = seed; out.size() < count;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out.push_back(static_cast<int32_t>((state >> 33) % modulus));
  }
  return out;
}

}  // namespace lathe
