// Finds and loads the module.  Part of every program; all other sources of this folder make up the module.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "lathe/backends/mlx/mlx_backend.h"
#include "lathe/backends/mlx/module.h"
#include "lathe/core/version.h"

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

namespace lathe::mlx {
namespace {

constexpr const char* kFile = "lathe_mlx.so";

/// The folder in which the running program lies; empty if the system does not tell.
std::filesystem::path program_folder() {
#if defined(__APPLE__)
  char path[4096];
  uint32_t size = sizeof path;
  if (_NSGetExecutablePath(path, &size) != 0) return {};
#else
  const char* path = "/proc/self/exe";
#endif
  std::error_code error;
  return std::filesystem::canonical(path, error).parent_path();
}

/// LATHE_MLX_MODULE alone if it is set; else beside the program, where tests lie, and where it is installed.
std::vector<std::filesystem::path> candidates() {
  if (const char* named = std::getenv("LATHE_MLX_MODULE")) return {named};
  const std::filesystem::path folder = program_folder();
  return {folder / kFile, folder / ".." / kFile, folder / ".." / "lib" / "lathe" / kFile};
}

struct Loaded {
  const Module* module = nullptr;
  Presence presence;
};

Loaded load() {
  std::error_code error;
  std::filesystem::path file;
  for (const std::filesystem::path& path : candidates())
    if (std::filesystem::exists(path, error)) {
      file = path;
      break;
    }
  if (file.empty())
    return {nullptr, {false, false, "not built: `make MLX=1` builds lathe_mlx.so (needs MLX)"}};
  Loaded loaded{nullptr, {true, false, ""}};
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    loaded.presence.detail = fmt::format("{} does not load ({}); MLX wants macOS 14 or later, or glibc 2.35",
                                         file.string(), why == nullptr ? "no reason given" : why);
    return loaded;
  }
  const auto entry = reinterpret_cast<ModuleEntry>(dlsym(handle, kModuleEntry));
  const Module* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || std::string(module->version) != kVersion) {
    loaded.presence.detail = file.string() + " is of another version of Lathe; build or install both anew";
    return loaded;
  }
  loaded.module = module;
  loaded.presence.available = module->available(&loaded.presence.detail);
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string(value) == "1";
}

}  // namespace

Presence presence() { return loaded().presence; }

std::unique_ptr<Backend> make_mlx_backend(std::shared_ptr<Backend> (*fallback)(), Warn warn) {
  const Loaded& l = loaded();
  if (!l.presence.available) fail(ErrorCode::kNotFound, "{}: {}", kKind, l.presence.detail);
  const bool falls_back = is_set("LATHE_MPS_FALLBACK") || is_set("PYTORCH_ENABLE_MPS_FALLBACK");
  return l.module->make(falls_back ? fallback() : nullptr, std::move(warn)).value();
}

size_t live_bytes() { return loaded().presence.available ? loaded().module->live_bytes() : 0; }
size_t peak_bytes() { return loaded().presence.available ? loaded().module->peak_bytes() : 0; }

}  // namespace lathe::mlx
