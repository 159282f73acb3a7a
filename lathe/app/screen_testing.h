// A terminal whose clock a test moves, and everything written to it.
#pragma once
#include <string>

#include "lathe/app/terminal/terminal.h"

namespace lathe {

struct Screen {
  std::string out, err;
  double now = 0;
  TerminalPort port(bool interactive = true) {
    return {.out = [this](std::string_view text) { out += text; },
            .err = [this](std::string_view text) { err += text; },
            .width = [] { return 81; },
            .now = [this] { return now; },
            .unicode = false,
            .interactive = interactive};
  }
};

}  // namespace lathe
