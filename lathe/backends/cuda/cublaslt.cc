#include "lathe/backends/cuda/cublaslt.h"

#include <dlfcn.h>

#include <optional>
#include <string>

namespace lathe::cuda {
namespace {

/// The soname of the major version whose header this was built with, found as any library is, then where
/// NVIDIA's installers put it.
std::string soname() { return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR); }

std::optional<CublasLt> open() {
  void* library = nullptr;
  for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/lib/x86_64-linux-gnu/",
                             "/usr/lib/aarch64-linux-gnu/", "/opt/cuda/lib64/"})
    if (library == nullptr) library = dlopen((folder + soname()).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  CublasLt found;
  bool all = true;
#define LT_F(name)                                                                       \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, "cublasLt" #name)); \
  all = all && found.name != nullptr;
  LT_CUBLASLT_FUNCTIONS(LT_F)
#undef LT_F
  if (!all) return {};
  return found;
}

}  // namespace

const CublasLt* cublaslt() {
  static const std::optional<CublasLt> library = open();
  return library ? &*library : nullptr;
}

const char* why_no_cublaslt() {
  static const std::string text =
      soname() + " is not found; install NVIDIA's cuBLAS (Debian, Ubuntu: libcublas-" +
      std::to_string(CUBLAS_VER_MAJOR) + "-0) or name its folder in LD_LIBRARY_PATH";
  return text.c_str();
}

}  // namespace lathe::cuda
