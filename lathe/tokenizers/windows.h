#pragma once
#include <cstddef>
#include <vector>

#include "lathe/tokenizers/tokenizer.h"

namespace lathe {

/// Tokens [begin, end) of one text.
struct Window {
  size_t begin, end;
  bool operator==(const Window&) const = default;
};

/// The windows of each text after truncation; the first is what stays, the others are what overflows.  A text
/// that is whole has one.
struct Windows {
  std::vector<Window> first, second;  ///< second is empty if there is no second text
};

/// Cuts texts of n_first and n_second tokens (n_second < 0: there is none) to `room` tokens together; `left`:
/// their beginnings give way, and windows begin at the end.
/// Source: truncate_encodings of the `tokenizers` crate.
/// Errors: kUsage if the text that may be cut is too short for it, is not there, or if stride leaves no
/// progress.
Windows truncate(size_t n_first, std::ptrdiff_t n_second, size_t room, const EncodeOptions& options,
                 bool left);

}  // namespace lathe
