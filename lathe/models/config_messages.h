#pragma once

namespace lathe {

/// The way out of a config.json that does not fit: what the shapes of the weights need is in the other one.
inline constexpr const char* kTakeSavedConfig = "take the config.json that was saved with the weights";

}  // namespace lathe
