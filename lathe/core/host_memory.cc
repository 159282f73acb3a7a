#include "lathe/core/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__APPLE__)
#include <mach/mach.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <unistd.h>
#endif

namespace lathe {

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
  return memory;
}

std::optional<uint64_t> peak_resident_bytes() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  return static_cast<uint64_t>(usage.ru_maxrss);
}

#else

HostMemory host_memory() {
  HostMemory memory;
  std::ifstream meminfo("/proc/meminfo");  // lines "MemTotal:  24576000 kB"
  std::string name, unit;
  for (uint64_t kib = 0; meminfo >> name >> kib && std::getline(meminfo, unit);) {
    if (name == "MemTotal:") memory.total = kib * 1024;
    if (name == "MemAvailable:") memory.free = kib * 1024;
  }
  // A container's own limit, where its cgroup folder is what it sees as the root.
  std::ifstream limit("/sys/fs/cgroup/memory.max"), used("/sys/fs/cgroup/memory.current");
  uint64_t most = 0, now = 0;
  if (!(limit >> most) || !(used >> now)) return memory;
  memory.total = std::min(memory.total.value_or(most), most);
  memory.free = std::min(memory.free.value_or(most), most > now ? most - now : 0);
  return memory;
}

// Not getrusage: its value begins with what the process was that called exec.
std::optional<uint64_t> peak_resident_bytes() {
  std::ifstream status("/proc/self/status");  // a line "VmHWM:    123456 kB"
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoull(line.substr(6)) * 1024;
  return {};
}

#endif

}  // namespace lathe
