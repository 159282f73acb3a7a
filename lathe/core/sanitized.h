#pragma once

/// 1 where AddressSanitizer or ThreadSanitizer watches this build, else 0.  What a sanitizer finds needs each
/// way through the code once and not each input: tests that run ten times as long there are made smaller, and
/// kernels are not unrolled, which took minutes to compile.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LATHE_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LATHE_SANITIZED 1
#endif
#ifndef LATHE_SANITIZED
#define LATHE_SANITIZED 0
#endif
