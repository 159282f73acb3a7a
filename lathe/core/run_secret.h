#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace lathe {

/// The environment variable with the secret that the ranks of one run share: `lathe launch` gives it to those
/// that it starts, users to others.
constexpr const char* kRunSecret = "LATHE_RUN_SECRET";
/// And the one that names a file with it.
constexpr const char* kRunSecretFile = "LATHE_RUN_SECRET_FILE";

/// Fills it with the system's random bytes, which nobody can predict.  Errors: kIo.
void fill_random(std::span<std::byte> bytes);

/// 32 random bytes as 64 hexadecimal digits.  Errors: kIo.
std::string new_run_secret();

/// The secret that kRunSecret holds, or else the file that kRunSecretFile names, without the end of its line;
/// empty where neither is set.  `environment` gives a variable, null where it is not set.  No message shows
/// the secret.  Errors: kUsage if it has fewer than 32 characters, or if anyone but the file's owner, who
/// must be this user or root, may read the file; kNotFound, kIo.
std::string run_secret(const std::function<const char*(const char* name)>& environment);

}  // namespace lathe
