#pragma once
#include <string>
#include <string_view>

namespace lathe {

/// What bytes are that stand where text or weights were expected, with the way out: "a web page, as …: …",
/// "gzip data: …", "nothing: …".  Known by their first bytes; empty if these are not known.
std::string_view foreign_content(std::string_view bytes);

/// Throws kInvalidData "file: expected `wanted`, found …" if foreign_content knows what the file holds
/// instead.
void refuse_foreign_content(std::string_view bytes, const std::string& file, std::string_view wanted);

}  // namespace lathe
