lathe_static_library(DATA_UTF8PROC utf8proc)
target_link_libraries(lathe_data PRIVATE ${DATA_UTF8PROC})
