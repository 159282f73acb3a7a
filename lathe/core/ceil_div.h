#pragma once
#include <type_traits>

namespace lathe {

/// a / b, rounded up.  a: not negative, b: positive; their sum has no overflow.
template <typename Int>
constexpr Int ceil_div(Int a, std::type_identity_t<Int> b) {
  return (a + b - 1) / b;
}

/// The least multiple of b that is a or more.
template <typename Int>
constexpr Int round_up(Int a, std::type_identity_t<Int> b) {
  return ceil_div(a, b) * b;
}

}  // namespace lathe
