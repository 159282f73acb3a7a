lathe_static_library(TEXT_UTF8PROC utf8proc)
target_link_libraries(lathe_text PRIVATE ${TEXT_UTF8PROC})
