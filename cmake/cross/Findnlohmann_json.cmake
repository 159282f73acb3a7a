# nlohmann-json has only headers.
find_path(nlohmann_json_INCLUDE nlohmann/json.hpp REQUIRED)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${nlohmann_json_INCLUDE})
set(nlohmann_json_FOUND TRUE)
