#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/io/json_file.h"

namespace {

template <typename T>
void get(const nlohmann::json& config, const char* key) {
  try {
    (void)lathe::value_or<T>(config, key, T{}, "config.json");
    (void)lathe::required<T>(config, key, "config.json");
  } catch (const lathe::Error&) {
  }
}

}  // namespace

/// Any text: refused with an Error, or its keys can be asked for as any type.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    (void)lathe::parse_json(text, "config.json", {.duplicate_keys = false});
  } catch (const lathe::Error&) {
  }
  try {
    const nlohmann::json config = lathe::parse_json(text, "config.json");
    for (const char* key : {"hidden_size", "layer_norm_eps", "architectures", "id2label"}) {
      get<bool>(config, key);
      get<int>(config, key);
      get<int64_t>(config, key);
      get<double>(config, key);
      get<float>(config, key);
      get<std::string>(config, key);
      get<std::vector<int64_t>>(config, key);
      get<std::vector<double>>(config, key);
      get<std::vector<std::string>>(config, key);
      get<nlohmann::json>(config, key);
    }
  } catch (const lathe::Error&) {
  }
  return 0;
}
