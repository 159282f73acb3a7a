#pragma once

namespace lathe {

/// std::strtod with a decimal point in any locale that the calling program has set: with a German one strtod
/// reads "0.25" as 0.
double strtod_c(const char* text, char** end = nullptr);

}  // namespace lathe
