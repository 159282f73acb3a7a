# Host transports are libraries of their own, loaded when several processes train: the programs start without them.
# lathe_transport(name include_folder library component): lathe/backends/NAME/NAME_transport.cc as liblathe_NAME.so.
function(lathe_transport name include library component)
  add_library(lathe_${name} MODULE ${PROJECT_SOURCE_DIR}/lathe/backends/${name}/${name}_transport.cc)
  set_target_properties(lathe_${name} PROPERTIES SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
  target_include_directories(lathe_${name} SYSTEM PRIVATE ${include})
  target_link_libraries(lathe_${name} PRIVATE lathe_flags ${library} ${CMAKE_DL_LIBS} Threads::Threads)
  add_dependencies(lathe_group lathe_${name})   # so that programs that use the group find it next to themselves
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

# Open MPI only: mpicc of another MPI gives libraries of other names with another binary interface.
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
