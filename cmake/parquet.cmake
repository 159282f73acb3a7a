# liblathe_parquet, the part that reads Parquet: built where Apache Arrow's C++ library is found, as a package (Homebrew,
# Arrow's own for apt) or inside the Python wheel pyarrow, which carries headers and libraries. LATHE_PYARROW names the
# wheel's folder; else it is that of build/venv-parquet (tools/setup.sh), of build/venv, or of the python3 on the path. What
# is installed has the wheel's two libraries next to the part.
option(LATHE_PARQUET "Build the part that reads Parquet where Apache Arrow is found" ON)
set(LATHE_PYARROW "" CACHE PATH "Folder of the Python package pyarrow")

function(lathe_find_pyarrow var)   # looks again at each build, so that a wheel that came later is found
  set(folder "${LATHE_PYARROW}")
  foreach(venv venv-parquet venv)
    file(GLOB there CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/build/${venv}/lib/python3*/site-packages/pyarrow)
    if(NOT folder)
      set(folder "${there}")
    endif()
  endforeach()
  if(NOT folder)
    execute_process(COMMAND python3 -c "import importlib.util as u; s = u.find_spec('pyarrow'); print(s.submodule_search_locations[0] if s else '')"
                    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(${var} "${folder}" PARENT_SCOPE)
endfunction()

if(LATHE_PARQUET)
  find_package(Parquet QUIET)
  if(TARGET Parquet::parquet_shared)
    set(lathe_arrow_libraries Parquet::parquet_shared Arrow::arrow_shared)
    set(lathe_arrow_from "package Parquet ${Parquet_VERSION}")
  else()
    lathe_find_pyarrow(pyarrow)
    file(GLOB lathe_arrow_libraries CONFIGURE_DEPENDS ${pyarrow}/libarrow.so.*[0-9] ${pyarrow}/libparquet.so.*[0-9]
         ${pyarrow}/libarrow.*[0-9].dylib ${pyarrow}/libparquet.*[0-9].dylib)
    list(LENGTH lathe_arrow_libraries count)
    if(NOT count EQUAL 2 OR NOT EXISTS ${pyarrow}/include/parquet/arrow/reader.h)
      set(lathe_arrow_libraries)
    endif()
    set(lathe_arrow_from ${pyarrow})
  endif()
endif()

# lathe_parquet_library(target): the part, as a file of its own for each place that finds Arrow in another way.
function(lathe_parquet_library target)
  add_library(${target} MODULE $<TARGET_OBJECTS:lathe_parquet_code>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME lathe_parquet PREFIX lib SUFFIX ${CMAKE_SHARED_LIBRARY_SUFFIX}
                        LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PRIVATE ${lathe_arrow_libraries})
endfunction()

if(lathe_arrow_libraries)
  message(STATUS "Parquet: Apache Arrow of ${lathe_arrow_from}")
  add_library(lathe_parquet_code OBJECT lathe/data/parquet_part.cc lathe/data/parquet_writer_part.cc)
  set_target_properties(lathe_parquet_code PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(lathe_parquet_code PRIVATE lathe_flags)
  lathe_parquet_library(lathe_parquet_part)
  if(TARGET parquet_fuzz)
    add_dependencies(parquet_fuzz lathe_parquet_part)   # it opens the part next to it
  endif()
  set(parts ${CMAKE_INSTALL_LIBDIR}/lathe)
  install(TARGETS lathe_parquet_part LIBRARY DESTINATION ${parts} OPTIONAL)
  if(pyarrow)
    target_include_directories(lathe_parquet_code SYSTEM PRIVATE ${pyarrow}/include)
    set_target_properties(lathe_parquet_part PROPERTIES BUILD_RPATH ${pyarrow} INSTALL_RPATH ${lathe_own_folder})
    install(FILES ${lathe_arrow_libraries} DESTINATION ${parts})
    if(NOT APPLE)   # where it would break the signature
      foreach(library ${lathe_arrow_libraries})
        get_filename_component(name ${library} NAME)
        install(CODE "if(CMAKE_INSTALL_DO_STRIP)
          execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${parts}/${name}\")
        endif()")
      endforeach()
    endif()
    file(GLOB licences ${pyarrow}/../pyarrow-*.dist-info/licenses/*.txt)
    install(FILES ${licences} DESTINATION ${CMAKE_INSTALL_DOCDIR}/arrow)
  else()
    target_link_libraries(lathe_parquet_code PRIVATE ${lathe_arrow_libraries})
  endif()
elseif(LATHE_PARQUET)
  message(STATUS "Parquet: left out, no Apache Arrow here (make parquet brings it)")
endif()
