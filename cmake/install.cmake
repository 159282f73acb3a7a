# cmake --install [--strip]: four components. `programs`: the programs and the parts that they load, completions, the manual
# page, docs, licence. `wheel_parts`: the part that stands on libraries of MLX's Python wheel of this machine, which packages
# do not hold. `mpi`: the transport through Open MPI, which no package shall ask for. `library`: headers, archives, and find_package(lathe) with the target lathe::lathe.
include(CMakePackageConfigHelpers)

add_library(lathe_lathe INTERFACE)
add_library(lathe::lathe ALIAS lathe_lathe)
set_target_properties(lathe_lathe PROPERTIES EXPORT_NAME lathe)
target_link_libraries(lathe_lathe INTERFACE lathe_api)

set(lathe_installed lathe_flags lathe_lathe)
get_property(layers GLOBAL PROPERTY LATHE_LAYERS)
list(REMOVE_ITEM layers app)   # the command line
foreach(layer ${layers})
  set_target_properties(lathe_${layer} PROPERTIES EXPORT_NAME ${layer})
  list(APPEND lathe_installed lathe_${layer})
endforeach()
install(TARGETS ${lathe_installed} EXPORT lathe-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lathe)
install(EXPORT lathe-targets NAMESPACE lathe:: DESTINATION ${package_dir} COMPONENT library)

# Public headers: neither the command line, nor the inside of a device, nor what only tests use.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/lathe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
        FILES_MATCHING PATTERN "*.h"
        PATTERN "lathe/app" EXCLUDE REGEX "/lathe/backends/[^/.]+$" EXCLUDE
        PATTERN "testdata" EXCLUDE PATTERN "testdata.h" EXCLUDE PATTERN "test_data.h" EXCLUDE
        PATTERN "test_folder.h" EXCLUDE PATTERN "*_testing.h" EXCLUDE PATTERN "curl_library.h" EXCLUDE
        PATTERN "parquet_arrow.h" EXCLUDE)

get_property(LATHE_THIRD_PARTY GLOBAL PROPERTY LATHE_THIRD_PARTY)
get_property(LATHE_FMT_KIND GLOBAL PROPERTY LATHE_FMT_KIND)
configure_package_config_file(cmake/lathe-config.cmake.in ${PROJECT_BINARY_DIR}/lathe-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lathe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lathe-config.cmake ${PROJECT_BINARY_DIR}/lathe-config-version.cmake
        DESTINATION ${package_dir} COMPONENT library)

install(TARGETS program_lathe program_lathe-ops RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set(links ${PROJECT_BINARY_DIR}/links)
file(MAKE_DIRECTORY ${links})
set(scripts run_glue run_classification run_qa run_ner run_mlm run_clm run_swag)
foreach(script ${scripts})   # lathe is that command when it is called so; shells look for completions by its name
  file(CREATE_LINK lathe ${links}/${script} SYMBOLIC)
  file(CREATE_LINK lathe.fish ${links}/${script}.fish SYMBOLIC)
endforeach()
list(TRANSFORM scripts PREPEND ${links}/)
list(TRANSFORM scripts APPEND .fish OUTPUT_VARIABLE fish_scripts)
install(FILES ${scripts} DESTINATION ${CMAKE_INSTALL_BINDIR})

# What the program itself says of its words: completions and the manual page.
if(NOT CMAKE_CROSSCOMPILING)
  set(said ${PROJECT_BINARY_DIR}/said)
  add_custom_command(OUTPUT ${said}/lathe.1 DEPENDS program_lathe
                     COMMAND ${CMAKE_COMMAND} -E make_directory ${said}
                     COMMAND program_lathe completion bash >${said}/lathe.bash
                     COMMAND program_lathe completion zsh >${said}/_lathe
                     COMMAND program_lathe completion fish >${said}/lathe.fish
                     COMMAND program_lathe arguments --man >${said}/lathe.1)
  add_custom_target(lathe_said ALL DEPENDS ${said}/lathe.1)
  set(completions ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${said}/lathe.bash DESTINATION ${completions} RENAME lathe)
  install(FILES ${scripts} DESTINATION ${completions})
  install(FILES ${said}/_lathe DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${said}/lathe.fish ${fish_scripts}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(FILES ${said}/lathe.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES packaging/lathe-ops.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
file(GLOB docs CONFIGURE_DEPENDS docs/*.md)
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${docs} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY docs/images DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
