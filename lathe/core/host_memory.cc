#include "lathe/core/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

#include "lathe/core/cgroups.h"

#if defined(__APPLE__)
#include <mach/mach.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <unistd.h>
#endif

namespace lathe {
namespace {

/// Line "NAME NUMBER …" of a text.
std::optional<uint64_t> line_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  std::string word, rest;
  for (uint64_t number = 0; lines >> word; std::getline(lines, rest))
    if (word == name && lines >> number) return number;
  return {};
}

/// Line "NAME NUMBER kB" of a text, in bytes.
std::optional<uint64_t> bytes_of(const std::string& text, const std::string& name) {
  const auto kib = line_of(text, name);
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

/// A file that holds a number, and not "max".
std::optional<uint64_t> number_in(const std::string& path) {
  const std::string text = system_text(path);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// The smaller one, of those that are known.
std::optional<uint64_t> least(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

/// Of a - b what is left.
uint64_t left(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/// What one cgroup grants; empty where it sets no limit.  Source: the kernel's admin-guide, cgroup-v2.rst and
/// cgroup-v1/memory.rst.
struct Cgroup {
  std::optional<uint64_t> limit, room;
  std::optional<uint64_t> swap;           ///< of the second version
  std::optional<uint64_t> room_and_swap;  ///< of the first

  explicit Cgroup(const CgroupFolder& folder) {
    const auto number = [&](const char* v2, const char* v1) {
      return number_in(folder.path + "/memory." + (folder.v2 ? v2 : v1));
    };
    // What is used counts pages of files, which the system takes back when others are wanted.
    const std::string stat = system_text(folder.path + "/memory.stat"), total = folder.v2 ? "" : "total_";
    const uint64_t files =
        line_of(stat, total + "active_file").value_or(0) + line_of(stat, total + "inactive_file").value_or(0);
    const auto used = number("current", "usage_in_bytes");
    if (used) limit = number("max", "limit_in_bytes");
    // Beyond that the system slows its processes down until they hardly move.
    if (used && folder.v2) limit = least(limit, number_in(folder.path + "/memory.high"));
    if (limit) room = left(*limit, left(*used, files));
    const auto more = number("swap.max", "memsw.limit_in_bytes");
    const auto more_used = number("swap.current", "memsw.usage_in_bytes");
    if (!more || !more_used) return;
    if (folder.v2)
      swap = left(*more, *more_used);
    else
      room_and_swap = left(*more, left(*more_used, files));
  }
};

}  // namespace

HostMemory host_memory(const std::string& meminfo, const std::string& cgroups, const std::string& mounts,
                       const std::string& root) {
  HostMemory memory;
  memory.total = bytes_of(meminfo, "MemTotal:");
  memory.free = bytes_of(meminfo, "MemAvailable:");
  std::optional<uint64_t> swap = bytes_of(meminfo, "SwapFree:").value_or(0), room_and_swap;
  for (const CgroupFolder& folder : cgroup_folders("memory", cgroups, mounts, root)) {
    const Cgroup cgroup(folder);
    memory.total = least(memory.total, cgroup.limit);
    memory.free = least(memory.free, cgroup.room);
    swap = least(swap, cgroup.swap);
    room_and_swap = least(room_and_swap, cgroup.room_and_swap);
  }
  if (memory.free) memory.reachable = least(*memory.free + *swap, room_and_swap);
  return memory;
}

#if defined(__APPLE__)

HostMemory host_memory() {
  HostMemory memory;
  uint64_t total = 0;
  size_t size = sizeof total;
  if (sysctlbyname("hw.memsize", &total, &size, nullptr, 0) == 0) memory.total = total;
  vm_statistics64_data_t pages = {};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) ==
      KERN_SUCCESS)
    memory.free = (uint64_t{pages.free_count} + pages.inactive_count) * static_cast<uint64_t>(getpagesize());
  memory.reachable = memory.total;
  return memory;
}

std::optional<uint64_t> peak_resident_bytes() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  return static_cast<uint64_t>(usage.ru_maxrss);
}

void reset_peak_resident() {}

std::optional<uint64_t> resident_bytes() {
  mach_task_basic_info info = {};
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info), &count) !=
      KERN_SUCCESS)
    return {};
  return info.resident_size;
}

#else

HostMemory host_memory() {
  return host_memory(system_text("/proc/meminfo"), system_text("/proc/self/cgroup"),
                     system_text("/proc/self/mountinfo"));
}

// Not getrusage: its value begins with what the process was that called exec.
std::optional<uint64_t> peak_resident_bytes() { return bytes_of(system_text("/proc/self/status"), "VmHWM:"); }

void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::optional<uint64_t> resident_bytes() { return bytes_of(system_text("/proc/self/status"), "VmRSS:"); }

#endif

}  // namespace lathe
