# Host transports are libraries of their own, loaded when several processes train: the programs start without them.
# lathe_transport(name include_folder library component): lathe/backends/NAME/NAME_transport.cc as liblathe_NAME.so.
function(lathe_transport name include library component)
  add_library(lathe_${name} MODULE ${PROJECT_SOURCE_DIR}/lathe/backends/${name}/${name}_transport.cc)
  set_target_properties(lathe_${name} PROPERTIES SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
  target_include_directories(lathe_${name} SYSTEM PRIVATE ${include})
  target_link_libraries(lathe_${name} PRIVATE lathe_flags ${library} ${CMAKE_DL_LIBS} Threads::Threads)
  add_dependencies(lathe_group lathe_${name})   # whoever uses the group finds it beside the program
  install(TARGETS lathe_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lathe COMPONENT ${component})
endfunction()
target_link_libraries(lathe_group PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
# OpenSSL's SHA-256 for what ranks prove to each other; macOS has its own.
if(NOT APPLE)
  lathe_static_library(LATHE_CRYPTO crypto)
  target_link_libraries(lathe_group PUBLIC ${LATHE_CRYPTO})
endif()
if(LATHE_GLOO)
  find_path(LATHE_GLOO_INCLUDE gloo/allreduce.h)
  find_library(LATHE_GLOO_LIBRARY gloo)
  mark_as_advanced(LATHE_GLOO_INCLUDE LATHE_GLOO_LIBRARY)
endif()
if(LATHE_GLOO AND LATHE_GLOO_INCLUDE AND LATHE_GLOO_LIBRARY)
  lathe_transport(gloo ${LATHE_GLOO_INCLUDE} ${LATHE_GLOO_LIBRARY} programs)
else()
  message(STATUS "Gloo is not found (Debian, Ubuntu: libgloo-dev): several processes train through the ring")
endif()

# Open MPI alone: what mpicc of another MPI gives stands under other names, with another binary interface.
if(LATHE_MPI)
  find_path(LATHE_MPI_INCLUDE mpi.h PATH_SUFFIXES openmpi lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include
                                                  lib/openmpi/include openmpi-${CMAKE_SYSTEM_PROCESSOR})
  find_library(LATHE_MPI_LIBRARY NAMES mpi PATH_SUFFIXES openmpi/lib)
  mark_as_advanced(LATHE_MPI_INCLUDE LATHE_MPI_LIBRARY)
endif()
if(LATHE_MPI AND LATHE_MPI_INCLUDE AND LATHE_MPI_LIBRARY)
  lathe_transport(mpi ${LATHE_MPI_INCLUDE} ${LATHE_MPI_LIBRARY} mpi)   # no package of the programs asks for an MPI
else()
  message(STATUS "Open MPI is not found (Debian, Ubuntu: libopenmpi-dev): --ddp_backend mpi is left out")
endif()

# JACCL: MLX's library for RDMA over Thunderbolt, beside libmlx.dylib. Elsewhere a stand-in is linked in its place, for tests
# alone: liblathe_jaccl_stand_in.so.
if(MLX_DIR)
  list(PREPEND mlx_wheel ${MLX_DIR}/../../..)
endif()
find_path(LATHE_JACCL_INCLUDE jaccl/group.h HINTS ${mlx_wheel} PATH_SUFFIXES include/mlx/distributed/jaccl/lib)
find_library(LATHE_JACCL_LIBRARY jaccl HINTS ${mlx_wheel} PATH_SUFFIXES lib)
mark_as_advanced(LATHE_JACCL_INCLUDE LATHE_JACCL_LIBRARY)
if(LATHE_MLX AND APPLE AND LATHE_JACCL_INCLUDE AND LATHE_JACCL_LIBRARY)
  lathe_transport(jaccl ${LATHE_JACCL_INCLUDE} ${LATHE_JACCL_LIBRARY} wheel_parts)
  target_compile_options(lathe_jaccl PRIVATE -mmacosx-version-min=14.0)   # MLX's own
  target_link_options(lathe_jaccl PRIVATE -mmacosx-version-min=14.0)
  get_filename_component(place ${LATHE_JACCL_LIBRARY} DIRECTORY)
  set_target_properties(lathe_jaccl PROPERTIES INSTALL_RPATH "@loader_path;${place}")
elseif(LATHE_TESTS AND LATHE_JACCL_INCLUDE)
  add_library(lathe_jaccl_stand_in MODULE ${PROJECT_SOURCE_DIR}/lathe/backends/jaccl/jaccl_transport.cc
                                          ${PROJECT_SOURCE_DIR}/lathe/backends/jaccl/jaccl_testing.cc)
  set_target_properties(lathe_jaccl_stand_in PROPERTIES SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
  target_include_directories(lathe_jaccl_stand_in SYSTEM PRIVATE ${LATHE_JACCL_INCLUDE})
  target_link_libraries(lathe_jaccl_stand_in PRIVATE lathe_flags Threads::Threads)
  add_dependencies(lathe_group lathe_jaccl_stand_in)
endif()
