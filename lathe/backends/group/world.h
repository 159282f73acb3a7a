#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lathe::group {

/// This process among those that a launcher has started, and the address where rank 0 waits for the others.
struct World {
  int rank = 0, size = 1, local_rank = 0;
  int local_size = 1;   ///< ranks of this machine; 1 where that is unknown
  std::string address;  ///< of rank 0's machine
  int port = 0;
  std::string run;          ///< what the launcher calls this run; empty where it has no name for it
  std::string secret = {};  ///< of the run (run_secret.h); empty where it was given none
};

/// An environment variable; null where it is not set.
using Environment = std::function<const char*(const char* name)>;

/// What the launcher's variables say; empty where there are none or the world has one process.  In this
/// order: RANK, WORLD_SIZE, LOCAL_RANK (torchrun, lathe launch), OMPI_COMM_WORLD_* (mpirun of Open MPI),
/// SLURM_* (srun).  If all ranks are on this machine they meet on its loopback, 127.0.0.1; so they do under
/// the name localhost.  Otherwise they meet at MASTER_ADDR or, if it is not set, at the first node of the
/// job's list. MASTER_PORT is used wherever it is set; else the port follows from the numbers of the job and
/// the step. A run's name is TORCHELASTIC_RUN_ID, PMIX_NAMESPACE (Open MPI), or the job and the step.
/// Errors: kUsage for values that are no numbers or do not fit, and where MASTER_ADDR is needed but not set;
/// those of run_secret. Source: docs of torchrun, Open MPI ("Environment variables"), srun ("OUTPUT
/// ENVIRONMENT VARIABLES").
std::optional<World> world(const Environment& environment);

/// The first name of a list as Slurm writes it: "gpu[03-05,9],login" → "gpu03".
std::string first_node(const std::string& list);

}  // namespace lathe::group
