#pragma once
#include <map>
#include <mutex>
#include <string>

#include "lathe/program/kernel_verdicts.h"

namespace lathe {

/// Which of a device's implementations that have to prove themselves (Impl::key) this process uses.  A
/// resumed run uses those of its checkpoint, because others would change its last bits; else those with a
/// good verdict are used.  Any thread may call.
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
  /// For Backend::adopt_tuning.  Ignores what is of other devices, and keys that were not offered; with a
  /// setting, all of it.  Errors: throws kInvalidData if the text is broken.
  void adopt(const std::string& text);

 private:
  const KernelVerdicts verdicts_;
  const std::string setting_;
  mutable std::mutex mutex_;
  std::map<std::string, bool> used_;
};

}  // namespace lathe
