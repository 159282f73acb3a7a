# {fmt} from its headers, compiled by lathe/core/fmt_impl.cc.
find_path(fmt_INCLUDE fmt/core.h REQUIRED)
file(STRINGS ${fmt_INCLUDE}/fmt/core.h version REGEX "^#define FMT_VERSION ")
string(REGEX REPLACE "[^0-9]" "" version "${version}")
math(EXPR fmt_VERSION "${version} / 10000")
string(APPEND fmt_VERSION ".")
add_library(fmt::fmt INTERFACE IMPORTED)
target_include_directories(fmt::fmt INTERFACE ${fmt_INCLUDE})
set(fmt_FOUND TRUE)
