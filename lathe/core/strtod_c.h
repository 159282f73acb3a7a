#pragma once

namespace lathe {

/// std::strtod with a decimal point, whatever locale the program around Lathe has set: under a German one
/// strtod reads "0.25" as 0.
double strtod_c(const char* text, char** end = nullptr);

}  // namespace lathe
