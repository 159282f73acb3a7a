# zlib: gzip files and the checksums of zip archives.
lathe_static_library(LATHE_ZLIB z)
target_link_libraries(lathe_io PUBLIC ${LATHE_ZLIB})
