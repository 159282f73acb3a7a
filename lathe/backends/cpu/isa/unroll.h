#pragma once
#include "lathe/core/sanitized.h"

// LATHE_UNROLL, before a loop over registers: they stay registers only if it is unrolled early.
#if LATHE_SANITIZED
#define LATHE_UNROLL
#elif defined(__clang__)
#define LATHE_UNROLL _Pragma("unroll")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 16")
#endif
