# nvcc and the CUDA runtime.  The runtime is linked in; the driver and cuBLASLt are looked up when the program runs, so
# that one binary starts on machines without a GPU.
set(LATHE_CUDA_ARCHITECTURES "80-real;90a-real;100" CACHE STRING "GPU architectures, as CMAKE_CUDA_ARCHITECTURES")
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${LATHE_CUDA_ARCHITECTURES})
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${lathe_ccache} ${CCACHE})
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)   # CMake 3.25.1 does not know it of nvcc
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)
