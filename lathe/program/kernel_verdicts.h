#pragma once
#include <map>
#include <string>

namespace lathe {

/// What `lathe doctor --self-test` found about an implementation that is used only if it has proven itself
/// (Impl::key), compared with the parts that are used without it.
struct KernelVerdict {
  bool right = false;  ///< all cases within the op's bound
  double us = 0;       ///< microseconds of one call
  double parts_us = 0;

  bool good() const { return right && us < parts_us; }
};

/// The verdicts of this user's machine, by key; a file of lines "right|wrong\tus\tparts_us\tkey".
class KernelVerdicts {
 public:
  static constexpr const char* kFile = "metal_kernels.txt";  ///< for cache_path

  /// Other lines are ignored; the kernels that they were about are tested again.
  static KernelVerdicts parse(const std::string& text);
  std::string text() const;

  void set(const std::string& key, const KernelVerdict& verdict) { verdicts_[key] = verdict; }
  bool has(const std::string& key) const { return verdicts_.contains(key); }
  /// Whether to use the implementation.  setting "all" or "none" decides by itself; else the verdict does,
  /// and without a verdict it is not used.
  bool use(const std::string& key, const std::string& setting) const;

 private:
  std::map<std::string, KernelVerdict> verdicts_;
};

/// The variable that holds the setting.
constexpr const char* kKernelSetting = "LATHE_MPS_KERNELS";
/// Its value: "all", "none", or empty if it is not set.  Errors: throws kUsage for any other.
std::string kernel_setting();

}  // namespace lathe
