# Every lathe/app/NAME_main.cc becomes a program of its own.
file(GLOB mains CONFIGURE_DEPENDS lathe/app/*_main.cc)
foreach(source ${mains})
  get_filename_component(stem ${source} NAME_WE)
  string(REPLACE "_main" "" stem ${stem})
  string(REPLACE "_" "-" stem ${stem})
  add_executable(program_${stem} ${source})
  set_target_properties(program_${stem} PROPERTIES OUTPUT_NAME ${stem})
  target_link_libraries(program_${stem} PRIVATE lathe_app)
  if(LATHE_STATIC AND NOT APPLE)
    target_link_options(program_${stem} PRIVATE -static-libstdc++ -static-libgcc)
    if(NOT LATHE_CUDA)   # drops libstdc++'s random_device: it needs glibc 2.36, the rest 2.35, which Ubuntu 22.04 has
      target_link_options(program_${stem} PRIVATE -Wl,--gc-sections)
    endif()
  endif()
endforeach()

# tests/LABEL/*_test.cc are one program, test_LABEL; they and tests/LABEL/NAME_test.py carry the name of their folder as
# ctest label.
if(LATHE_TESTS)
  function(lathe_suite target label library)   # then its sources
    add_executable(${target} ${ARGN})
    target_link_libraries(${target} PRIVATE ${library})
    lathe_unity(${target} ${target})
    lathe_gtest(${target} ${label})
  endfunction()
  file(GLOB conformance CONFIGURE_DEPENDS tests/conformance/*_test.cc)
  list(FILTER conformance EXCLUDE REGEX "/allocation_test\\.cc$")   # it has an operator new of its own
  lathe_suite(test_conformance conformance lathe_app ${conformance})
  lathe_suite(allocation_test conformance lathe_app tests/conformance/allocation_test.cc)
  file(GLOB parity CONFIGURE_DEPENDS tests/parity/*_test.cc)
  lathe_suite(test_parity parity lathe_app ${parity})
  if(NOT LATHE_UNIT_TESTS_OF)   # whole trainings of tiny models: built and run with the tests next to the code
    file(GLOB trainings CONFIGURE_DEPENDS tests/train/*_test.cc)
    lathe_suite(test_training unit lathe_api ${trainings})
    add_dependencies(unit_tests test_training)
  endif()

  # Seconds of those that take long: begun first, so that none is left over at the end for one core.
  set(long_ones bench_test 98 mlx_test 65 sharded_states_test 51 install_test 49 resume_test 45 deb_test 42 metal_kernels_test 41
                python_test 30 hub_test 29 mpi_test 28 several_processes_test 28 two_hosts_test 23 limits_test 21 tarball_test 15)
  file(GLOB scripts CONFIGURE_DEPENDS tests/*/*_test.py tools/*_test.py)
  foreach(source ${scripts})
    get_filename_component(stem ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(label ${folder} NAME)
    if(label STREQUAL "tools")
      set(label unit)
    endif()
    if(label STREQUAL "slow")
      set(timeout 7200)
    else()
      set(timeout 600)
    endif()
    add_test(NAME ${label}.${stem} COMMAND ${PROJECT_SOURCE_DIR}/tools/python.sh ${source})
    set_tests_properties(${label}.${stem} PROPERTIES LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77
                         ENVIRONMENT "LATHE_BINARY_DIR=${PROJECT_BINARY_DIR}")
    list(FIND long_ones ${stem} at)
    if(at GREATER -1)
      math(EXPR at "${at} + 1")
      list(GET long_ones ${at} seconds)
      set_tests_properties(${label}.${stem} PROPERTIES COST ${seconds})
    endif()
  endforeach()
endif()

# bench/NAME_bench.cc: built by name (ninja NAME_bench), not by `all`.
file(GLOB benches CONFIGURE_DEPENDS bench/*_bench.cc)
foreach(source ${benches})
  get_filename_component(stem ${source} NAME_WE)
  add_executable(${stem} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${stem} PRIVATE lathe_app)
endforeach()

# bench/cuda_timeline.cc: loaded by the CUDA driver into a program that is watched; built by name, where CUPTI is.
if(LATHE_CUDA AND TARGET CUDA::cupti)
  add_library(cuda_timeline MODULE EXCLUDE_FROM_ALL bench/cuda_timeline.cc)
  target_link_libraries(cuda_timeline PRIVATE CUDA::cupti)
endif()
