#pragma once
#include <optional>

#include "lathe/backends/cpu/blas.h"
#include "lathe/core/environment.h"
#include "lathe/core/error.h"

namespace lathe::cpu {

inline constexpr const char* kNoBlas =
    "no BLAS library on this machine (Debian, Ubuntu: libopenblas0-pthread; or LATHE_TEST_BLAS names its "
    "file)";

/// A BLAS library for tests, as LATHE_BLAS takes it; empty: there is none.
inline std::string blas_file() {
  for (const std::string& file : {environment("LATHE_TEST_BLAS"), system_blas(),
                                  std::string("libopenblas.so.0"), std::string("libblas.so.3")})
    if (!file.empty()) try {
        open_blas(file);
        return file;
      } catch (const Error&) {  // the next one
      }
  return {};
}

inline std::optional<Blas> blas_of_machine() {
  const std::string file = blas_file();
  return file.empty() ? std::nullopt : std::optional(open_blas(file));
}

}  // namespace lathe::cpu
