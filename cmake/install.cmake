# cmake --install: the programs, and the library as find_package(lathe) with the target lathe::lathe.
include(CMakePackageConfigHelpers)

add_library(lathe_lathe INTERFACE)
add_library(lathe::lathe ALIAS lathe_lathe)
set_target_properties(lathe_lathe PROPERTIES EXPORT_NAME lathe)
target_link_libraries(lathe_lathe INTERFACE lathe_api)

set(lathe_installed lathe_flags lathe_lathe)
foreach(layer core program ops nn optim io tokenizers data models train group ref cpu cuda mlx backends api)
  set_target_properties(lathe_${layer} PROPERTIES EXPORT_NAME ${layer})
  list(APPEND lathe_installed lathe_${layer})
endforeach()
install(TARGETS ${lathe_installed} EXPORT lathe-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lathe)
install(EXPORT lathe-targets NAMESPACE lathe:: DESTINATION ${package_dir})

# Public headers: neither the command line, nor the inside of a device, nor what only tests use.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lathe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "ops/list.inc"
        PATTERN "lathe/app" EXCLUDE PATTERN "backends/cpu" EXCLUDE PATTERN "backends/cuda" EXCLUDE PATTERN "backends/mlx" EXCLUDE PATTERN "backends/ref" EXCLUDE
        PATTERN "backends/group" EXCLUDE PATTERN "backends/gloo" EXCLUDE
        PATTERN "testdata" EXCLUDE PATTERN "testdata.h" EXCLUDE PATTERN "test_data.h" EXCLUDE
        PATTERN "test_folder.h" EXCLUDE PATTERN "faulty_file_system.h" EXCLUDE PATTERN "curl_library.h" EXCLUDE)

get_property(LATHE_THIRD_PARTY GLOBAL PROPERTY LATHE_THIRD_PARTY)
get_property(LATHE_FMT_KIND GLOBAL PROPERTY LATHE_FMT_KIND)
configure_package_config_file(cmake/lathe-config.cmake.in ${PROJECT_BINARY_DIR}/lathe-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lathe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lathe-config.cmake ${PROJECT_BINARY_DIR}/lathe-config-version.cmake
        DESTINATION ${package_dir})

install(TARGETS program_lathe program_lathe-ops RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(link run_glue run_qa)   # lathe is that command when it is called so
  install(CODE "file(CREATE_LINK lathe \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/${link}\" SYMBOLIC)")
endforeach()
