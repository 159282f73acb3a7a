target_link_libraries(lathe_mlx PUBLIC ${CMAKE_DL_LIBS})

# Program and module must be of one build: the module's entry is named after all sources of the module. Files in the
# order of their names, without the place of the project, so that every checkout gives the same name.
file(GLOB mlx_parts CONFIGURE_DEPENDS LIST_DIRECTORIES false RELATIVE ${PROJECT_SOURCE_DIR}
     lathe/core/* lathe/program/* lathe/ops/* lathe/backends/mlx/*)
list(FILTER mlx_parts EXCLUDE REGEX "_(test|fuzz)\\.cc$")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/mlx_parts.txt CONTENT "@mlx_parts@" @ONLY)
set(mlx_entry ${PROJECT_BINARY_DIR}/generated/lathe/backends/mlx/entry_name.h)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/mlx_fingerprint BYPRODUCTS ${mlx_entry}
  COMMAND ${CMAKE_COMMAND} -DLIST=${PROJECT_BINARY_DIR}/mlx_parts.txt -DHEADER=${mlx_entry}
          "-DBUILT_BY=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_SYSTEM_PROCESSOR}"
          -P ${PROJECT_SOURCE_DIR}/cmake/fingerprint.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/mlx_fingerprint
  DEPENDS ${mlx_parts} ${PROJECT_SOURCE_DIR}/cmake/fingerprint.cmake ${PROJECT_BINARY_DIR}/mlx_parts.txt
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "Naming the module of the device mps after its sources")
add_custom_target(lathe_mlx_entry DEPENDS ${PROJECT_BINARY_DIR}/mlx_fingerprint)
add_dependencies(lathe_mlx lathe_mlx_entry)
target_include_directories(lathe_mlx PRIVATE ${PROJECT_BINARY_DIR}/generated)
