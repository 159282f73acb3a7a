#pragma once
#include <functional>
#include <string>
#include <vector>

#include "lathe/app/bench/bench_report.h"
#include "lathe/program/backend.h"

namespace lathe {

/// For a device: how many cases of its ops are within their bounds of the reference, and the first cases that
/// are not.
struct OpsVerdict {
  int passed = 0, failed = 0;
  std::vector<std::string> failures;  ///< ten at most: "linear matmul [33, 65, 17] bf16: output 0[367] is …"
};
OpsVerdict check_ops(Backend& backend);

/// How far a device's training is from the reference's.
struct TraceVerdict {
  int updates = 0;
  double loss = 0;       ///< largest difference of a loss
  double grad_norm = 0;  ///< largest difference of a gradient norm, as a share of it
  bool good = false;     ///< within 5e-6 and 1e-5, the bounds of the stored traces of PyTorch's Trainer
};
/// Does the same updates of a small BERT on made questions, fp32, with dropout, on the device and on the
/// reference, which computes in double precision.
TraceVerdict check_training(Backend& backend, int updates);

/// `lathe doctor --self-test`: ops, training and speed of a device, given by its kind or "auto".  `say` gets
/// each line as it is known, `show` the tables.  Returns whether all is right.  Errors: as open_device.
bool check_device(const std::string& device, const std::function<void(const std::string&)>& say,
                  const std::function<void(const BenchReport&)>& show);

}  // namespace lathe
