#pragma once
#include <functional>
#include <string>

#include "lathe/program/backend.h"
#include "lathe/program/kernel_verdicts.h"

namespace lathe {

/// Tries an implementation: all cases of the op against the reference, and its time, in bf16 at BERT-base's
/// width, beside that of what stands for it on the same device: the parts of a fused op, another
/// implementation of any other.
/// fault: the first case that is not right, if one is not.
KernelVerdict try_kernel(Backend& backend, const OpDef& op, const Impl& impl, int64_t tokens,
                         std::string* fault);

constexpr int64_t kTrialTokens = 32 * 128;

/// Tries every implementation of a device that has to prove itself (Impl::key), says a line of each, and
/// keeps the verdicts in the file at `path`, with those that are there.
void check_kernels(Backend& backend, const std::string& path,
                   const std::function<void(const std::string&)>& say, int64_t tokens = kTrialTokens);

}  // namespace lathe
