#include "lathe/backends/cuda/cuda_impl.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "lathe/program/program.h"

namespace lathe::cuda {
namespace {

/// Implementations of a chain of nodes, a letter each: N, E: late as a whole, in its end; q: a queue of its
/// own; any other: in its turn.
class Chain {
 public:
  explicit Chain(std::string_view nodes) {
    impls_['N'].entry.late_outputs = 0b10;
    impls_['N'].entry.late = Late::kNode;
    impls_['E'].entry.late_outputs = 0b110;
    impls_['E'].entry.late = Late::kEnd;
    impls_['q'].entry.own_queue = true;
    for (const char node : nodes) selection_.push_back(&impls_.at(static_cast<size_t>(node)));
  }
  InUse of(int node) const { return in_use(node, {}, selection_); }

 private:
  std::array<CudaImpl, 128> impls_;
  Selection selection_;
};

TEST(CudaInUse, ALateNodeKeepsAllItsMemoryUntilTheSecondOneOfItsKindBegins) {
  const InUse use = Chain(".N..N.N..N").of(1);
  EXPECT_EQ(use.first, 1);
  EXPECT_EQ(use.last, 5);  // the node before the second one
  EXPECT_TRUE(use.inputs);
  EXPECT_EQ(use.outputs, ~0u);
}

TEST(CudaInUse, ALateEndKeepsTheWorkspaceAndLateOutputsOnly) {
  const InUse use = Chain("E.EE").of(0);
  EXPECT_EQ(use.first, 0);
  EXPECT_EQ(use.last, 2);
  EXPECT_FALSE(use.inputs);
  EXPECT_EQ(use.outputs, 0b110u);
}

TEST(CudaInUse, NodesOfOtherKindsDoNotCount) {
  EXPECT_EQ(Chain("NEEqEN.N").of(0).last, 6);
  EXPECT_EQ(Chain("ENNqNE.E").of(0).last, 6);
}

TEST(CudaInUse, WithoutTwoLaterOnesOfItsKindItIsTheWholeRun) {
  EXPECT_EQ(Chain("N....").of(0).last, 5);
  EXPECT_EQ(Chain("..N.N").of(2).last, 5);
  EXPECT_EQ(Chain("E.E.N").of(2).last, 5);
}

TEST(CudaInUse, AQueueOfItsOwnKeepsEverythingToTheEnd) {
  const InUse use = Chain(".qqqNN").of(1);
  EXPECT_EQ(use.first, 1);
  EXPECT_EQ(use.last, 6);
  EXPECT_TRUE(use.inputs);
  EXPECT_EQ(use.outputs, ~0u);
}

}  // namespace
}  // namespace lathe::cuda
