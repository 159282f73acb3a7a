# CMake asks the machine for its macOS, finds none, and takes one before paths of libraries.
foreach(language C CXX)
  set(CMAKE_SHARED_LIBRARY_RUNTIME_${language}_FLAG "-Wl,-rpath,")
  set(CMAKE_EXECUTABLE_RUNTIME_${language}_FLAG "-Wl,-rpath,")
endforeach()
