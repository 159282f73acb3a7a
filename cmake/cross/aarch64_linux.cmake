# Toolchain: for 64-bit ARM and Linux from x86-64 with the compiler of macos.cmake, by tools/test_arm.sh: what a Mac's
# compiler and C++ library make of Lathe, in programs that an emulator runs. LATHE_CROSS_ROOT: Debian's arm64 packages; of
# them the libraries in C, and headers.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu.2.36)   # Debian 12's glibc
# Headers that macros name, not CMake; and Zig's checks of -O0.
set(CMAKE_CXX_FLAGS_INIT "-isystem ${LATHE_CROSS_ROOT}/usr/include -isystem ${LATHE_CROSS_ROOT}/usr/include/aarch64-linux-gnu -fno-sanitize=undefined")
