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

constexpr const char* kNamed = "LATHE_MLX_MODULE";

/// Only the named file, if one is named.
std::vector<std::string> candidates() {
  const std::string named = environment(kNamed);
  return named.empty() ? part_places(kFile) : std::vector{named};
}

std::string absence() {
  const std::string named = environment(kNamed);
  if (named.empty()) return "not built: `make MLX=1` builds lathe_mlx.so (needs MLX)";
  return fmt::format("{}: found '{}', which does not exist, expected the path of a lathe_mlx.so", kNamed,
                     named);
}

/// What to do where the loader gave this reason.
const char* way_out(const std::string& reason) {
  if (reason.find("3mlx4core") != std::string::npos)  // a symbol of MLX
    return "it is built for another version of MLX than the libmlx found here: build it anew with `make "
           "MLX=1`, or reinstall Lathe";
  return "MLX needs macOS 14 or later, or glibc 2.35";
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
  if (place == places.end()) return {nullptr, {false, false, absence()}};
  Loaded loaded{nullptr, {true, false, ""}};
  void* handle = dlopen(place->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* told = dlerror();
    const std::string reason = told == nullptr ? "no reason given" : told;
    loaded.presence.detail = fmt::format("{} does not load ({}); {}", *place, reason, way_out(reason));
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
