#include "lathe/backends/cuda/device.h"

#include <gtest/gtest.h>

namespace lathe::cuda {
namespace {

TEST(CudaStatus, IsNotReportedByTheNextLaunchAgain) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  const Status status = status_of(cudaSetDevice(devices), "choosing the GPU");
  EXPECT_NE(status.message().find("cuda: choosing the GPU: "), std::string::npos);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

}  // namespace
}  // namespace lathe::cuda
