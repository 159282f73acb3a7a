# zlib: gzip files and the checksums of zip archives.
lathe_static_library(LATHE_ZLIB z)
target_link_libraries(lathe_io PUBLIC ${LATHE_ZLIB})
# OpenSSL's SHA-1 and SHA-256 for what comes from the Hub; macOS has its own.
if(NOT APPLE)
  lathe_static_library(LATHE_CRYPTO crypto)
  target_link_libraries(lathe_io PUBLIC ${LATHE_CRYPTO})
endif()
# Only libcurl's headers: the library is opened when something is fetched (curl_library.h).
find_path(LATHE_CURL_INCLUDE curl/curl.h)
mark_as_advanced(LATHE_CURL_INCLUDE)
if(NOT LATHE_CURL_INCLUDE)
  message(FATAL_ERROR "curl/curl.h is missing; tools/setup.sh installs it (Debian, Ubuntu: libcurl4-openssl-dev)")
endif()
target_include_directories(lathe_io PRIVATE ${LATHE_CURL_INCLUDE})
target_link_libraries(lathe_io PUBLIC ${CMAKE_DL_LIBS})
# hub_fuzz has a function of its own in the place of what stands there.
set_source_files_properties(${PROJECT_SOURCE_DIR}/lathe/io/hub/curl_library.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
