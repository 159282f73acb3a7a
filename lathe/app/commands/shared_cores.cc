#include "lathe/app/commands/shared_cores.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "lathe/core/cpu_limits.h"

namespace lathe {
namespace {

/// The same text in all processes that run on the same cores.
std::string where(const std::vector<int>& cores) {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  std::string text = host.data();
  for (const int core : cores) text += fmt::format(" {}", core);
  return text;
}

}  // namespace

int share_cores(ProcessGroup& group) {
  const std::vector<int> cores = compute_cores();
  const int threads = default_threads();
  const std::string mine = where(cores);
  const auto all = group.all_gather(std::as_bytes(std::span(mine))).value();
  size_t sharers = 0, before = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string theirs(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (theirs != mine) continue;
    if (rank < static_cast<size_t>(group.rank())) ++before;
    ++sharers;
  }
  if (sharers > 1 && !cores.empty()) {
    const size_t begin = before * cores.size() / sharers;
    const size_t end = std::max(begin + 1, (before + 1) * cores.size() / sharers);
    restrict_to_cpus({cores.begin() + static_cast<long>(begin), cores.begin() + static_cast<long>(end)});
  }
  return std::max(1, threads / static_cast<int>(sharers));
}

}  // namespace lathe
