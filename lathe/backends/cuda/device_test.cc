#include "lathe/backends/cuda/device.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace lathe::cuda {
namespace {

TEST(CudaStatus, IsNotReportedByTheNextLaunchAgain) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  const Status status = status_of(cudaSetDevice(devices), "choosing the GPU");
  EXPECT_NE(status.message().find("cuda: choosing the GPU: "), std::string::npos);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(CudaDevice, AGpuThatIsTooOldIsNamed) {
  cudaDeviceProp gpu{};
  std::snprintf(gpu.name, sizeof(gpu.name), "Tesla T4");
  gpu.major = 7, gpu.minor = 5;
  EXPECT_EQ(why_too_old(gpu), "the GPU, Tesla T4, has compute capability 7.5, expected 8.0 or higher");
  gpu.major = 8, gpu.minor = 0;
  EXPECT_EQ(why_too_old(gpu), "");
}

}  // namespace
}  // namespace lathe::cuda
