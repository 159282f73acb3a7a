#pragma once
#include <string_view>
#include <vector>

#include "lathe/text/normalized_text.h"

namespace lathe {

/// Unicode's normal forms (UAX #15).
enum class NormalForm { kNfd, kNfc, kNfkd, kNfkc };

/// Whether the text is surely in the form already: false also where it may be.
bool is_in_form(std::string_view text, NormalForm form);

/// Appends the text (valid UTF-8) in the form to *out.  Source of the changes: the crate
/// unicode-normalization-alignments.
void to_normal_form(std::string_view text, NormalForm form, std::vector<Change>* out);

}  // namespace lathe
