#pragma once

namespace lathe {

/// Semantic version of the library, the program's flags and the checkpoint format.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace lathe
