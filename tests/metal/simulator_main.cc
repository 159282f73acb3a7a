// metal_simulator texts FOLDER: writes every text that Metal would be given by the cases of the ops, a file
// each. metal_simulator test LIBRARY ORDER [DTYPE [OP [CASE]]]: runs these cases by the kernels in a library
// (kernel_library.py), threadgroups and lanes in order 0 or 1, against the reference; prints what fails and a
// count.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "lathe/backends/conformance.h"
#include "tests/metal/simulated_device.h"

namespace lathe::metal {
namespace {

int write_texts(const std::filesystem::path& folder) {
  std::set<std::string> names;
  const auto device = make_simulated_device(nullptr, 0, [&](const KernelLaunch& launch) {
    if (names.insert(launch.name).second) std::ofstream(folder / (launch.name + ".metal")) << launch.source;
  });
  for (const mlx::OwnKernel& kernel : mlx::own_kernels())
    conformance_test(*device, {kernel.entry.op->name, ""}, [](const ConformanceResult&) {});
  fmt::print("{} texts\n", names.size());
  return names.empty() ? 1 : 0;
}

int test(const char* library, int order, const std::string& dtype, const std::string& op,
         const std::string& case_name) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const auto simulate =
      handle == nullptr ? nullptr : reinterpret_cast<Simulate>(dlsym(handle, "lathe_simulate"));
  if (simulate == nullptr) {
    fmt::print(stderr, "{}\n", dlerror());
    return 2;
  }
  const auto device = make_simulated_device(simulate, order, nullptr);
  int passed = 0;
  struct Failed {};
  try {
    for (const mlx::OwnKernel& kernel : mlx::own_kernels()) {
      if (!op.empty() && op != kernel.entry.op->name) continue;
      conformance_test(*device, {kernel.entry.op->name, case_name, dtype},
                       [&](const ConformanceResult& result) {
                         if (result.id.starts_with(kernel.entry.op->name + std::string(" - ")))
                           return;  // it takes no such node
                         if (!result.passed) {
                           fmt::print("{}: {}\n", result.id, result.detail);
                           throw Failed();
                         }
                         ++passed;
                       });
    }
  } catch (const Failed&) {
    return 1;
  }
  fmt::print("{} passed\n", passed);
  return passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace lathe::metal

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "texts") == 0) return lathe::metal::write_texts(argv[2]);
  if (argc >= 4 && std::strcmp(argv[1], "test") == 0)
    return lathe::metal::test(argv[2], std::atoi(argv[3]), argc > 4 ? argv[4] : "", argc > 5 ? argv[5] : "",
                              argc > 6 ? argv[6] : "");
  fmt::print(stderr, "usage: metal_simulator texts FOLDER | test LIBRARY ORDER [DTYPE [OP [CASE]]]\n");
  return 2;
}
