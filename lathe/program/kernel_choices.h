#pragma once
#include <map>
#include <mutex>
#include <string>

#include "lathe/program/kernel_verdicts.h"

namespace lathe {

/// Of a device's implementations that have to prove themselves (Impl::key), those that this process uses: the
/// ones of the run that goes on, since others would change its last bits; else those with a good verdict.
/// Any thread may call.
class KernelChoices {
 public:
  /// setting: as for KernelVerdicts::use.
  KernelChoices(KernelVerdicts verdicts, std::string setting)
      : verdicts_(std::move(verdicts)), setting_(std::move(setting)) {}

  /// The device has an implementation of this key.
  void offer(const std::string& key);
  /// Of one that was offered.
  bool use(const std::string& key) const;

  /// For Backend::tuning; empty if nothing was offered.
  std::string text() const;
  /// For Backend::adopt_tuning.  Leaves aside what is of other devices, and of keys that were not offered;
  /// where there is a setting, all of it.  Errors: throws kInvalidData if the text is broken.
  void adopt(const std::string& text);

 private:
  const KernelVerdicts verdicts_;
  const std::string setting_;
  mutable std::mutex mutex_;
  std::map<std::string, bool> used_;
};

}  // namespace lathe
