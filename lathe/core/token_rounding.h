#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace lathe {

/// The number of tokens to which a batch is padded.  Each such number needs its own program: coarse steps
/// make few programs, fine ones waste little.  A step is a 32nd of the tokens, as a power of two, within
/// bounds; so the filling is at most a 32nd where `least` and `most` do not bind.
struct TokenRounding {
  int least = 1, most = 1;  ///< powers of two

  int64_t operator()(int64_t tokens) const {
    const uint64_t share = static_cast<uint64_t>(tokens) / 32;
    const int64_t step = std::clamp<int64_t>(static_cast<int64_t>(std::bit_floor(share)), least, most);
    return (tokens + step - 1) / step * step;
  }
};

}  // namespace lathe
