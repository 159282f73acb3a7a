#include "lathe/backends/group/world.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "lathe/core/error.h"
#include "lathe/core/run_secret.h"

namespace lathe::group {
namespace {

constexpr int kDefaultPort = 29500;  // torchrun's
constexpr int kLastPort = 65535;     // of TCP

/// Names of one launcher's variables.
struct Launcher {
  const char *rank, *size, *local_rank;
  const char *nodes, *local_size;  ///< how many machines, or how many ranks on this one; null: unknown
  const char *node_list, *job;
  const char* step;  ///< of the job: several may run at once
  const char* run;   ///< its name; null: that is the job and the step
};

constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", nullptr, "LOCAL_WORLD_SIZE", nullptr, nullptr, nullptr,
     "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", nullptr,
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, nullptr, nullptr, "PMIX_NAMESPACE"},
    // SLURM_NTASKS is also set in a batch script, which is one process; the step's number of tasks is not.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES", nullptr,
     "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID", nullptr}};

std::optional<int> number(const Environment& environment, const char* name) {
  const char* text = name == nullptr ? nullptr : environment(name);
  if (text == nullptr || *text == '\0') return {};
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < 0)
    fail(ErrorCode::kUsage, "{}: found {}, expected a whole number of at least 0", name, text);
  return value;
}

int local_size(const Environment& environment, const Launcher& launcher, int size) {
  if (number(environment, launcher.nodes) == 1) return size;
  return std::max(1, number(environment, launcher.local_size).value_or(1));
}

std::string address_of_rank_0(const Environment& environment, const Launcher& launcher, int size) {
  const char* const given = environment("MASTER_ADDR");
  const bool is_given = given != nullptr && *given != '\0';
  if (local_size(environment, launcher, size) == size || (is_given && std::string_view(given) == "localhost"))
    return "127.0.0.1";
  if (is_given) return given;
  const char* list = launcher.node_list == nullptr ? nullptr : environment(launcher.node_list);
  if (list != nullptr && *list != '\0') return first_node(list);
  fail(ErrorCode::kUsage,
       "{} says that there are {} processes: MASTER_ADDR, the address of rank 0, is missing", launcher.size,
       size);
}

/// torchrun's own store holds MASTER_PORT where it says so: then the next one is ours.
int port(const Environment& environment, const Launcher& launcher) {
  const char* held = environment("TORCHELASTIC_USE_AGENT_STORE");
  const int next = held != nullptr && std::string_view(held) == "True" ? 1 : 0;
  if (const auto given = number(environment, "MASTER_PORT")) {
    if (*given < 1 || *given > kLastPort - next)
      fail(ErrorCode::kUsage, "MASTER_PORT: found {}, expected 1 to {}", *given, kLastPort - next);
    return *given + next;
  }
  const auto job = number(environment, launcher.job);
  if (!job) return kDefaultPort;
  // Jobs of one machine must not meet, and steps of one job must not either; neighbours of both get distant
  // ports.
  constexpr int kFirst = 15000, kPorts = 10000, kBetweenSteps = 1009;
  const char* step = launcher.step == nullptr ? nullptr : environment(launcher.step);
  const uint64_t number_of_step = step == nullptr ? 0 : std::strtoull(step, nullptr, 10);
  return kFirst + static_cast<int>((static_cast<uint64_t>(*job) + number_of_step * kBetweenSteps) % kPorts);
}

std::string run_name(const Environment& environment, const Launcher& launcher) {
  const auto text = [&](const char* name) {
    const char* found = name == nullptr ? nullptr : environment(name);
    return std::string(found == nullptr ? "" : found);
  };
  if (launcher.run != nullptr) return text(launcher.run);
  const std::string job = text(launcher.job);
  return job.empty() ? "" : job + "." + text(launcher.step);
}

}  // namespace

std::optional<World> world(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = number(environment, launcher.rank), size = number(environment, launcher.size);
    if (!rank || !size) continue;
    if (*size < 1 || *rank >= *size)
      fail(ErrorCode::kUsage, "found {}={}, {}={}, expected a rank below the number of processes",
           launcher.rank, *rank, launcher.size, *size);
    if (*size == 1) return {};
    World found;
    found.rank = *rank;
    found.size = *size;
    found.local_rank = number(environment, launcher.local_rank).value_or(*rank);
    found.local_size = local_size(environment, launcher, *size);
    found.address = address_of_rank_0(environment, launcher, *size);
    found.port = port(environment, launcher);
    found.run = run_name(environment, launcher);
    found.secret = run_secret(environment);
    return found;
  }
  return {};
}

std::string first_node(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  std::string name = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',') return name;
  return name + list.substr(end + 1, list.find_first_of(",-]", end + 1) - end - 1);
}

}  // namespace lathe::group
