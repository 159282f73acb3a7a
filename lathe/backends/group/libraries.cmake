# Host transports are libraries of their own, loaded when several processes train: the programs start without them.
target_link_libraries(lathe_group PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
if(LATHE_GLOO)
  find_path(LATHE_GLOO_INCLUDE gloo/allreduce.h)
  find_library(LATHE_GLOO_LIBRARY gloo)
  mark_as_advanced(LATHE_GLOO_INCLUDE LATHE_GLOO_LIBRARY)
endif()
if(LATHE_GLOO AND LATHE_GLOO_INCLUDE AND LATHE_GLOO_LIBRARY)
  add_library(lathe_gloo MODULE ${PROJECT_SOURCE_DIR}/lathe/backends/gloo/gloo_transport.cc)
  set_target_properties(lathe_gloo PROPERTIES SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
  target_include_directories(lathe_gloo SYSTEM PRIVATE ${LATHE_GLOO_INCLUDE})
  target_link_libraries(lathe_gloo PRIVATE lathe_flags ${LATHE_GLOO_LIBRARY})
  add_dependencies(lathe_group lathe_gloo)   # whoever uses the group finds it beside the program
  install(TARGETS lathe_gloo LIBRARY DESTINATION lib/lathe)   # where find_transport looks
else()
  message(STATUS "Gloo is not found (Debian, Ubuntu: libgloo-dev): several processes cannot train on the cpu")
endif()
