#pragma once

/// 1 where AddressSanitizer or ThreadSanitizer watches this build, else 0.  A sanitizer needs each way
/// through the code once, not each input.  So tests that take ten times as long there are made smaller, and
/// kernels are not unrolled, because that took minutes to compile.
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
