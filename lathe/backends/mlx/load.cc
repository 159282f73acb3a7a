// Finds and loads the module.  Part of every program; all other sources of this folder make up the module.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/backends/mlx/module.h"
#include "lathe/core/environment.h"
#include "lathe/core/program_path.h"

namespace lathe::mlx {
namespace {

constexpr const char* kFile = "lathe_mlx.so";

/// LATHE_MLX_MODULE alone if it is set.
std::vector<std::string> candidates() {
  const std::string named = environment("LATHE_MLX_MODULE");
  return named.empty() ? part_places(kFile) : std::vector{named};
}

struct Loaded {
  const Module* module = nullptr;
  Presence presence;
};

Loaded load() {
  const std::vector<std::string> places = candidates();
  std::error_code error;
  const auto place = std::ranges::find_if(
      places, [&](const std::string& path) { return std::filesystem::exists(path, error); });
  if (place == places.end())
    return {nullptr, {false, false, "not built: `make MLX=1` builds lathe_mlx.so (needs MLX)"}};
  Loaded loaded{nullptr, {true, false, ""}};
  void* handle = dlopen(place->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    loaded.presence.detail = fmt::format("{} does not load ({}); MLX wants macOS 14 or later, or glibc 2.35",
                                         *place, why == nullptr ? "no reason given" : why);
    return loaded;
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntry));
  if (entry == nullptr) {
    loaded.presence.detail =
        *place + " is of another build of Lathe than this program; build or install both anew";
    return loaded;
  }
  loaded.module = entry();
  loaded.presence.available = loaded.module->available(&loaded.presence.detail);
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

bool is_set(const char* variable) { return environment(variable) == "1"; }

}  // namespace

Presence presence() { return loaded().presence; }

std::unique_ptr<Backend> make_mlx_backend(std::shared_ptr<Backend> (*fallback)(),
                                          std::shared_ptr<ProcessGroup> group, Warn warn) {
  const Loaded& l = loaded();
  if (!l.presence.available) fail(ErrorCode::kNotFound, "{}: {}", kKind, l.presence.detail);
  const bool falls_back = is_set("LATHE_MPS_FALLBACK") || is_set("PYTORCH_ENABLE_MPS_FALLBACK");
  return l.module->make(falls_back ? fallback() : nullptr, std::move(group), std::move(warn)).value();
}

size_t live_bytes() { return loaded().presence.available ? loaded().module->live_bytes() : 0; }
size_t peak_bytes() { return loaded().presence.available ? loaded().module->peak_bytes() : 0; }
size_t compiled_functions() {
  return loaded().presence.available ? loaded().module->compiled_functions() : 0;
}

}  // namespace lathe::mlx
