lathe_static_library(DATA_UTF8PROC utf8proc)
target_link_libraries(lathe_data PRIVATE ${DATA_UTF8PROC})
# Where an installed program looks for the part that reads Parquet, seen from the folder above its own.
include(GNUInstallDirs)
target_compile_definitions(lathe_data PRIVATE LATHE_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
