#pragma once
#include <vector>

namespace lathe {

/// File descriptors held in reserve for a checkpoint, in case there are no others.
class DescriptorReserve {
 public:
  /// An upper bound of those open at the same time while a checkpoint is written: a file, a folder that is
  /// synced, one that is listed.
  static constexpr int kCount = 4;

  DescriptorReserve() = default;
  ~DescriptorReserve() { release(); }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;

  /// Takes kCount of them, or as many as are left.  Returns whether it holds all.
  bool take();
  /// Gives them back, for what is opened next.
  void release();

 private:
  std::vector<int> held_;
};

}  // namespace lathe
