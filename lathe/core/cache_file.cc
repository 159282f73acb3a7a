#include "lathe/core/cache_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lathe {

std::string cache_path(const std::string& name) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0')
    folder = cache;
  else if (home != nullptr && *home != '\0')
    folder = std::filesystem::path(home) / ".cache";
  return folder.empty() ? "" : (folder / "lathe" / name).string();
}

std::string read_cache(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

void write_cache(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string temporary = path + ".tmp-" + std::to_string(getpid());
  const bool written = [&] {
    std::ofstream file(temporary);
    file << text;
    file.close();
    return file.good();
  }();
  if (written) std::filesystem::rename(temporary, path, error);
  if (!written || error) std::filesystem::remove(temporary, error);
}

}  // namespace lathe
