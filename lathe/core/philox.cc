#include "lathe/core/philox.h"

#include <cmath>

namespace lathe {

uint32_t dropout_threshold(double p) { return static_cast<uint32_t>(std::lround(p * 65536)); }

float dropout_scale(double p) { return static_cast<float>(65536.0 / (65536.0 - dropout_threshold(p))); }

uint32_t dropout_site(std::string_view name) {
  uint32_t h = 2166136261u;
  for (char c : name) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return h;
}

}  // namespace lathe
