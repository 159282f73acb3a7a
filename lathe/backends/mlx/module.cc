// The module's entry.
#include "lathe/backends/mlx/module.h"

#include "lathe/backends/mlx/compiled.h"
#include "lathe/backends/mlx/mlx_device.h"

namespace lathe::mlx {
namespace {

bool available(std::string* detail) {
  try {
    return describe(detail);
  } catch (const std::exception& error) {
    *detail = fmt::format("MLX does not start: {}", error.what());
    return false;
  }
}

Result<std::unique_ptr<Backend>> make(std::shared_ptr<Backend> fallback, std::shared_ptr<ProcessGroup> group,
                                      Warn warn) {
  try {
    return make_device(std::move(fallback), std::move(group), std::move(warn));
  } catch (const Error& error) {
    return Status(error.code(), error.what());
  } catch (const std::exception& error) {
    return Status(ErrorCode::kInternal, error.what());
  }
}

}  // namespace
}  // namespace lathe::mlx

extern "C" __attribute__((visibility("default"))) const lathe::mlx::Module* LATHE_MLX_ENTRY() {
  static const lathe::mlx::Module module{lathe::mlx::available, lathe::mlx::make, lathe::mlx::live_bytes,
                                         lathe::mlx::peak_bytes, lathe::mlx::Compiled::held};
  return &module;
}
