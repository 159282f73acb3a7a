#pragma once

/// 1 where AddressSanitizer or ThreadSanitizer watches this build, else 0.  For tests: what runs there ten
/// times as long is made smaller, as what a sanitizer finds needs each way through the code once and not each
/// input.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LT_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LT_SANITIZED 1
#endif
#ifndef LT_SANITIZED
#define LT_SANITIZED 0
#endif
