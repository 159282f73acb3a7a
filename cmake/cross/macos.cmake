# Toolchain: for Macs with Apple silicon from Linux, by tools/cross_macos.sh. Zig's clang with its libc++ and headers of
# macOS; headers of libraries are those of this machine's packages, linked to below LATHE_CROSS_ROOT, and what a Mac brings
# as a library is a list of names in stubs/.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
include(${CMAKE_CURRENT_LIST_DIR}/zig.cmake)
set(CMAKE_OSX_SYSROOT "")
set(CMAKE_OSX_ARCHITECTURES "")
set(CMAKE_INSTALL_NAME_TOOL ${CMAKE_CURRENT_LIST_DIR}/zig-clang++)   # asked for, not used: nothing is installed
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_PROJECT_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/macos_rpath.cmake)
# What libc++ says of the first macOS that has a part of it, which Zig turns off; and Zig's checks of -O0.
set(CMAKE_CXX_FLAGS_INIT "-U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS -D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1 -fno-sanitize=undefined")
