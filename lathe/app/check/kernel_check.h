#pragma once
#include <functional>
#include <string>

#include "lathe/program/backend.h"
#include "lathe/program/kernel_verdicts.h"

namespace lathe {

/// Tries an implementation: all cases of the op against the reference, and its time, in bf16 at BERT-base's
/// width, compared with its replacement on the same device: for a fused op its parts, for any other op
/// another implementation. fault: the first case that is not right, if there is one.
KernelVerdict try_kernel(Backend& backend, const OpDef& op, const Impl& impl, int64_t tokens,
                         std::string* fault);

constexpr int64_t kTrialTokens = 32 * 128;

/// Tries every implementation of a device that must be proved (Impl::key), writes a line about each, and adds
/// the verdicts to those in the file at `path`.
void check_kernels(Backend& backend, const std::string& path,
                   const std::function<void(const std::string&)>& say, int64_t tokens = kTrialTokens);

}  // namespace lathe
