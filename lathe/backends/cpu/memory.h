#pragma once
#include <cstddef>
#include <memory>

namespace lathe::cpu {

/// `bytes` zeros, aligned to 64; large ones to 2 MiB and on big pages where the system has them, so that a
/// product that walks down rows does not miss an address translation at each.  Null if there is no memory.
std::shared_ptr<std::byte> allocate_zeroed(size_t bytes);

/// Of allocate_zeroed's memory, before its first touch: it comes into being by small pages, as little of it
/// will be written, here and there.
void prefer_small_pages(void* begin, size_t bytes);

/// Writes zeros, past the caches where the processor can: for much memory that is not read soon.
void write_zeros(void* to, size_t bytes);

}  // namespace lathe::cpu
