#include "lathe/app/check/doctor.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <thread>

#include "lathe/core/cgroups.h"
#include "lathe/core/cpu_limits.h"
#include "lathe/core/host_memory.h"
#include "lathe/data/parquet.h"
#include "lathe/io/file_system.h"
#include "lathe/io/hub/http.h"
#include "lathe/io/hub/hub_cache.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace lathe {
namespace {

constexpr double kGiB = 1073741824.0;
// BERT-base: weights, gradients and AdamW's state take 1.7 GiB, a checkpoint 1.3 GiB.
constexpr double kEnoughMemory = 4 * kGiB, kEnoughDisk = 5 * kGiB;

std::string gib(uint64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / kGiB); }

class Report {
 public:
  void good(const std::string& fact) { result_.lines.push_back("[GOOD] " + fact); }
  void unneeded(const std::string& fact, const std::string& note) {
    result_.lines.push_back(fmt::format("[ -- ] {}: {}", fact, note));
  }
  void bad(const std::string& fact, const std::string& remedy) {
    result_.lines.push_back(fmt::format("[BAD]  {}: {}", fact, remedy));
  }
  void fatal(const std::string& fact, const std::string& remedy) {
    bad(fact, remedy);
    result_.exit_code = 1;
  }
  DoctorReport take() { return std::move(result_); }

 private:
  DoctorReport result_;
};

void judge_platform(const MachineFacts& f, Report& report) {
  const std::string fact = fmt::format("platform {} {} {}", f.system, f.release, f.machine);
  const bool linux_ok = f.system == "Linux" && (f.machine == "x86_64" || f.machine == "aarch64");
  if (linux_ok || (f.system == "Darwin" && f.machine == "arm64")) return report.good(fact);
  report.bad(fact, "Lathe is tested on Linux (x86_64, aarch64) and made for macOS (arm64); expect trouble");
}

/// MLX's builds are for macOS 14 and later, on arm64.
void judge_mac(const MachineFacts& f, Report& report) {
  if (f.system != "Darwin") return;
  if (f.translated)
    report.bad("this process is translated by Rosetta",
               "install the arm64 build; the GPU is not to be had here");
  constexpr int kFirst = 14;
  const std::string fact = "macOS " + f.macos;
  if (std::atoi(f.macos.c_str()) >= kFirst) return report.good(fact);
  report.bad(fact, fmt::format("the device mps needs macOS {}; update, or train with --device cpu", kFirst));
}

void judge_cpu(const MachineFacts& f, Report& report) {
  const std::string model = f.cpu_model.empty() ? "unknown model" : f.cpu_model;
  const std::string features =
      f.cpu_features.empty() ? "" : fmt::format(" ({})", fmt::join(f.cpu_features, " "));
  report.good(fmt::format("CPU {}{}", model, features));
  if (!f.levels) return report.fatal("instruction set", f.level_error);
  report.good(fmt::format("instruction set {}; available: {}", f.levels->chosen,
                          fmt::join(f.levels->available, ", ")));
  if (f.levels->native_bf16) return report.good("bf16 native: --bf16 is faster than fp32");
  report.unneeded(
      "bf16 emulated on the CPU",
      fmt::format("--bf16 works but gains no speed with --device cpu and {}; train there without it",
                  f.levels->chosen));
}

void judge_cores(const MachineFacts& f, Report& report) {
  std::string fact = fmt::format("{} threads by default; {} logical CPUs", f.threads, f.logical_cpus);
  if (f.cores > 0) fact += fmt::format(", {} cores allowed", f.cores);
  if (f.cpu_quota > 0 && f.cores > 0 && f.cpu_quota < f.cores) {
    return report.unneeded(
        fact, fmt::format("the container grants {:.2g} CPUs; raise its limit to use all cores", f.cpu_quota));
  }
  report.good(fact);
}

void judge_memory(const MachineFacts& f, Report& report) {
  if (!f.memory_total || !f.memory_free)
    return report.unneeded("memory", "the system does not tell; watch it yourself");
  const std::string fact = fmt::format("memory {} free of {}", gib(*f.memory_free), gib(*f.memory_total));
  if (static_cast<double>(*f.memory_free) >= kEnoughMemory) return report.good(fact);
  report.bad(fact, "BERT-base needs about 4 GiB; take a smaller model or batch, or --freeze_base_model");
}

void judge_disk(const MachineFacts& f, Report& report) {
  const std::string where = "working folder " + f.folder;
  if (f.folder.empty()) {
    report.bad("working folder: it is not there any more", "cd to one that is");
  } else if (!f.folder_writable) {
    report.bad(where + " is not writable", "pass an --output_dir that is");
  } else if (!f.folder_free) {
    report.unneeded(where, "its free space is unknown; watch it yourself");
  } else if (static_cast<double>(*f.folder_free) < kEnoughDisk) {
    report.bad(fmt::format("{}, {} free", where, gib(*f.folder_free)),
               "a BERT-base checkpoint takes 1.3 GiB; pass --save_total_limit 1, --save_only_model or "
               "another --output_dir");
  } else {
    report.good(fmt::format("{}, {} free", where, gib(*f.folder_free)));
  }
  const std::string cache = "Hugging Face cache " + f.cache;
  if (!f.cache_writable)
    return report.bad(
        fmt::format("{} {}", cache, f.cache_exists ? "is not writable" : "can be neither read nor made"),
        "to fetch models set HF_HOME to a folder that is yours");
  const std::string state = f.cache_exists ? "" : ", made when the first model is fetched";
  if (f.cache_free && static_cast<double>(*f.cache_free) < kEnoughDisk)
    return report.bad(fmt::format("{}{}, {} free", cache, state, gib(*f.cache_free)),
                      "a fetched BERT-base takes 0.5 GiB; set HF_HOME to a disk with more room");
  report.good(f.cache_free ? fmt::format("{}{}, {} free", cache, state, gib(*f.cache_free)) : cache + state);
}

void judge_devices(const MachineFacts& f, Report& report) {
  bool cpu = false, chosen = false;
  for (const auto& device : f.devices) {
    if (device.kind == "ref") continue;
    cpu = cpu || (device.kind == "cpu" && device.available);
    if (device.available) {
      report.good(fmt::format("device {}: {}{}", device.kind, device.detail,
                              chosen ? "" : "; --device auto takes it"));
      chosen = true;
    } else {
      const bool here =
          (device.kind == "cuda" && f.nvidia_gpu) || (device.kind == "mps" && f.system == "Darwin");
      const auto judge = here ? &Report::bad : &Report::unneeded;
      (report.*judge)(fmt::format("device {}", device.kind), device.detail + "; --device auto takes another");
    }
  }
  if (!cpu && f.levels)
    report.fatal("device cpu is not available", "this binary cannot train here; build it from source");
}

void judge_parts(const MachineFacts& f, Report& report) {
  const auto judge = [&](const std::vector<DeviceStatus>& parts, auto lacking) {
    for (const DeviceStatus& part : parts) {
      if (part.available)
        report.good(fmt::format("{}: {}", part.kind, part.detail));
      else
        (report.*lacking)(part.kind, part.detail);
    }
  };
  judge(f.parts, &Report::bad);
  judge(f.transports, &Report::unneeded);
}

// ---- reading the machine ----

#if defined(__APPLE__)

std::string sysctl_text(const char* name) {
  char text[256] = {};
  size_t size = sizeof text - 1;
  return sysctlbyname(name, text, &size, nullptr, 0) == 0 ? text : "";
}

void read_cpu(MachineFacts& f) {
  f.cpu_model = sysctl_text("machdep.cpu.brand_string");
  f.macos = sysctl_text("kern.osproductversion");
  int translated = 0;
  size_t size = sizeof translated;
  f.translated =
      sysctlbyname("sysctl.proc_translated", &translated, &size, nullptr, 0) == 0 && translated == 1;
}

#else

/// What stands after "name" and a colon on its line of /proc text; empty if nothing does.
std::string proc_value(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

void read_cpu(MachineFacts& f) {
  const std::string text = system_text("/proc/cpuinfo");
  f.cpu_model = proc_value(text, "model name");
  std::istringstream flags(proc_value(text, "flags") + " " + proc_value(text, "Features"));
  constexpr std::string_view kTelling[] = {
      "fma",         "avx2",     "avx_vnni", "avx512f", "avx512bw", "avx512_bf16", "avx512_vnni",
      "avx512_fp16", "amx_tile", "amx_bf16", "asimd",   "bf16",     "sve"};
  for (std::string flag; flags >> flag;) {
    if (std::find(std::begin(kTelling), std::end(kTelling), flag) != std::end(kTelling))
      f.cpu_features.push_back(flag);
  }
}

#endif

std::optional<uint64_t> free_bytes(const std::string& path) {
  auto result = real_file_system().free_bytes(path);
  return result.ok() ? std::optional<uint64_t>(result.value()) : std::nullopt;
}

/// The first line of what opening it said; `use` says what it is for.
DeviceStatus part_status(const std::string& name, const Status& status, const std::string& use) {
  const std::string why = status.message().substr(0, status.message().find('\n'));
  return {name, status.ok(), status.ok(), status.ok() ? use : why};
}

Status curl_status() {
  try {
    const HttpClient client;
    return {};
  } catch (const Error& missing) {
    return {missing.code(), missing.what()};
  }
}

std::vector<DeviceStatus> parts_here() {
  return {part_status("libcurl", curl_status(), "models and data can be fetched"),
          part_status("Parquet", parquet_status(), "data in Parquet can be read")};
}

std::vector<DeviceStatus> transports_here() {
  std::vector<DeviceStatus> found = transports();
  for (DeviceStatus& transport : found) transport.kind = "processes through " + transport.kind;
  return found;
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts f;
  utsname name = {};
  if (uname(&name) == 0) f.system = name.sysname, f.release = name.release, f.machine = name.machine;
  read_cpu(f);
  std::error_code error;
  const HostMemory memory = host_memory();
  f.memory_total = memory.total, f.memory_free = memory.free;
  try {
    f.levels = cpu_levels();
    f.devices = devices();
  } catch (const Error& e) {
    f.level_error = e.what();
  }
  f.nvidia_gpu = std::filesystem::exists("/proc/driver/nvidia/version", error);
  f.parts = parts_here();
  f.transports = transports_here();
  f.logical_cpus = static_cast<int>(std::thread::hardware_concurrency());
  f.cores = static_cast<int>(allowed_cores().size());
  f.threads = default_threads();
  f.cpu_quota = cgroup_cpus(system_text("/proc/self/cgroup"), system_text("/proc/self/mountinfo"));
  f.folder = std::filesystem::current_path(error).string();
  f.folder_writable = !f.folder.empty() && real_file_system().is_writable(f.folder);
  f.folder_free = free_bytes(f.folder);
  f.cache = hub_cache_folder();
  f.cache_exists = real_file_system().is_directory(f.cache);
  f.cache_writable = real_file_system().is_writable(f.cache);
  f.cache_free = free_bytes(f.cache);
  return f;
}

DoctorReport examine(const MachineFacts& facts) {
  Report report;
  judge_platform(facts, report);
  judge_mac(facts, report);
  judge_cpu(facts, report);
  judge_cores(facts, report);
  judge_memory(facts, report);
  judge_disk(facts, report);
  judge_devices(facts, report);
  judge_parts(facts, report);
  return report.take();
}

}  // namespace lathe
