// lathe-ops test|grad|perf|support [-o op] [-b backend] [-c case]: every op and implementation against the
// reference.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "lathe/app/terminal/terminal.h"
#include "lathe/backends/conformance.h"
#include "lathe/backends/register.h"

namespace {

constexpr const char* kUsage =
    "usage: lathe-ops test|grad|perf|support [-o op] [-b backend] [-c case]\n"
    "  test     every implementation of the backend (default cpu) against the reference\n"
    "  grad     every gradient rule against finite differences of the reference\n"
    "  perf     time of every implementation on every case\n"
    "  support  which backend has which implementations of which op\n"
    "exit codes: 0 all passed, 1 some failed, 2 usage\n";

struct Options {
  std::string mode, backend = "cpu";
  lathe::ConformanceFilter filter;
};

Options parse(int argc, char** argv) {
  using lathe::ErrorCode;
  if (argc < 2) lathe::fail(ErrorCode::kUsage, "{}", kUsage);
  Options options;
  options.mode = argv[1];
  if (options.mode == "--help") return options;
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    std::string* target = flag == "-o"   ? &options.filter.op
                          : flag == "-b" ? &options.backend
                          : flag == "-c" ? &options.filter.case_name
                                         : nullptr;
    if (target == nullptr) lathe::fail(ErrorCode::kUsage, "lathe-ops: unknown flag {}\n{}", flag, kUsage);
    if (i + 1 == argc) lathe::fail(ErrorCode::kUsage, "lathe-ops: {} needs a value", flag);
    *target = argv[i + 1];
  }
  return options;
}

int run(const Options& options) {
  using namespace lathe;
  int passed = 0, failed = 0;
  const auto report = [&](const ConformanceResult& result) {
    ++(result.passed ? passed : failed);
    if (!result.passed || options.mode == "perf")
      fmt::print("{} {}: {}\n", result.passed ? "      " : "FAILED", result.id, result.detail);
  };
  if (options.mode == "--help") {
    fmt::print("{}", kUsage);
    return 0;
  }
  if (options.mode == "support") {
    const auto reference = open_device("ref"), device = open_device(options.backend);
    fmt::print("{}", support_table({reference.get(), device.get()}));
    return 0;
  }
  if (options.mode == "grad") {
    conformance_grad(options.filter, report);
  } else if (options.mode == "test") {
    conformance_test(*open_device(options.backend), options.filter, report);
  } else if (options.mode == "perf") {
    conformance_perf(*open_device(options.backend), options.filter, report);
  } else {
    fail(ErrorCode::kUsage, "lathe-ops: unknown mode {}\n{}", options.mode, kUsage);
  }
  if (passed + failed == 0)
    fail(ErrorCode::kUsage, "lathe-ops: found no case for -o '{}' -c '{}'; `lathe-ops support` lists the ops",
         options.filter.op, options.filter.case_name);
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const lathe::Error& error) {
    lathe::print_error(fmt::format("{}\n", error.what()));
    return lathe::exit_code(error.code());
  } catch (const std::exception& error) {
    lathe::print_error(fmt::format("{}\n", error.what()));
    return 1;
  }
}
