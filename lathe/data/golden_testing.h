#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/core/source_folder_testing.h"

namespace lathe {

/// tests/golden/data/<name>, all of it or what stands under a key.  By value, so that a range-for keeps it.
inline nlohmann::json golden(const std::string& name, const char* key = nullptr) {
  std::ifstream in(source_path("tests/golden/data/") + name);
  nlohmann::json whole = nlohmann::json::parse(in);
  return key == nullptr ? whole : whole[key];
}

}  // namespace lathe
