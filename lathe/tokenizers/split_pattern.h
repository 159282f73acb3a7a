#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace lathe {

/// Regular expressions that part a text into words, known by how they are written.  Each matches at every
/// place, so that its matches cover a text.
enum class SplitPattern {
  kGpt2,        ///< 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kOneDigit,    ///< Qwen2's: the next one, with \p{N} in place of \p{N}{1,3}
  kThreeDigits  ///< cl100k's, Llama 3's: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
                ///<  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
};

/// The pattern that is written this way, or another way that matches the same.
std::optional<SplitPattern> find_split_pattern(std::string_view regex);

/// Where the match ends that begins at text[at].  text: valid UTF-8; at: less than its size, at a boundary.
/// Classes and folding of case are those of Oniguruma, which the `tokenizers` package uses.
size_t match_end(SplitPattern pattern, std::string_view text, size_t at);

}  // namespace lathe
