#pragma once
#include <vector>

namespace lathe {

/// File descriptors held for the time when there are no others: what a checkpoint opens.
class DescriptorReserve {
 public:
  /// As many as are open at once while a checkpoint is written, amply: a file, a folder that is synced, one
  /// that is listed.
  static constexpr int kCount = 4;

  DescriptorReserve() = default;
  ~DescriptorReserve() { release(); }
  DescriptorReserve(const DescriptorReserve&) = delete;
  DescriptorReserve& operator=(const DescriptorReserve&) = delete;

  /// Holds kCount of them, or as many as there are.  Whether it holds all.
  bool take();
  /// Gives them back, for what is opened next.
  void release();

 private:
  std::vector<int> held_;
};

}  // namespace lathe
