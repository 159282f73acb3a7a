#pragma once
#include <cstddef>
#include <memory>

namespace lathe::cpu {

/// `bytes` zeros, aligned to 64.  Large blocks are aligned to 2 MiB and use big pages where the system has
/// them, so that a product that walks down rows does not miss an address translation at each row.  Null if
/// there is no memory.
std::shared_ptr<std::byte> allocate_zeroed(size_t bytes);

/// For memory of allocate_zeroed, before its first touch: uses small pages, because only little of it will be
/// written, in scattered places.
void prefer_small_pages(void* begin, size_t bytes);

/// Writes zeros, past the caches where the processor can: for much memory that is not read soon.
void write_zeros(void* to, size_t bytes);

}  // namespace lathe::cpu
