#include "lathe/core/run_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr size_t kFewest = 32;  // characters: 128 bits where they are hexadecimal digits
constexpr size_t kMost = 4096;
constexpr const char* kHowToMakeOne = "`openssl rand -hex 32` makes one";

std::string checked(const std::string& secret, const std::string& where) {
  if (secret.size() >= kFewest && secret.size() <= kMost) return secret;
  fail(ErrorCode::kUsage, "{}: found a secret of {} characters, expected {} to {}; {}", where, secret.size(),
       kFewest, kMost, kHowToMakeOne);
}

std::string read_secret(const std::string& path) {
  const std::string where = fmt::format("{} {}", kRunSecretFile, path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {}; {}", where, std::strerror(errno),
         kHowToMakeOne);
  struct stat found = {};
  std::array<char, kMost + 2> text;
  const bool known = fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  const ssize_t bytes = known ? read(fd, text.data(), text.size()) : -1;
  close(fd);
  if (bytes < 0) fail(ErrorCode::kIo, "{}: cannot be read, expected a file", where);
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if ((found.st_mode & kOthers) != 0)
    fail(ErrorCode::kUsage, "{}: found mode {:o}, expected 600, as others must not read it; `chmod 600 {}`",
         where, found.st_mode & (kOthers | S_IRWXU), path);
  if (found.st_uid != geteuid() && found.st_uid != 0)
    fail(ErrorCode::kUsage, "{}: found a file of user {}, expected one of your own", where, found.st_uid);
  std::string secret(text.data(), static_cast<size_t>(bytes));
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  return checked(secret, where);
}

}  // namespace

void fill_random(std::span<std::byte> bytes) {
  constexpr size_t kAtOnce = 256;  // getentropy's limit
  for (size_t at = 0; at < bytes.size(); at += kAtOnce)
    if (getentropy(bytes.data() + at, std::min(kAtOnce, bytes.size() - at)) != 0)
      fail(ErrorCode::kIo, "the system gives no random bytes: {}", std::strerror(errno));
}

std::string new_run_secret() {
  std::array<std::byte, 32> bytes;
  fill_random(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::string run_secret(const std::function<const char*(const char* name)>& environment) {
  const auto text = [&](const char* name) {
    const char* found = environment(name);
    return std::string(found == nullptr ? "" : found);
  };
  if (const std::string secret = text(kRunSecret); !secret.empty()) return checked(secret, kRunSecret);
  const std::string path = text(kRunSecretFile);
  return path.empty() ? "" : read_secret(path);
}

}  // namespace lathe
