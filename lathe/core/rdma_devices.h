#pragma once

namespace lathe {

/// The variable by which `lathe launch --hostfile` tells all ranks, and they the transport jaccl, the RDMA
/// devices that lead from each rank to each other: JSON, a list for each rank of a name for each other rank
/// and null for itself, as MLX's hostfile has them under "rdma".
constexpr const char* kRdmaDevices = "LATHE_JACCL_DEVICES";

}  // namespace lathe
