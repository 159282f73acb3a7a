# One static library per folder. Sources, tests (*_test.cc) and fuzz targets (*_fuzz.cc) are found by name,
# so that a new file needs no edit here.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(LATHE_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_custom_target(unit_tests)   # the tests next to the code
  # The source folder's name stands in one small file of its own, so that ccache finds every test in other clones, too.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/source_folder.cc CONTENT
       "#include \"lathe/core/source_folder_testing.h\"\nconst char* lathe::source_folder() { return \"@PROJECT_SOURCE_DIR@\"; }\n" @ONLY)
  add_library(lathe_test_paths STATIC ${PROJECT_BINARY_DIR}/generated/source_folder.cc)
  target_include_directories(lathe_test_paths PRIVATE ${PROJECT_SOURCE_DIR})
endif()
# lathe_quick_to_compile(target name): without optimisation where LATHE_QUICK_TO_COMPILE lists the layer NAME. For
# sanitized builds, whose time goes into compiling what runs for an instant.
set(LATHE_QUICK_TO_COMPILE "" CACHE STRING "Layers to compile with -O0; their tests and others are, too")
set(LATHE_OPTIMISED_TESTS "" CACHE STRING "Targets of tests that are not: they run for long, or inline what does")
function(lathe_quick_to_compile target name)
  if(name IN_LIST LATHE_QUICK_TO_COMPILE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# lathe_unity(target name): files of the layer are compiled eight at a time, as one. What a build parses is above all
# headers, so that a cold one takes half the time. Ops and devices stay apart: their files are large, and the compiler's
# choices for one kernel must not hang on its neighbours.
option(LATHE_UNITY "Compile eight files at a time as one" OFF)
set(LATHE_APART ops cpu cpu_tests cuda mlx ref)
function(lathe_unity target name)
  if(LATHE_UNITY AND NOT name IN_LIST LATHE_APART)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # A type in an unnamed namespace stands in an included file there.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()
set(LATHE_UNIT_TESTS_OF "" CACHE STRING "Layers whose tests next to the code are built; empty: all")
option(LATHE_ONLY_THREADED_TESTS "Of these tests only the files with a TEST that has Thread in its name, and those of group")

if(LATHE_FUZZ)
  add_custom_target(fuzzers)
  file(WRITE ${PROJECT_BINARY_DIR}/fuzzers.txt "")
endif()

# lathe_gtest(target label): every TEST becomes a ctest of its own, so that a skipped one is reported as skipped.
function(lathe_gtest target label)
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main)
  set_target_properties(${target} PROPERTIES LATHE_OPTIMISE -O1)   # a TEST is much code that runs once
  if(LATHE_QUICK_TO_COMPILE AND NOT target IN_LIST LATHE_OPTIMISED_TESTS)
    target_compile_options(${target} PRIVATE -O0)
  endif()
  target_link_libraries(${target} PRIVATE lathe_test_paths)
  if(label MATCHES "^(slow|parity)$")   # parity: 100 updates of a real model, on the portable kernels too
    set(timeout 7200)
  else()
    set(timeout 1800)   # minutes under a sanitizer
  endif()
  gtest_discover_tests(${target} TEST_PREFIX ${label}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${label} TIMEOUT ${timeout})
endfunction()

add_library(lathe_flags INTERFACE)
set(lathe_warnings -Wall -Wextra -Werror -Wshadow -Wno-missing-field-initializers
                   # libstdc++'s own stable_sort takes what it declares deprecated
                   $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
set(lathe_optimise "$<IF:$<BOOL:$<TARGET_PROPERTY:LATHE_OPTIMISE>>,$<TARGET_PROPERTY:LATHE_OPTIMISE>,-O2>")
target_compile_options(lathe_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:${lathe_warnings};$<$<CONFIG:Release>:${lathe_optimise};-g1>>>")
target_compile_features(lathe_flags INTERFACE cxx_std_20)
target_include_directories(lathe_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# lathe_static_library(VAR name): the archive if LATHE_STATIC and it exists, else the shared library, as a target
# lathe_third_party::name.  The installed package looks for the same library where it is used (lathe-config.cmake.in).
function(lathe_static_library var name)
  if(LATHE_STATIC)
    find_library(LATHE_LIBRARY_${name} NAMES lib${name}.a ${name} REQUIRED)
  else()
    find_library(LATHE_LIBRARY_${name} NAMES ${name} REQUIRED)
  endif()
  mark_as_advanced(LATHE_LIBRARY_${name})
  if(NOT TARGET lathe_third_party::${name})
    add_library(lathe_third_party::${name} UNKNOWN IMPORTED)
    set_target_properties(lathe_third_party::${name} PROPERTIES IMPORTED_LOCATION "${LATHE_LIBRARY_${name}}")
    set_property(GLOBAL APPEND PROPERTY LATHE_THIRD_PARTY ${name})
  endif()
  set(${var} lathe_third_party::${name} PARENT_SCOPE)
endfunction()

function(lathe_layer name)
  cmake_parse_arguments(L "" "FOLDER" "SEES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${L_FOLDER}/*.cc)
  if(name STREQUAL "backends")   # the folders inside are layers of their own
    list(FILTER sources EXCLUDE REGEX "/lathe/backends/[a-z]+/")
  endif()
  if(name STREQUAL "cuda")   # without nvcc: only what says that the device is not there
    if(LATHE_CUDA)
      file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${L_FOLDER}/kernels/*.cu)
      list(APPEND sources ${kernels})
      list(FILTER sources EXCLUDE REGEX "/not_built\\.cc$")
    else()
      set(sources ${L_FOLDER}/not_built.cc)
    endif()
  endif()
  if(name STREQUAL "mlx")   # what finds and loads the module; cmake/mlx.cmake builds that
    list(FILTER sources INCLUDE REGEX "/load\\.cc$")
  endif()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fuzz ${sources})
  list(FILTER fuzz INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|_main|_part)\\.cc$")
  add_library(lathe_${name} STATIC ${sources})
  add_library(lathe::${name} ALIAS lathe_${name})
  set_property(GLOBAL APPEND PROPERTY LATHE_LAYERS ${name})
  target_link_libraries(lathe_${name} PUBLIC lathe_flags)
  lathe_quick_to_compile(lathe_${name} ${name})
  lathe_unity(lathe_${name} ${name})
  foreach(dep ${L_SEES})
    target_link_libraries(lathe_${name} PUBLIC lathe_${dep})
  endforeach()
  if(EXISTS ${PROJECT_SOURCE_DIR}/${L_FOLDER}/libraries.cmake)
    include(${PROJECT_SOURCE_DIR}/${L_FOLDER}/libraries.cmake)   # third-party libraries of this folder
  endif()
  if(LATHE_UNIT_TESTS_OF AND NOT name IN_LIST LATHE_UNIT_TESTS_OF)
    set(tests)
  endif()
  if(LATHE_ONLY_THREADED_TESTS AND NOT name STREQUAL "group")   # whose tests are threads that talk
    foreach(test ${tests})
      file(STRINGS ${test} threaded REGEX "^TEST.*Thread")
      if(NOT threaded)
        list(REMOVE_ITEM tests ${test})
      endif()
    endforeach()
  endif()
  if(LATHE_TESTS AND tests)
    add_executable(test_${name} ${tests})
    target_link_libraries(test_${name} PRIVATE lathe_${name})
    lathe_unity(test_${name} ${name}_tests)
    lathe_gtest(test_${name} unit)
    add_dependencies(unit_tests test_${name})
  endif()
  if(LATHE_FUZZ)
    foreach(source ${fuzz})
      get_filename_component(stem ${source} NAME_WE)
      add_executable(${stem} ${source})
      target_compile_options(${stem} PRIVATE -fsanitize=fuzzer)
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
      target_link_libraries(${stem} PRIVATE lathe_${name})
      add_dependencies(fuzzers ${stem})
      file(APPEND ${PROJECT_BINARY_DIR}/fuzzers.txt "${stem}\n")
    endforeach()
  endif()
endfunction()
