# The device mps as a module, lathe_mlx.so next to the programs. They load it if it is there and start without it.
# MLX: that of build/venv-mlx (tools/setup.sh --mlx), of Homebrew, or under CMAKE_PREFIX_PATH.
find_package(MLX CONFIG HINTS ${mlx_wheel})
if(NOT MLX_FOUND)
  message(FATAL_ERROR "MLX is not found. tools/setup.sh --mlx installs it.")
endif()
file(GLOB sources CONFIGURE_DEPENDS lathe/backends/mlx/*.cc)
list(FILTER sources EXCLUDE REGEX "/load\\.cc$")
add_library(lathe_mlx_module MODULE ${sources})
set_target_properties(lathe_mlx_module PROPERTIES OUTPUT_NAME lathe_mlx PREFIX "" SUFFIX .so
                      CXX_VISIBILITY_PRESET hidden)
target_include_directories(lathe_mlx_module SYSTEM PRIVATE ${MLX_INCLUDE_DIRS})
target_link_libraries(lathe_mlx_module PRIVATE lathe_ops mlx)
target_include_directories(lathe_mlx_module PRIVATE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(lathe_mlx_module lathe_mlx_entry)   # lathe/backends/mlx/libraries.cmake
if(APPLE)
  # The wheel's package names frameworks by the place of Xcode where MLX was built; the module calls none of them.
  set_target_properties(mlx PROPERTIES INTERFACE_LINK_LIBRARIES "")
  target_compile_options(lathe_mlx_module PRIVATE -mmacosx-version-min=14.0)   # MLX's own; the programs start below
  target_link_options(lathe_mlx_module PRIVATE -mmacosx-version-min=14.0)
endif()
set_target_properties(lathe_mlx_module PROPERTIES INSTALL_RPATH "${lathe_own_folder};${MLX_LIBRARY_DIRS}")
option(LATHE_MLX_COVERAGE "Count which lines of that module run (tools/coverage.sh)" OFF)
if(LATHE_MLX_COVERAGE)
  set(count_lines -O0 --coverage -fprofile-update=atomic)
  target_compile_options(lathe_mlx_module PRIVATE ${count_lines})
  target_link_options(lathe_mlx_module PRIVATE --coverage)
endif()
install(TARGETS lathe_mlx_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lathe COMPONENT wheel_parts)

# For tests: runs the texts of own Metal kernels, as MLX writes them, on a CPU.
if(LATHE_TESTS)
  add_executable(metal_simulator tests/metal/simulator_main.cc tests/metal/simulated_device.cc
                                 lathe/backends/mlx/metal_kernels.cc lathe/backends/mlx/metal_attention.cc
                                 lathe/backends/mlx/metal_launch.cc lathe/backends/mlx/lowering.cc)
  target_include_directories(metal_simulator SYSTEM PRIVATE ${MLX_INCLUDE_DIRS})
  target_link_libraries(metal_simulator PRIVATE lathe_backends mlx)
  if(LATHE_MLX_COVERAGE)
    target_compile_options(metal_simulator PRIVATE ${count_lines})
    target_link_options(metal_simulator PRIVATE --coverage)
  endif()
endif()
