#include "lathe/core/strtod_c.h"

#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#else
#include <locale.h>
#endif

namespace lathe {

double strtod_c(const char* text, char** end) {
  static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(text, end, c);
}

}  // namespace lathe
